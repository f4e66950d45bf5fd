"""The command itself, once on each node."""

from __future__ import annotations

from collections.abc import Sequence

from mgpu.core.gang import Gang
from mgpu.core.model import Command
from mgpu.core.shelltext import become


def settle(command: Command, sizes: Sequence[int]) -> Command:
    return command


def variables(gang: Gang) -> dict[str, str]:
    return {}


def ending(gang: Gang) -> str:
    return become(gang.job.spec.command)
