"""`scripts/lab`: the lab from the command line."""

from __future__ import annotations

import argparse
import os
import sys

from tests.lab.faults import usage
from tests.lab.lab import Lab, Settings, all_labs, release_lock, take_lock
from tests.lab.node import LabError


def main() -> None:
    arguments = parser().parse_args()
    try:
        arguments.act(arguments)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        sys.exit(1)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="scripts/lab", description="Real sshd hosts on this machine, to try mgpu on.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    default = Settings()

    up = commands.add_parser("up", help="make a lab of N nodes")
    up.add_argument("nodes", type=int, metavar="N")
    up.add_argument("--gpus", type=int, default=default.gpus, help="per node (default 4)")
    up.add_argument("--gpu-name", default=default.gpu_name)
    up.add_argument("--memory-mib", type=int, default=default.memory_mib)
    up.add_argument("--shared-home", action="store_true", help="one home for all nodes")
    up.add_argument("--max-sessions", type=int, default=default.max_sessions)
    up.add_argument("--max-startups", default=default.max_startups)
    down = commands.add_parser("down", help="remove it, with all that runs in it")
    status = commands.add_parser("status", help="what is up")
    ssh = commands.add_parser("ssh", help="ssh to a node: NODE [USER] [-- COMMAND...]")
    ssh.add_argument("words", nargs=argparse.REMAINDER, metavar="NODE [USER] [-- COMMAND...]")
    fault = commands.add_parser(
        "fault", help="break something", epilog=usage(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    fault.add_argument("node")
    fault.add_argument("words", nargs=argparse.REMAINDER, metavar="FAULT...")
    for command, act in ((up, _up), (down, _down), (status, _status), (ssh, _ssh), (fault, _fault)):
        command.add_argument("--prefix", default="lab", help="which lab (default: lab)")
        command.set_defaults(act=act)
    return top


def _up(arguments: argparse.Namespace) -> None:
    fields = ("nodes", "gpus", "gpu_name", "memory_mib", "shared_home", "max_sessions", "max_startups")
    lab = Lab(Settings(**{field: getattr(arguments, field) for field in fields}), arguments.prefix)
    lock = take_lock(lab.prefix)
    try:
        lab.up()
    except BaseException:
        lab.down()
        raise
    finally:
        release_lock(lab.prefix, lock)
    for node in lab.nodes:
        print(f"{node.name}  {node.address}:{node.port}  {node.plan.gpus} GPUs")
    print(f"export MGPU_CONFIG={lab.config_path}")
    print(f"ssh -F {lab.ssh_config} {lab.nodes[0].name}")


def _down(arguments: argparse.Namespace) -> None:
    lab = Lab.load(arguments.prefix)
    lock = take_lock(lab.prefix)
    lab.down()
    release_lock(lab.prefix, lock)


def _status(arguments: argparse.Namespace) -> None:
    for prefix in all_labs():
        lab = Lab.load(prefix)
        print(f"{prefix}: {lab.mode}, {lab.config_path}")
        for node in lab.nodes:
            state = "off" if node.init() is None else "up" if node.answers() else "up, sshd does not answer"
            print(f"  {node.name}  {node.address}:{node.port}  {node.plan.gpus} GPUs  {state}")


def _ssh(arguments: argparse.Namespace) -> None:
    words: list[str] = arguments.words
    split = words.index("--") if "--" in words else len(words)
    target, command = words[:split], words[split + 1 :]
    if not 1 <= len(target) <= 2:
        raise LabError("say it as: ssh NODE [USER] [-- COMMAND...]")
    lab = Lab.load(arguments.prefix)
    node = lab.node(target[0])
    user = target[1] if target[1:] else node.user
    os.execvp("ssh", ["ssh", "-F", str(lab.ssh_config), "-l", user, node.name, *command])


def _fault(arguments: argparse.Namespace) -> None:
    print(Lab.load(arguments.prefix).node(arguments.node).fault(*arguments.words))
