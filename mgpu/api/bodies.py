"""What is sent along with a request: bounded in what it costs, whoever sends it.

JSON is read in the loop's thread and nothing interrupts that, so it is not to take long: it is containers that do.
"""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from mgpu.core.errors import RequestError

LIMIT_B = 8 << 20
IN_PARTS = "of several jobs send fewer at once; a large script can be a file on the nodes, or go along with --ship"
MOST_CONTAINERS = 200_000  # 50 ms; brackets in a script count too


async def read_object(request: web.Request) -> dict[str, Any]:
    """Raises RequestError."""
    text = await request.read()
    if text.count(b"[") + text.count(b"{") > MOST_CONTAINERS:
        raise RequestError(f"the body has over {MOST_CONTAINERS} brackets, those in scripts among them", IN_PARTS)
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    return body
