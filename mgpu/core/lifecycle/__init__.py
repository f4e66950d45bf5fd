"""Every change of state, as tables. Nothing else in mgpu sets a state.

Theory of operation. A *job* is what the user asked for, an *attempt* one numbered try at it, a *part* the attempt's
share on one node: one supervised process there. Only parts have a life of their own; it is `PART_TABLE`. What a node
tells (or that it tells nothing) reaches a part as `News` and moves it along one arrow. After each batch of news
`settle` draws the conclusions upwards: the attempt's state follows from its parts, the job's from the attempt, and
`core.retry` says what an ended attempt means. What people and plans say of a job is in `jobs`.

Two rules are worth their price everywhere:
- A STARTING part ends only if it started, was fenced, or its node rebooted. A request that was sent may still arrive.
- LOST is an observation. It keeps the devices, and every other news leads out of it again.
"""

from __future__ import annotations

from mgpu.core.lifecycle.attempts import (
    Settlement,
    attempt_state,
    settle,
)
from mgpu.core.lifecycle.jobs import (
    abandon,
    end_array,
    held_by_admin,
    hold,
    hold_next,
    place,
    release,
    reopen_array,
    requeue,
    revive,
    take_out,
    want_restart,
    want_stop,
    wants_restart,
    withdraw,
)
from mgpu.core.lifecycle.milestones import ENDED, REQUEUED, STARTED, Happening, milestones
from mgpu.core.lifecycle.parts import (
    PART_TABLE,
    RUN_DIRECTORY_GONE,
    START_HANGS,
    News,
    PartEvent,
    step_part,
)
from mgpu.core.lifecycle.tables import (
    JOB_TABLE,
    NODE_TABLE,
)

__all__ = [
    "ENDED",
    "JOB_TABLE",
    "NODE_TABLE",
    "PART_TABLE",
    "REQUEUED",
    "RUN_DIRECTORY_GONE",
    "STARTED",
    "START_HANGS",
    "Happening",
    "News",
    "PartEvent",
    "Settlement",
    "abandon",
    "attempt_state",
    "end_array",
    "held_by_admin",
    "hold",
    "hold_next",
    "milestones",
    "place",
    "release",
    "reopen_array",
    "requeue",
    "revive",
    "settle",
    "step_part",
    "take_out",
    "want_restart",
    "want_stop",
    "wants_restart",
    "withdraw",
]
