"""Which of some jobs have ended: looked for in rounds, few requests each, however many jobs there are."""

from __future__ import annotations

from mgpu import clock
from mgpu.client.http import NoMaster, quote, with_query
from mgpu.lean_typing import TYPE_CHECKING, Any
from mgpu.wording.jobs import ACTIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Job = dict[str, Any]  # as the master tells it

LOOK_AGAIN_S = (0.05, 1.0)  # at first, and at last
ONE_BY_ONE = 3
AT_ONCE = 300  # jobs named in one request


def over(job: Job) -> bool:
    return job["state"] not in ACTIVE


class Waiting:
    """`left`: those that have not ended. `call`: as the master's. `patience_s`: how long a master that went away is
    waited for, None = as long as it takes."""

    def __init__(
        self, call: Callable[[str, str], Any], jobs: Iterable[int | str], patience_s: float | None = None
    ) -> None:
        self.left = list(dict.fromkeys(jobs))
        self._call = call
        self._patience_s = patience_s
        self._met = False
        self._lost_since: float | None = None
        self._pause_s = LOOK_AGAIN_S[0]

    def look(self, told: Callable[[Job], None] = lambda job: None) -> list[Job]:
        """Those that have ended since the last look; where few are left, each of the others is told. Raises MasterError
        for one that is not there, and when no master answers; of one that went away only when patience ends."""
        ended: list[Job] = []
        try:
            for job_id in list(self._perhaps()):
                job: Job = self._call("GET", f"/v1/jobs/{quote(str(job_id))}")
                if over(job):
                    ended.append(job)
                    self.left.remove(job_id)
                else:
                    told(job)
        except NoMaster as error:
            self._bear(error)
            return ended
        self._met, self._lost_since = True, None
        return ended

    def pause_s(self) -> float:
        """Until the next look."""
        pause_s, self._pause_s = self._pause_s, min(1.5 * self._pause_s, LOOK_AGAIN_S[1])
        return pause_s

    def _perhaps(self) -> Iterator[int | str]:
        """All, if these are few; else those that are not in the queue any more."""
        if len(self.left) <= ONE_BY_ONE:
            yield from self.left
            return
        for first in range(0, len(self.left), AT_ONCE):
            asked = self.left[first : first + AT_ONCE]
            path = with_query("/v1/jobs", scope="active", ids=",".join(map(str, asked)))
            rows = self._call("GET", path)["jobs"]
            there = {str(row["job_id"]) for row in rows} | {str(row.get("array_job_id")) for row in rows}
            yield from (job_id for job_id in asked if str(job_id) not in there)

    def _bear(self, error: NoMaster) -> None:
        if not self._met or error.lasting:
            raise error
        now = clock.monotonic()
        self._lost_since = self._lost_since or now
        if self._patience_s is not None and now - self._lost_since >= self._patience_s:
            raise error
