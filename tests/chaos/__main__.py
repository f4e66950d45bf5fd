"""The command: makes a lab, runs a campaign, prints a table, and takes down all that it made."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import NoReturn

from tests.chaos.campaign import Campaign, Result
from tests.chaos.plans import Settings
from tests.chaos.report import table
from tests.lab import Lab, LabError, choose_mode
from tests.lab import Settings as LabSettings
from tests.lab.lab import sweep

PATIENCE_S = 240.0


class OutOfTime(Exception):
    """The whole took longer than it may."""


def main() -> None:
    arguments = parser().parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    signal.signal(signal.SIGALRM, _out_of_time)
    settings = Settings(
        arguments.minutes * 60,
        arguments.seed,
        arguments.nodes,
        arguments.gpus,
        arguments.jobs_per_second,
        arguments.faults_per_second,
    )
    # twice the patience: for the queue, and for reading all of it
    signal.alarm(int(settings.seconds * 1.5 + 2 * arguments.patience + 120))
    try:
        status = run(settings, arguments.patience, arguments.max_sessions)
    except KeyboardInterrupt:
        status = 130
    except LabError as error:
        print(f"chaos: {error}", file=sys.stderr)
        status = 1
    sys.exit(status)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="scripts/chaos", description="Jobs on real sshd hosts under random trouble; then every promise is checked."
    )
    default = Settings(0, 0)
    top.add_argument("--minutes", type=float, default=1.0, metavar="M", help="how long trouble lasts (1)")
    top.add_argument("--seed", type=int, default=1, metavar="S", help="decides the jobs and the faults (1)")
    top.add_argument("--nodes", type=int, default=default.nodes, metavar="N", help="(3)")
    top.add_argument("--gpus", type=int, default=default.gpus, metavar="G", help="of each node (4)")
    top.add_argument("--jobs-per-second", type=float, default=default.jobs_per_s, metavar="R", help="(1)")
    top.add_argument("--faults-per-second", type=float, default=default.faults_per_s, metavar="R", help="(0.35)")
    top.add_argument("--max-sessions", type=int, default=10, metavar="N", help="sshd's MaxSessions (10)")
    top.add_argument(
        "--patience",
        type=float,
        default=PATIENCE_S,
        metavar="S",
        help="seconds for the queue to empty afterwards (240)",
    )
    return top


def run(settings: Settings, patience_s: float, max_sessions: int) -> int:
    """The exit status: 0 = no promise was broken."""
    if choose_mode() != "namespaces":
        raise LabError("faults of links and nodes need the lab in namespaces: run it as root")
    sweep()
    began = monotonic()
    logs = Path(mkdtemp(prefix=f"mgpu-chaos-{settings.seed}-"))
    wanted = LabSettings(settings.nodes, settings.gpus, max_sessions=max_sessions, ephemeral=True)
    keep = True
    try:
        with Lab(wanted, f"chaos-{os.getpid()}") as lab:
            campaign = Campaign(lab, settings, logs, lambda line: print(line, flush=True))
            try:
                result = campaign.run(patience_s)
                keep = bool(result.violations)
            finally:
                if keep:
                    keep_state(lab, logs)
    except (KeyboardInterrupt, LabError):
        keep = False
        raise
    except OutOfTime:
        print(f"chaos: not done in time; what there is of logs is in {logs}", file=sys.stderr)
        return 1
    finally:
        if not keep:
            shutil.rmtree(logs, ignore_errors=True)
    print(table(settings, result, monotonic() - began))
    tell_violations(result, logs)
    return 1 if result.violations else 0


def keep_state(lab: Lab, logs: Path) -> None:
    """The master's state and what the nodes wrote down, before the lab goes."""
    shutil.copytree(lab.state_dir, logs / "state", ignore=shutil.ignore_patterns("*.sock"), dirs_exist_ok=True)
    for node in lab.nodes:
        upper = lab.folder / "fs" / node.name / "upper"
        for place in ("var/tmp/chaos", "var/log"):
            if (upper / place).is_dir():
                shutil.copytree(upper / place, logs / node.name / place, dirs_exist_ok=True)


def tell_violations(result: Result, logs: Path) -> None:
    for violation in result.violations:
        print(f"VIOLATION {violation}")
    if result.violations:
        print(f"Logs are kept in {logs}")


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _out_of_time(_number: int, _frame: object) -> NoReturn:
    raise OutOfTime


if __name__ == "__main__":
    main()
