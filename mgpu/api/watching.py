"""What watches the master: whether it does its work, and its numbers; and what of these only the API knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware

from mgpu.meters import Meters
from mgpu.ops.context import Context
from mgpu.ops.health import health
from mgpu.ops.metrics import CONTENT_TYPE, metrics

HEALTH, METRICS = "/v1/health", "/metrics"
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def table(context: Context, run: Callable[..., Awaitable[Any]]) -> list[web.RouteDef]:
    async def healthy(_request: web.Request) -> web.Response:
        found = await run(health, context)
        status = HTTPStatus.OK if found["status"] == "ok" else HTTPStatus.SERVICE_UNAVAILABLE
        return web.json_response(found, status=status)

    async def numbers(_request: web.Request) -> web.Response:
        text = await run(metrics, context)
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    return [web.get(HEALTH, healthy), web.get(METRICS, numbers)]


def counting(meters: Meters) -> Middleware:
    """The middleware that sees every answer: by its route, never by the path that somebody typed."""

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        route = resource.canonical if resource is not None else "none"
        method = request.method if request.method in METHODS else "other"
        status = 0
        try:
            response = await handler(request)
            status = response.status
            return response
        finally:
            # 499, as others say: the client went before there was an answer
            meters.answered(method, route, status or 499)

    return count
