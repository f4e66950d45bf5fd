"""The user's own file: `setup:`, `env:`, `master:`, and default options under their long names.

All values are the text that stands there (1:30:00 is a time, 010 is 010). PyYAML is imported only if the file exists.
"""

from __future__ import annotations

import os
import stat

from mgpu.client.config_home import config_home
from mgpu.client.http import MasterError, bad_request
from mgpu.client.options import OF_VARIABLES
from mgpu.lean.typing import Any, Mapping, NamedTuple


class OwnConfig(NamedTuple):
    """`folder`: what paths in it are relative to."""

    options: dict[str, str]
    env: dict[str, str]
    folder: str


def load_own_config(environ: Mapping[str, str]) -> OwnConfig:
    """Empty if there is no file. Raises MasterError for one that others could have written, or with faults in it."""
    folder = config_home(environ)
    path = os.path.join(folder, "config.yaml")
    try:
        with open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            text = file.read()
    except FileNotFoundError:
        return OwnConfig({}, {}, folder)
    except OSError as error:
        raise bad_request(f"{path}: {error.strerror}", "make it readable, or remove it") from error
    if facts.st_uid not in (os.getuid(), 0) or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise MasterError(
            "not_allowed",
            f"{path} is not used: others could have written it",
            f"chown it to you, and chmod go-w {path}",
        )
    return OwnConfig(*read_own_config(path, text), folder)


def read_own_config(path: str, text: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """(options by key, variables). Raises MasterError naming file and line."""
    import yaml

    try:
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise bad_request(f"{path}: {' '.join(str(error).split())}", "mend it") from error
    options: dict[str, str] = {}
    env: dict[str, str] = {}
    for name, node in pairs(path, root):
        key = name.replace("-", "_")
        if key == "env":
            env = {variable: scalar(path, value) for variable, value in pairs(path, node)}
        elif key in OF_VARIABLES:
            options[key] = scalar(path, node)
        elif key == "master":
            scalar(path, node)  # read before, by client/own_master.py
        else:
            raise fault(path, node, f"unknown key {name!r}", suggestion(key))
    return options, env


def pairs(path: str, node: Any) -> list[tuple[str, Any]]:
    """The (key, value node) pairs of a mapping; none for an empty file. A key given twice is a fault."""
    import yaml

    if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
        return []
    if not isinstance(node, yaml.MappingNode):
        raise fault(path, node, "not a mapping", "write `name: value` lines")
    found: dict[str, Any] = {}
    for key, value in node.value:
        name = scalar(path, key)
        if name in found:
            raise fault(path, key, f"{name!r} is given twice", "keep one")
        found[name] = value
    return list(found.items())


def scalar(path: str, node: Any) -> str:
    if not isinstance(node.value, str):
        raise fault(path, node, "not a single value", "write `name: value`")
    return node.value


def fault(path: str, node: Any, what: str, hint: str) -> MasterError:
    mark = node.start_mark
    return bad_request(f"{path}:{mark.line + 1}:{mark.column + 1}: {what}", hint)


def suggestion(key: str) -> str:
    import difflib

    near = difflib.get_close_matches(key, [*OF_VARIABLES, "env", "master"], n=1)
    return (
        f"did you mean {near[0].replace('_', '-')}?"
        if near
        else "known are setup, env, master and the long names of options"
    )
