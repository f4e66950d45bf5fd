"""`python -m mgpu.config [FILE]`: reads a configuration for `mgpu.config.apart`, which gets it by the pipe."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from mgpu.config.load import load
from mgpu.config.model import Config
from mgpu.core.errors import ConfigError


def _read(path: Path | None) -> Config | list[str]:
    try:
        return load(path)
    except ConfigError as error:
        return error.faults


sys.stdout.buffer.write(pickle.dumps(_read(Path(sys.argv[1]) if sys.argv[1:] else None)))
