"""What the master has to tell of itself, for `status`: passes that failed, and what somebody should see to."""

from __future__ import annotations

from pathlib import Path

from mgpu.clock import Clock
from mgpu.config.model import Config
from mgpu.master.edited import Edited
from mgpu.master.outdated import Outdated
from mgpu.master.space import Space
from mgpu.master.troubles import Troubles
from mgpu.meters import Meters


class Concerns:
    """`folder`: that of the state. Any thread."""

    def __init__(self, config: Config, folder: Path, meters: Meters, clock: Clock) -> None:
        self._meters = meters
        self._clock = clock
        self._troubles = Troubles()
        self._space = Space(folder)
        self._edited = Edited(config)
        self.outdated = Outdated()

    def look(self) -> None:
        """Now and then; costs nothing in between."""
        monotonic = self._clock.monotonic()
        self._space.look(monotonic)
        self._edited.look(monotonic)
        self.outdated.look(monotonic)

    def add(self, trouble: str) -> bool:
        """Of a pass. Whether it is worth a line in the log: see Troubles."""
        return self._troubles.add(trouble, self._clock.now())

    def lines(self) -> tuple[str, ...]:
        self.look()
        notices = (self._space.notice, self._edited.notice, self.outdated.notice)
        return (*self._troubles.lines(), *self._meters.troubles(), *filter(None, notices))
