"""The commands of the older system under their names there, with their options: mgpu_master (mgpu_server), mgpu_node,
mgpu_client, mgpu_queue, mgpu_cancel, mgpu_srun. They are today's, but for what went with these names: following a job
ends by itself, and the queue has the nodes under it. docs/from-the-old-system.md says what became of each word."""

from __future__ import annotations

import os
import sys

from mgpu.cli.main import main
from mgpu.lean.typing import Mapping, NoReturn, Sequence


def run_client() -> NoReturn:
    from mgpu.cli.older.client import CLIENT, meant

    main(_with_defaults(meant(sys.argv[1:])), CLIENT)


def run_srun() -> NoReturn:
    main(_with_defaults(["srun", *sys.argv[1:]]))


def run_queue() -> NoReturn:
    from mgpu.cli.older.client import with_nodes

    main(with_nodes(["queue", *sys.argv[1:]]))


def run_cancel() -> NoReturn:
    main(["cancel", *sys.argv[1:]])


def run_master() -> NoReturn:
    from mgpu.cli.older.master import mgpu_master

    main(None, mgpu_master)


def run_node() -> NoReturn:
    from mgpu.cli.older.node import mgpu_node

    # it changes the cluster: not for who only wants to see what it takes
    main(None if sys.argv[1:] else ["--help"], mgpu_node)


def _with_defaults(words: Sequence[str]) -> list[str]:
    from mgpu.cli.older.defaults import with_defaults
    from mgpu.client.http import MasterError
    from mgpu.client.own_config import load_own_config

    try:
        own: Mapping[str, str] = load_own_config(os.environ).options
    except MasterError:  # the command says so itself
        own = {}
    return with_defaults(words, os.environ, own)
