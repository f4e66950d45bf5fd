"""What GPUs did, and what came of it, on the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from mgpu.api.connection import caller_of
from mgpu.core.array import parse_reference
from mgpu.ops import report, use
from mgpu.ops.context import Context

Run = Callable[..., Awaitable[Any]]


def table(context: Context, run: Run) -> list[web.RouteDef]:
    """`run`: an operation in a thread."""

    async def job_use(request: web.Request) -> web.Response:
        named = parse_reference(request.match_info["job"])
        return web.json_response(await run(use.job_use, context, named))

    async def node_use(request: web.Request) -> web.Response:
        query = dict(request.query)
        return web.json_response(await run(use.node_use, context, request.match_info["node"], query))

    async def asked_report(request: web.Request) -> web.Response:
        return web.json_response(await run(report.report, context, caller_of(request), dict(request.query)))

    return [
        web.get("/v1/report", asked_report, name="report"),
        web.get("/v1/jobs/{job}/use", job_use, name="job-use"),
        web.get("/v1/nodes/{node}/use", node_use, name="node-use"),
    ]
