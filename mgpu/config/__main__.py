"""`python -m mgpu.config MARK [FILE]`: reads a configuration for `mgpu.config.apart`, which finds it between marks."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from mgpu.config.apart import LIMIT_S
from mgpu.core import codec
from mgpu.core.errors import ConfigError


def main(mark: str, *files: str) -> None:
    signal.alarm(LIMIT_S)  # should nobody wait any more
    from mgpu.config.load import load

    told: dict[str, object]
    try:
        told = {"config": codec.encode(load(Path(files[0]) if files else None))}
    except ConfigError as error:
        told = {"faults": error.faults}
    sys.stdout.write(f"{mark}{json.dumps(told)}{mark}\n")


main(*sys.argv[1:])
