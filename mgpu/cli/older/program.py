"""One program under several names, for the single-file builds: the name that it was called by says which command."""

from __future__ import annotations

import os
import sys

from mgpu.cli import older
from mgpu.cli.main import main
from mgpu.lean.typing import NoReturn

NAMES = {
    "mgpu_master": older.run_master,
    "mgpu_server": older.run_master,
    "mgpu_node": older.run_node,
    "mgpu_client": older.run_client,
    "mgpu_queue": older.run_queue,
    "mgpu_cancel": older.run_cancel,
    "mgpu_srun": older.run_srun,
}


def program() -> NoReturn:
    """Under any other name it is `mgpu`."""
    NAMES.get(os.path.basename(sys.argv[0]).removesuffix(".pyz"), main)()
