"""The configuration as another process reads it, which ends then: what reading needs (pydantic, YAML) is a tenth of the
memory of a master, which lives for months and reads once. Meanwhile whoever asked does something else.

What was read comes back as JSON, field by field: the process runs the program that lies on the disk now, which may be
another than ours.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from mgpu import clock
from mgpu.config.model import Config
from mgpu.core import codec
from mgpu.core.errors import ConfigError, MgpuError
from mgpu.whereabouts import environment

LIMIT_S = 60


class NotRead(MgpuError):
    """Nothing is known of the configuration, as the process that was to read it failed. Another time it may not."""

    code = "not_read"


class Reading:
    """Of the file at `path`, as `load.load` takes it; begins at once. Raises NotRead."""

    def __init__(self, path: Path | None) -> None:
        self._of = path or "the configuration"
        self._mark = secrets.token_hex(16)
        self._until = clock.monotonic() + LIMIT_S
        words = [] if path is None else [str(path.absolute())]
        try:
            with ExitStack() as made:
                # files and no pipes: nobody has to read meanwhile, and what a process leaves behind keeps no end open
                self._told, self._said = (made.enter_context(_in_memory()) for _ in range(2))
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "mgpu.config", self._mark, *words],
                    cwd="/",
                    env=environment(os.environ),
                    stdout=self._told,
                    stderr=self._said,
                )
                made.pop_all()
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from error

    @property
    def is_over(self) -> bool:
        """`result` does not wait."""
        return self.process.poll() is not None or clock.monotonic() > self._until

    def result(self) -> Config:
        """Raises ConfigError with all faults, or NotRead."""
        with self._told, self._said:
            try:
                status = self.process.wait(max(0.0, self._until - clock.monotonic()))
            except subprocess.TimeoutExpired:
                self.process.kill()
                status = self.process.wait()
            if status:
                raise self._failed(_why(status, _all_of(self._said)))
            # whatever a Python of this site says as it begins and ends stands around the marks
            pieces = _all_of(self._told).split(self._mark.encode())
        if len(pieces) != 3:
            raise self._failed("nothing was told of it")
        return self._meant(json.loads(pieces[1]))

    def _meant(self, told: dict[str, object]) -> Config:
        if isinstance(faults := told.get("faults"), list):
            raise ConfigError(faults)
        try:
            found = codec.decode(Config, told["config"])
            if codec.encode(found) == told["config"]:
                return found
        except (TypeError, ValueError, KeyError, AttributeError):
            pass
        raise self._failed("the program on the disk is another than the one that runs", "mgpu restart")

    def _failed(self, why: str, hint: str = "mgpu config check says more") -> NotRead:
        return NotRead(f"{self._of}: cannot be read: {why}", hint)


def load(path: Path | None) -> Config:
    """Raises ConfigError with all faults, or NotRead."""
    return Reading(path).result()


def _in_memory() -> BinaryIO:
    return os.fdopen(os.memfd_create("configuration", os.MFD_CLOEXEC), "w+b")


def _all_of(file: BinaryIO) -> bytes:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


def _why(status: int, said: bytes) -> str:
    if -status in (signal.SIGALRM, signal.SIGKILL):
        return f"it took longer than {LIMIT_S} s, or was killed"
    lines = said.decode(errors="replace").split("\n")
    return next(filter(None, reversed(lines)), f"exit status {status}")
