"""What of a job's surroundings comes from here: variables, the directory, the virtual environment."""

from __future__ import annotations

import os

from mgpu.client.http import bad_request
from mgpu.lean.typing import Mapping

# What describes this login or this machine, and would be wrong on another. --export PATH still sends it.
NOT_IN_ALL = {
    "PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "MAIL",
    "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
}  # fmt: skip
NOT_IN_ALL_PREFIXES = ("MGPU_", "SLURM_", "SSH_", "XDG_")
NO_EXPORT = ("NONE", "NIL")


def exported(export: str, environ: Mapping[str, str], own_env: Mapping[str, str], notices: list[str]) -> dict[str, str]:
    """The variables that go along. `export`: NAME, NAME=VALUE, ALL, NONE with commas between; "" = only `own_env`.
    `notices`: what has to be said is added there."""
    if export in NO_EXPORT:
        return {}
    env = dict(own_env)
    for item in filter(None, export.split(",")):
        name, equals, value = item.partition("=")
        if item == "NONE":
            raise bad_request("--export NONE stands alone", "leave out NONE, or the rest")
        if item == "ALL":
            env.update(all_variables(environ))
        elif not is_name(name):
            raise bad_request(f"--export {item}: {name!r} is no variable's name", "write NAME, NAME=VALUE, ALL or NONE")
        elif equals:
            env[name] = value
        elif name in environ:
            env[name] = environ[name]
        else:
            notices.append(f"--export {name}: not set here, so not sent")
    return env


def all_variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if is_name(name) and name not in NOT_IN_ALL and not name.startswith(NOT_IN_ALL_PREFIXES)
    }


def is_name(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def virtual_env(environ: Mapping[str, str]) -> str:
    """The active virtual environment: with both kinds active, the one whose bin comes first in PATH."""
    roots = [root for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if (root := environ.get(name, ""))]
    path = environ.get("PATH", "").split(":")
    places = [path.index(f"{root}/bin") if f"{root}/bin" in path else len(path) for root in roots]
    return roots[places.index(min(places))] if roots else ""


def working_directory() -> str:
    """Where we stand, under the name that the shell uses for it: automounted homes have a truer one than getcwd's."""
    try:
        here = os.getcwd()
    except OSError as error:
        raise bad_request("the directory that you stand in is gone", "cd to another") from error
    shown = os.environ.get("PWD", "")
    return shown if os.path.isabs(shown) and os.path.isdir(shown) and os.path.samefile(shown, here) else here
