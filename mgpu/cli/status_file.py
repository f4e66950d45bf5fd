"""--status-file: how a job ended, as JSON for scripts: so an exit status of mgpu's own is not taken for the job's.

The file is there from the beginning, and says until the end that nothing is known yet: what an earlier command left
there is never read as the outcome of this one, also when this one is killed.
"""

from __future__ import annotations

import errno
import os
import stat

from mgpu.cli.text import say
from mgpu.client.http import MasterError
from mgpu.lean.context import suppress
from mgpu.lean.json import dumps, indented
from mgpu.lean.typing import Any, Mapping, Sequence
from mgpu.wording.jobs import ACTIVE, signal_of

OF_THE_JOB = ("job_id", "state", "reason", "detail", "attempt", "submit_time", "start_time", "end_time")
UNFINISHED = {"code": "unfinished", "message": "mgpu has not ended yet, or was killed", "hint": ""}


class StatusFile:
    """`told`: what became of it is written."""

    def __init__(self, path: str) -> None:
        """Raises MasterError (bad_request) where it cannot be written."""
        self._path = path
        self.told = False
        self._begun: Mapping[str, Any] | None = None
        try:
            self._write(document(None, None, UNFINISHED))
        except OSError as error:
            said = f"--status-file {path}: {error.strerror or error}"
            raise MasterError("bad_request", said, "name a file that can be written") from error

    def begun(self, job: Mapping[str, Any]) -> None:
        """The job is known; how it ends is not."""
        self._begun = job
        self._try(document(job, None, UNFINISHED))

    def tell(
        self,
        job: Mapping[str, Any] | None,
        exit_status: int,
        error: Mapping[str, str] | None = None,
        jobs: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """`job` None = the one that was begun, if any; `error`: why it is not known how it ended. `jobs`: where several
        were waited for, each of them."""
        self.told = True
        several = {"jobs": [document(one, None, None) for one in jobs]} if jobs else {}
        self._try({**document(job or self._begun, exit_status, error), **several})

    def _try(self, made: Mapping[str, Any]) -> None:
        try:
            self._write(made)
        except OSError as error:
            say(f"--status-file {self._path}: {error.strerror or error}: it does not say how this ended")

    def _write(self, made: Mapping[str, Any]) -> None:
        """As a whole or not at all; a pipe or a device gets a line each time."""
        text = indented(made) + "\n"
        if os.path.isdir(self._path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if os.path.exists(self._path) and not stat.S_ISREG(os.stat(self._path).st_mode):
            if self.told:
                with open(self._path, "w") as file:
                    file.write(dumps(made) + "\n")
            return
        place = os.path.realpath(self._path)  # a link stays one
        fresh = os.path.join(os.path.dirname(place), f".{os.path.basename(place)[:200]}.{os.urandom(6).hex()}")
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "w") as file:
                file.write(text)
            os.replace(fresh, place)
        except OSError:
            with suppress(OSError):
                os.unlink(fresh)
            raise


def document(job: Mapping[str, Any] | None, exit_status: int | None, error: Mapping[str, str] | None) -> dict[str, Any]:
    """All keys are always there. `exit_status` is what mgpu ends with; `exit_code` and `signal` are the job's own."""
    job = job or {}
    over = job.get("state") not in (None, *ACTIVE)
    code = job.get("exit_code") if over else None
    return {
        **{key: job.get(key) for key in OF_THE_JOB},
        "exit_code": code,
        "signal": signal_of(code),
        "nodes": [part["node"] for part in job.get("allocation") or ()],
        "exit_status": exit_status,
        "error": None if error is None else dict(error),
    }


def named_in(words: Sequence[str]) -> str:
    """The file that a command line names which cannot be read; "" = none."""
    words = list(words)
    words = words[: words.index("--")] if "--" in words else words
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--status-file"):
            return word.partition("=")[2] or following
    return ""
