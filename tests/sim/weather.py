"""Which kinds of trouble there are, and how often: probabilities, each of one occasion. Calm weather has none."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from random import Random


@dataclass(frozen=True)
class Weather:
    # of a request
    lost: float = 0.0  # it never arrives
    unanswered: float = 0.0  # carried out, but the answer is lost
    belated: float = 0.0  # given up, and carried out later all the same
    refused: float = 0.0  # no session free
    # of an events line
    unheard: float = 0.0
    twice: float = 0.0
    # of a node, per minute
    cut: float = 0.0
    reboot: float = 0.0
    power_off: float = 0.0
    foreign_process: float = 0.0
    foreign_lease: float = 0.0
    full_disk: float = 0.0
    smi_fault: float = 0.0
    given_up: float = 0.0  # while contact is lost
    # of a start on a node
    node_fails: float = 0.0
    no_directory: float = 0.0
    hangs: float = 0.0
    # of a job that runs
    supervisor_killed: float = 0.0
    runner_killed: float = 0.0
    unkillable: float = 0.0
    # of the master
    crash: float = 0.0  # at each step
    restart: float = 0.0  # per minute, between two steps
    store_full: float = 0.0  # of a write
    spool_full: float = 0.0
    # of the head node's speed
    slow: float = 0.0  # of a task or an answer
    # of an operator, per minute and node
    drained: float = 0.0
    # of those who submit, per job
    held: float = 0.0
    depends: float = 0.0
    requeued: float = 0.0
    # of a node's calls to others
    walled: float = 0.0


_RANGES = {
    "lost": 0.1, "unanswered": 0.1, "belated": 0.1, "refused": 0.05, "unheard": 0.5, "twice": 0.2, "cut": 0.5,
    "reboot": 0.3, "power_off": 0.15, "foreign_process": 0.3, "foreign_lease": 0.3, "full_disk": 0.2, "smi_fault": 0.2,
    "given_up": 0.5,
    "node_fails": 0.2, "no_directory": 0.1, "hangs": 0.05, "supervisor_killed": 0.1, "runner_killed": 0.1,
    "unkillable": 0.05, "crash": 0.01, "restart": 1.0, "store_full": 0.1, "spool_full": 0.1, "slow": 0.1,
    "drained": 0.5, "held": 0.4, "depends": 0.6, "requeued": 0.6, "walled": 0.2,
}  # fmt: skip

KINDS = tuple(field.name for field in fields(Weather))
_LATER = (
    "drained",
    "held",
    "depends",
    "requeued",
    "walled",
)  # drawn after the others, so that seeds mean what they meant
_FIRST = tuple(kind for kind in KINDS if kind not in _LATER)
CALM = Weather()


def drawn(random: Random) -> Weather:
    """A few kinds of trouble, each with a strength of its own: not all at once, or none would get far."""
    strengths: dict[str, float] = {}
    for kinds in (_FIRST, *((kind,) for kind in _LATER)):
        chosen = [kind for kind in kinds if random.random() < random.choice((0.15, 0.4, 0.7))]
        strengths |= {kind: _RANGES[kind] * random.choice((0.2, 0.5, 1.0)) for kind in chosen}
    return replace(CALM, **strengths)


def earlier(weather: Weather) -> Weather:
    """Without the kinds that came later: as it was when a seed failed before there were any."""
    return replace(weather, **{kind: getattr(CALM, kind) for kind in _LATER})


def strongest(kinds: frozenset[str] | set[str]) -> Weather:
    return replace(CALM, **{kind: _RANGES[kind] for kind in kinds})
