"""Where the master is, as every front end finds it: what was given > variables > the user's own file > this machine."""

from __future__ import annotations

from mgpu.client.config_home import config_home
from mgpu.client.http import MasterError, bad_request
from mgpu.client.locate import Location, locate
from mgpu.client.own_master import own_master
from mgpu.lean.json import loads
from mgpu.lean.typing import TYPE_CHECKING, Mapping

if TYPE_CHECKING:
    from mgpu.client.address import Address


def find(config: str | None, state_dir: str | None, url: str, environ: Mapping[str, str]) -> Location:
    """`url`: where somebody said that it is, "" = nobody did. Raises MasterError when what is named is not there."""
    named = url or environ.get("MGPU_MASTER", "") or own_master(config_home(environ))
    return locate(config, state_dir, named, environ, read_state_dir)


def url_of(
    host: str, port: str, environ: Mapping[str, str], config: str | None = None, state_dir: str | None = None
) -> str:
    """Of the older system's two words, either of which may be missing: an address, or the socket of the master here if
    that is the one which listens there. Raises MasterError (bad_request)."""
    from mgpu.client.address import address_of
    from mgpu.client.credentials import find_pin

    address = address_of(host, port)
    if socket := _socket_of(address, environ, config, state_dir):
        return socket
    # on this machine it is as the master has it; one that was trusted speaks TLS
    return address._replace(tls=address.tls or bool(find_pin(address, environ))).url


def _socket_of(address: Address, environ: Mapping[str, str], config: str | None, state_dir: str | None) -> str:
    """ "" = it is another's, or there is a token for it: who is logged in on the master's machine needs none."""
    from mgpu.client.credentials import has_token
    from mgpu.client.http import request
    from mgpu.endpoint import is_loopback

    if not is_loopback(address.host) or has_token(address, environ):
        return ""
    here = locate(config, state_dir, "", {**environ, "MGPU_MASTER": ""}, read_state_dir)
    try:
        told = loads(request(here.endpoint, "GET", "/v1/status").body)
    except (MasterError, ValueError):
        return ""
    listens = str(told.get("listens") or "") if isinstance(told, dict) else ""
    return here.endpoint.socket_path if listens.endswith(f":{address.port}") else ""


def read_state_dir(config: str) -> str:
    """`master.state_dir` of a configuration that mentions it. Raises MasterError for one that does not load."""
    from pathlib import Path

    from mgpu.config.load import load
    from mgpu.core.errors import MgpuError

    try:
        state_dir = load(Path(config)).state_dir
    except MgpuError as error:
        raise MasterError(error.code, error.message, error.hint, error.exit_code) from error
    return str(state_dir) if state_dir else ""


def patience(environ: Mapping[str, str]) -> float | None:
    """Seconds with a master that does not answer: what a variable says, for those that have no option for it."""
    value = environ.get("MGPU_CONNECTION_TIMEOUT", "")
    if not value:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        raise bad_request(f"MGPU_CONNECTION_TIMEOUT is {value!r}: not a number", "give seconds") from None
