"""One part of an attempt among all of them."""

from __future__ import annotations

from dataclasses import dataclass

from mgpu.core import hostlist
from mgpu.core.model import Attempt, Job, Part


@dataclass(frozen=True, slots=True)
class Gang:
    """`parts` in rank order, `part` is the one that this is about. `addresses`: one a rank, where the other ranks reach
    it, "" = not known. `interfaces`: likewise what goes there from its node, "" = the inventory does not say."""

    job: Job
    attempt: Attempt
    part: Part
    parts: tuple[Part, ...]
    addresses: tuple[str, ...]
    interfaces: tuple[str, ...] = ()

    @property
    def interface(self) -> str:
        """That of this part's node."""
        return self.interfaces[self.part.rank] if self.interfaces else ""

    @property
    def several(self) -> bool:
        return len(self.parts) > 1

    @property
    def gpus(self) -> int:
        """Of all parts."""
        return sum(len(part.uuids) for part in self.parts)

    @property
    def nodes(self) -> str:
        """Their names, in Slurm's bracket form."""
        return hostlist.fold([part.node for part in self.parts])

    @property
    def reached(self) -> str:
        """What Slurm's variables name: under them libraries and scripts look for what they can connect to."""
        return ",".join(self.addresses) if self.several and all(self.addresses) else self.nodes
