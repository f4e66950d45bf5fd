"""Which of some jobs have ended: looked for in rounds, few requests each, however many jobs there are."""

from __future__ import annotations

from mgpu import clock
from mgpu.client.http import NoMaster, quote, with_query
from mgpu.lean.typing import TYPE_CHECKING, Any
from mgpu.wording.jobs import ACTIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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
        self._arrays: set[int | str] = set()
        self._met = False
        self._lost_since: float | None = None
        self._pause_s = LOOK_AGAIN_S[0]

    def look(self, told: Callable[[Job], None] = lambda job: None) -> list[Job]:
        """Those that have ended since the last look; each of the others is told. Raises MasterError
        for one that is not there, and when no master answers; of one that went away only when patience ends."""
        ended: list[Job] = []
        try:
            for job_id, job in self._seen():
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

    def _seen(self) -> Iterator[tuple[int | str, Job]]:
        """One by one if they are few; else many at a time, but for arrays, of which a list has parts."""
        together = [job_id for job_id in self.left if job_id not in self._arrays]
        if len(together) <= ONE_BY_ONE:
            together = []
        apart = [job_id for job_id in self.left if job_id not in set(together)]
        for first in range(0, len(together), AT_ONCE):
            asked = together[first : first + AT_ONCE]
            rows = self._listed(asked)
            for job_id in asked:
                row = rows.get(str(job_id))
                if row is None or "array" in row:
                    apart.append(job_id)
                else:
                    yield job_id, row
        for job_id in apart:
            job = self._one(job_id)
            if "array" in job:
                self._arrays.add(job_id)
            yield job_id, job

    def _listed(self, asked: Sequence[int | str]) -> dict[str, Job]:
        path = with_query("/v1/jobs", scope="all", ids=",".join(map(str, asked)), limit=AT_ONCE)
        return {str(row["job_id"]): row for row in self._call("GET", path)["jobs"]}

    def _one(self, job_id: int | str) -> Job:
        job: Job = self._call("GET", f"/v1/jobs/{quote(str(job_id))}")
        return job

    def _bear(self, error: NoMaster) -> None:
        if not self._met or error.lasting:
            raise error
        now = clock.monotonic()
        self._lost_since = self._lost_since or now
        if self._patience_s is not None and now - self._lost_since >= self._patience_s:
            raise error
