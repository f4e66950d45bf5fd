"""mgpu config: is the configuration sound?"""

from __future__ import annotations

from pathlib import Path

from mgpu.cli.session import Session
from mgpu.cli.syntax import Argument, Group, command
from mgpu.cli.text import clean, count, say

COMMANDS = {"check": ("mgpu.cli.config:check", "Report all faults of the configuration.")}
EXAMPLES = """
Examples:
  mgpu config check
  mgpu config check ./cluster_config.yaml
"""


config = Group("config", "Look at the configuration.", COMMANDS)


@command(Argument("file", nargs="?"), examples=EXAMPLES)
def check(session: Session, /, file: str | None) -> int:
    """Load the configuration (FILE, or the one in force) and report every fault with file, line and column."""
    from mgpu.config import load
    from mgpu.core.errors import ConfigError

    path = file or session.config_path()
    try:
        loaded = load(Path(path).absolute() if path else None)
    except ConfigError as error:
        if session.json:
            session.print_json({"ok": False, "config": path, "nodes": [], "warnings": [], "faults": error.faults})
        else:
            for fault in error.faults:
                print(clean(fault))
            say(f"{count(len(error.faults), 'fault')} in {path}")
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
