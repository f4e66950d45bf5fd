"""How the following of a job ends before the job does."""

from __future__ import annotations

STOPPED_FOLLOWING = 75


class Leave(Exception):
    """Ends the following, not the job. `over`: the job has ended, only output of it is missing."""

    def __init__(self, exit_code: int, reason: str, over: bool = False) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
        self.reason = reason
        self.over = over
