"""Commands of another version than the master's: most go through, since what they share is kept. What does not is told
as that, in one line, and not by whatever it led to."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

import mgpu
from mgpu.core.errors import MgpuError
from mgpu.numeral import numeral

VERSION, WIRE = "X-Mgpu-Version", "X-Mgpu-Wire"
# of these a difference may be the cause: what is asked for came later, or is gone
_SUSPECT = (400, 404, 405, 500)


class OtherVersion(MgpuError):
    code = "other_version"


async def tell(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers[VERSION] = mgpu.__version__


def theirs(request: web.Request) -> str:
    """The version that asks, where it is another; "" = ours, or it does not say."""
    version = request.headers.get(VERSION, "")[:40]
    return "" if version == mgpu.__version__ else version


def check(request: web.Request) -> None:
    """Raises OtherVersion for one that speaks another language."""
    wire = request.headers.get(WIRE, "")
    if wire in ("", str(mgpu.WIRE)):
        return
    what = f"the master is mgpu {mgpu.__version__}, this command {theirs(request) or 'another'}"
    newer = (numeral(wire) or 0) > mgpu.WIRE
    way_out = "where the newer one is installed for the master too: mgpu restart, jobs run on"
    raise OtherVersion(
        f"{what}: they do not understand each other", way_out if newer else "install the master's version here"
    )


def no_such_route(request: web.Request) -> dict[str, str]:
    """Of a command that came later than this master."""
    what = f"the master is mgpu {mgpu.__version__} and does not know what this command ({theirs(request)}) asks for"
    hint = f"mgpu restart, once that version is installed for it; it was {request.method} {request.path}"
    return {"code": OtherVersion.code, "message": what, "hint": hint}


def suspected(request: web.Request, status: HTTPStatus, error: dict[str, str]) -> dict[str, str]:
    """With a word about versions where these may be the cause."""
    other = theirs(request)
    if not other or status not in _SUSPECT:
        return error
    word = f"the master is mgpu {mgpu.__version__}, this command {other}"
    return {**error, "hint": f"{error['hint']}; {word}" if error["hint"] else word}
