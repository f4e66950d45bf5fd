"""What starts a job's processes. One module a launcher, each the three functions of `Launcher`, all pure.

A launcher is told of one part of an attempt among all of them, as a `Gang`, and says what mgpu adds for it: variables,
and the shell text that the part's script ends in. docs/launchers.md tells how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mgpu.core.gang import Gang
from mgpu.core.launchers import mpi, none, torchrun
from mgpu.core.model import Command, Job, LauncherName


class Launcher(Protocol):
    """`settle`, at submission: the command as it is to be run, or RequestError for one that contradicts the request.
    `sizes`: GPUs of each part, or as many tasks as were asked for; () = that is not known yet. `variables`: beside
    those that every job has. `ending`: the end of the script, where it becomes the command."""

    def settle(self, command: Command, sizes: Sequence[int]) -> Command: ...
    def variables(self, gang: Gang) -> dict[str, str]: ...
    def ending(self, gang: Gang) -> str: ...


LAUNCHERS: Mapping[LauncherName, Launcher] = {
    LauncherName.NONE: none,
    LauncherName.TORCHRUN: torchrun,
    LauncherName.MPI: mpi,
}


def settle(launcher: LauncherName, command: Command, sizes: Sequence[int], tasks: int | None) -> Command:
    """As that launcher does; `tasks`: those of each node, None = nothing was said of them. Raises RequestError."""
    return LAUNCHERS[launcher].settle(command, tuple(size if tasks is None else tasks for size in sizes))


def ends_with_rank_0(job: Job) -> bool:
    """The other parts only wait for what that one starts on their nodes."""
    return job.spec.launcher is LauncherName.MPI
