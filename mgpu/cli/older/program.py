"""One program under several names, for the single-file builds: the name that it was called by says which command."""

from __future__ import annotations

import os
import sys

from mgpu.cli import older
from mgpu.cli.main import main
from mgpu.lean_typing import NoReturn

NAMES = {
    "mgpu_master": older.master,
    "mgpu_server": older.master,
    "mgpu_node": older.node,
    "mgpu_client": older.client,
    "mgpu_queue": older.queue,
    "mgpu_cancel": older.cancel,
    "mgpu_srun": older.srun,
}


def program() -> NoReturn:
    """Under any other name it is `mgpu`."""
    NAMES.get(os.path.basename(sys.argv[0]).removesuffix(".pyz"), main)()
