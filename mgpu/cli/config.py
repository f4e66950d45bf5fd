"""mgpu config: is the configuration sound, and is it in force?"""

from __future__ import annotations

import os
import time
from pathlib import Path

from mgpu.cli.session import Session
from mgpu.cli.syntax import Argument, Group, Option, command
from mgpu.cli.text import say
from mgpu.client.http import MasterError, NoMaster, shortened
from mgpu.client.lock import is_held
from mgpu.lean.typing import Any
from mgpu.wording.figures import count
from mgpu.wording.letters import clean

SUCCESSION_S = 15.0
AGAIN_S = 0.1
COMMANDS = {
    "check": ("mgpu.cli.config:check", "Report all faults of the configuration."),
    "reload": ("mgpu.cli.config:reload", "Have the master take up the configuration as it is now."),
}
CHECK_EXAMPLES = """
Examples:
  mgpu config check
  mgpu config check ./cluster_config.yaml
"""
EXAMPLES = """
Example, after an edit:
  mgpu config check && mgpu config reload
"""

config = Group("config", "Check the configuration, and bring it into force.", COMMANDS, examples=EXAMPLES)


@command(Argument("file", nargs="?"), examples=CHECK_EXAMPLES)
def check(session: Session, /, file: str | None) -> int:
    """Load the configuration (FILE, or the one in force) and report every fault with file, line and column."""
    from mgpu.config.load import load
    from mgpu.config.policies import load_policies
    from mgpu.core.errors import ConfigError

    if not (file or session.config or os.environ.get("MGPU_CONFIG")):
        session.require_here("config check without FILE")
    path = file or session.config_path()
    try:
        loaded = load(Path(path).absolute() if path else None)
        load_policies(loaded)
    except ConfigError as error:
        if session.json:
            session.print_json({"ok": False, "config": path, "nodes": [], "warnings": [], "faults": error.faults})
        else:
            for fault in error.faults:
                print(clean(shortened(fault)))
            say(shortened(f"{count(len(error.faults), 'fault')} in {path}"))
        return 1
    names = [str(node.name) for node in loaded.nodes]
    if session.json:
        warnings = list(loaded.warnings)
        session.print_json({"ok": True, "config": path, "nodes": names, "warnings": warnings, "faults": []})
        return 0
    for warning in loaded.warnings:
        say(warning)
    print(f"{clean(path) or 'no configuration: this machine alone'}: ok, {count(len(names), 'node')}")
    return 0


@command(
    Option("--yes", "", "Also where none of the nodes would be left."), examples="\nExample:\n  mgpu config reload\n"
)
def reload(session: Session, /, yes: bool) -> int:
    """Have the master that runs take up the configuration as it is now. Jobs run on.

    With faults in it the old one stays in force. A SIGHUP to the master does the same.
    """
    try:
        answer = ask_to_reload(session, all_nodes=yes)
    except NoMaster as error:
        raise fault_of_the_file(session) or error from error
    if session.json:
        session.print_json(answer)
        return 0
    for warning in answer["warnings"]:
        say(warning)
    changes = [f"{key} {', '.join(answer[key])}" for key in ("added", "removed", "changed") if answer[key]]
    print(clean(f"Reloaded; nodes: {'; '.join(changes) or 'as before'}"))
    return 0


def fault_of_the_file(session: Session) -> MasterError | None:
    """Why it may be that no master was found: the file says where to look for one, and this one says nothing, or what
    cannot be read."""
    from mgpu.config.load import load
    from mgpu.core.errors import ConfigError

    path = session.config_path()
    named = session.state_dir or session.named_master() or os.environ.get("MGPU_STATE_DIR")
    if named or not path or session.elsewhere():
        return None
    state_dir = session.location().state_dir
    try:
        load(Path(path))
    except ConfigError as error:
        hint = f"mend it, since the master is looked for where it says; none runs for {state_dir}"
        return MasterError("bad_config", "\n".join(error.faults), hint, 2)
    lines = Path(path).read_text("utf-8-sig").splitlines()
    if any(line.strip() and not line.lstrip().startswith("#") for line in lines):
        return None
    return MasterError("bad_config", f"{path} says nothing", f"is that meant? no master runs for {state_dir}", 2)


def ask_to_reload(session: Session, all_nodes: bool = False) -> Any:
    """The master's answer; one that makes room for its successor is waited for. `all_nodes`: that none is left is
    meant. Raises NoMaster without any."""
    body = {"all_nodes": True} if all_nodes else {}
    for _ in range(int(SUCCESSION_S / AGAIN_S)):
        try:
            return session.master(start_if_missing=False).call("POST", "/v1/reload", body)
        except NoMaster:
            if session.elsewhere() or not is_held(session.location().state_dir):
                raise
            time.sleep(AGAIN_S)
    return session.master(start_if_missing=False).call("POST", "/v1/reload", body)
