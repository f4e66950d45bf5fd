"""Which of some jobs have ended: looked for in rounds, few requests each, however many jobs there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mgpu import clock
from mgpu.client.http import NoMaster, quote, with_query
from mgpu.sdk.values import Job, JobId, read

LOOK_AGAIN_S = (0.05, 1.0)  # at first, and at last
ONE_BY_ONE = 3
AT_ONCE = 300  # jobs named in one request


class Waiting:
    """`call`: as the master's. `timeout_s` None = as long as it takes; `patience_s`: likewise, with a master that went
    away."""

    def __init__(
        self,
        call: Callable[[str, str], Any],
        jobs: Iterable[JobId],
        timeout_s: float | None = None,
        patience_s: float | None = None,
    ) -> None:
        self.left = list(dict.fromkeys(jobs))
        self._call = call
        self._deadline = None if timeout_s is None else clock.monotonic() + timeout_s
        self._patience_s = patience_s
        self._met = False
        self._lost_since: float | None = None
        self._pause_s = LOOK_AGAIN_S[0]

    def look(self) -> list[Job]:
        """Those that have ended since the last look. Raises MasterError for one that is not there, and when no master
        answers; of one that went away only when patience ends."""
        try:
            ended = list(self._ended())
        except NoMaster as error:
            self._bear(error)
            return []
        self._met, self._lost_since = True, None
        over = {job.job_id for job in ended}
        self.left = [job_id for job_id in self.left if job_id not in over]
        return ended

    def pause_s(self) -> float:
        """Until the next look. Raises TimeoutError when there is no time left."""
        pause_s, self._pause_s = self._pause_s, min(1.5 * self._pause_s, LOOK_AGAIN_S[1])
        if self._deadline is None:
            return pause_s
        left_s = self._deadline - clock.monotonic()
        if left_s <= 0:
            shown = ", ".join(map(str, self.left[:5])) + (" and others" if len(self.left) > 5 else "")
            raise TimeoutError(f"not ended yet: job {shown}")
        return min(pause_s, left_s)

    def _ended(self) -> Iterator[Job]:
        for job_id in self._perhaps():
            job: Job = read(Job.of, self._call("GET", f"/v1/jobs/{quote(str(job_id))}"))
            if job.ended:
                yield job

    def _perhaps(self) -> Iterator[JobId]:
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
