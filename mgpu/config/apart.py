"""The configuration as another process reads it, which ends then: what reading needs (pydantic, YAML) is a tenth of the
memory of a master, which lives for months and reads once. Meanwhile whoever asked does something else."""

from __future__ import annotations

import os
import pickle
import secrets
import subprocess
import sys
from pathlib import Path

from mgpu.config.model import Config
from mgpu.core.errors import ConfigError
from mgpu.whereabouts import environment

LIMIT_S = 60.0


class Reading:
    """Of the file at `path`, as `load` takes it; begins at once. What waits for its result is one thread."""

    def __init__(self, path: Path | None) -> None:
        self._of = path or "the configuration"
        self._mark = secrets.token_hex(16)
        words = [] if path is None else [str(path.absolute())]
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mgpu.config", self._mark, *words],
                cwd="/",
                env=environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from error

    def result(self) -> Config:
        """Raises ConfigError with all faults."""
        try:
            told, said = self.process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise self._failed(f"it took longer than {LIMIT_S:g} s") from None
        if self.process.returncode:
            lines = said.decode(errors="replace").split("\n")
            raise self._failed(next(filter(None, reversed(lines)), f"exit status {self.process.returncode}"))
        # whatever a Python of this site says as it begins comes before the mark
        _, found, behind = told.partition(self._mark.encode())
        if not found:
            raise self._failed("nothing was told of it")
        answer: Config | list[str] = pickle.loads(behind)  # our own process, by a pipe
        if isinstance(answer, list):
            raise ConfigError(answer)
        return answer

    def _failed(self, why: str) -> ConfigError:
        return ConfigError([f"{self._of}: cannot be read: {why}"])


def load(path: Path | None) -> Config:
    """Raises ConfigError with all faults."""
    return Reading(path).result()
