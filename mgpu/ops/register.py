"""A node comes into the inventory by the master's own hand: for who asks from elsewhere, and for machines that register
themselves (`mgpu_node`). Nothing of it is trusted for that: the master still has to get in by SSH, by a host key that
somebody has accepted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mgpu.config import added
from mgpu.config.apart import load
from mgpu.core import payload as read
from mgpu.core.errors import ConfigError, NotAllowed, RequestError
from mgpu.core.model import NodeName
from mgpu.ops import reload
from mgpu.ops.context import Caller, Context, record, require_operator
from mgpu.ops.render import Json

_WORDS = ("hostname", "ip", "connection", "gpu_type", "partition", "user", "identity_file")
_NUMBERS = ("gpu_count", "port")
_KEYS = ("node_id", *_WORDS, *_NUMBERS, "devices", "instead")
_UNCHANGED: Json = {"reloading": False, "added": [], "removed": [], "changed": [], "warnings": []}
_LONGEST = 1000
_MOST = 1 << 20
_MOST_DEVICES = 256


def register(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    """It stands in the inventory, and another master takes over with it; the answer comes before that. `instead`: of
    what was added under this name before. Raises RequestError and CannotReload, and then nothing has changed."""
    require_operator(context, caller, "register nodes")
    read.only_keys(payload, _KEYS, "the key")
    name, given = _parsed(payload)
    _check_own(context, caller, given)
    try:
        with _inventory(context) as config, added.changing(config, load) as file:
            file.add(name, given, instead=payload.get("instead") is True)
            if not file.changed and context.config.path is not None:
                return {"node_id": name, "file": str(file.path), **_UNCHANGED}
            try:
                answer = reload.bring_into_force(context, caller, config)
            except BaseException:
                file.undo()
                raise
            record(context, caller.entry("node add", node=_one(file), detail=f"{name} {_shown(given)}".strip()))
    except ConfigError as error:
        raise RequestError(error.message, error.hint) from error
    except OSError as error:
        what = f"the master cannot write {error.filename or 'its inventory'}: {error.strerror}"
        raise RequestError(what, "on its machine, who can: mgpu node add") from error
    return {"node_id": name, "file": str(file.path), **answer}


def _check_own(context: Context, caller: Caller, given: Mapping[str, Any]) -> None:
    """What is the master's account's own is for who has that account: its machine, where jobs would have its keys and
    its database, and its key files, by name. Raises NotAllowed."""
    if caller.uid in (0, context.owner_uid):
        return
    if given.get("connection") == "local" and context.config.run_as != "submitter":
        what = f"{caller.user} may not make the master's own machine a node: jobs there are run by the master's account"
        raise NotAllowed(what, "root and who runs the master may; give its address to enter it by SSH, as any other")
    if "identity_file" in given:
        what = f"{caller.user} may not say which of the master's key files is for a node"
        raise NotAllowed(what, "root and who runs the master may; without one the node is entered as the others are")


@contextmanager
def _inventory(context: Context) -> Iterator[Path]:
    """The configuration whose inventory it is; a first one is begun where there was none, and is gone again if nothing
    came of it."""
    config = context.config.path
    if config is not None:
        yield config
        return
    if context.own_config is None:
        raise RequestError("this master has no configuration, and no place for one", "mgpu init writes one")
    try:
        added.begin(context.own_config)
        yield context.own_config
    except BaseException:
        added.unbegin(context.own_config)
        raise


def _parsed(payload: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """What it says goes through the configuration's own checks; here only what could be no text of a file."""
    name = _line(payload, "node_id")
    if not name.strip():
        raise RequestError("node_id is missing", "give the node a name")
    given: dict[str, Any] = {key: _line(payload, key) for key in _WORDS if payload.get(key) is not None}
    for key in _NUMBERS:
        value = payload.get(key)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
            raise RequestError(f"{key} must be a whole number")
        given[key] = value
    devices = payload.get("devices")
    if devices is not None:
        whole = isinstance(devices, list) and all(type(each) is int and 0 <= each < _MOST for each in devices)
        if not whole or not 0 < len(devices) <= _MOST_DEVICES:
            raise RequestError("devices must be a list of GPU indices")
        given["devices"] = devices
    return name, given


def _line(payload: Mapping[str, Any], key: str) -> str:
    value = read.line(payload, key, _LONGEST)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RequestError(f"'{key}' is not a valid text") from error
    return value


def _one(file: added.Added) -> NodeName | None:
    """The node that has come, where it is a single one."""
    fresh = file.fresh()
    return fresh[0].name if len(fresh) == 1 else None


def _shown(given: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in given.items())
