"""`python -m mgpu.config MARK [FILE]`: reads a configuration for `mgpu.config.apart`, which gets it behind the mark."""

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


mark, *files = sys.argv[1:]
sys.stdout.buffer.write(mark.encode() + pickle.dumps(_read(Path(files[0]) if files else None)))
