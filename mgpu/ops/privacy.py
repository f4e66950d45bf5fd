"""What somebody sees of jobs that are not theirs (`privacy:` of the configuration).

`full`: all but output. `names`: whose it is, its name, what it has and when; not its command, its directories, nor what
was said of it. `none`: not whose it is either, only that somebody's job has these GPUs, since and until when: without
that nobody could tell why they wait. Admins see all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from mgpu.config.model import Privacy
from mgpu.core.model import Job
from mgpu.ops.context import Caller, Context
from mgpu.ops.render import Json
from mgpu.store.filters import JobFilter

_NAMES_ALONE: Json = {"command": [], "detail": "", "dependency": "", "device_trouble": []}
_NOBODY: Json = {"name": "", "user": "", "account": "", "stop": "", "held": ""}
_OF_OTHERS = (
    "mail_type",
    "mail_user",
    "ship",
    "logins",
    "order",
    "sooner",
    "holders",
    "submit_dir",
    "chdir",
    "output",
    "error",
)


class Owned(Protocol):
    """A job, or what is kept of one."""

    @property
    def uid(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Sight:
    """Of one caller. Two with the same value see the same."""

    uid: int
    user: str
    privacy: Privacy

    def sees(self, uid: int) -> bool:
        """All of that user's jobs."""
        return self.privacy == "full" or uid == self.uid

    def knows(self, uid: int) -> bool:
        """Whose jobs those are."""
        return self.privacy != "none" or uid == self.uid

    def of(self, job: Owned, row: Json) -> Json:
        """What is told of the job, as far as it is for this caller."""
        if self.sees(job.uid):
            return row
        told = {key: value for key, value in row.items() if key not in _OF_OTHERS}
        hidden = _NAMES_ALONE if self.knows(job.uid) else {**_NAMES_ALONE, **_NOBODY}
        told |= {key: value for key, value in hidden.items() if key in told}
        if "allocation" in told:
            told["allocation"] = [_without_reason(part) for part in told["allocation"]]
        if "attempts" in told:
            told["attempts"] = [
                {**_without_reason(one), "allocation": [_without_reason(part) for part in one["allocation"]]}
                for one in told["attempts"]
            ]
        if "nodes" in told and isinstance(told["nodes"], list):
            told["nodes"] = []
        return told

    def may_ask(self, wanted: JobFilter) -> JobFilter | None:
        """Without names, nothing is found by them but what is one's own; None = nothing at all."""
        if self.privacy != "none" or not (wanted.user or wanted.name):
            return wanted
        return None if wanted.user not in ("", self.user) else replace(wanted, user=self.user)

    def on_gpu(self, holder: Job | None, row: Json) -> Json:
        """Of a GPU, with what runs there for the job that holds it."""
        if holder is None or self.sees(holder.uid):
            return row
        hidden = {"command": ""} if self.knows(holder.uid) else {"command": "", "user": ""}
        told = {**row, "processes": [{**process, **hidden} for process in row["processes"]]}
        return told if self.knows(holder.uid) else {**told, "user": ""}


def sight_of(context: Context, caller: Caller) -> Sight:
    if context.config.privacy == "full" or context.is_operator(caller):
        return _ALL
    return Sight(caller.uid, caller.user, context.config.privacy)


def _without_reason(row: Json) -> Json:
    return {**row, "reason": ""}


_ALL = Sight(-1, "", "full")
