"""One route per operation: words in, JSON out. What an operation decides is its own; here is only the wire.

Operations block (database, disk, nodes), so they run in threads: a bounded pool for what is quick, another for what
waits for a node, so that slow nodes never hold up the queue's listing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from aiohttp import web

from mgpu.api import bodies, listed, past, stream, turns, version, watching
from mgpu.api.connection import KEYRING, NEIGHBOURS, PASSES, NoToken, caller_of
from mgpu.core.array import Reference, parse_reference
from mgpu.core.errors import MgpuError, NotAllowed, NotFound, RequestError, StoreError
from mgpu.ops import (
    audit,
    cancel,
    chosen,
    drain,
    enroll,
    hold,
    jobs,
    nodes,
    outlook,
    output,
    preflight,
    register,
    reload,
    requeue,
    residue,
    restart,
    signal,
    status,
    submit,
    submit_many,
    tokens,
    trees,
    update,
)  # fmt: skip
from mgpu.ops.context import Caller, Context

TREE_PIECE_B = 1 << 18
QUICK_THREADS = 8
WIDE_THREADS = 16
TOLD: web.AppKey[dict[str, str]] = web.AppKey("told", dict)  # for `mgpu status`, of where else the server listens
WAYS_OUT = ("/v1/status", "/v1/stop", "/v1/restart", watching.HEALTH, watching.METRICS)

logger = logging.getLogger(__name__)
T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Named = Callable[[web.Request], Any]  # what the path names


def build_app(context: Context) -> web.Application:
    """The application; its threads end with its clean-up."""
    routes = _Routes(context)
    app = web.Application(
        client_max_size=bodies.LIMIT_B, middlewares=[watching.counting(context.control.meters), _errors, routes.admit]
    )
    app[KEYRING], app[PASSES], app[TOLD] = context.keyring, {}, {}
    app[NEIGHBOURS] = WeakKeyDictionary()
    app.add_routes([*routes.table(), *watching.table(context, routes._run), *past.table(context, routes._run)])
    app.on_response_prepare.append(version.tell)
    app.on_shutdown.append(routes.streams.close_all)
    app.on_cleanup.append(routes.close)
    return app


class OtherConfig(MgpuError):
    code = "other_config"


_STATUS: tuple[tuple[type[MgpuError], HTTPStatus], ...] = (
    (OtherConfig, HTTPStatus.CONFLICT),
    (version.OtherVersion, HTTPStatus.CONFLICT),
    (reload.CannotReload, HTTPStatus.CONFLICT),
    (restart.CannotRestart, HTTPStatus.CONFLICT),
    (chosen.AlreadyEnded, HTTPStatus.CONFLICT),
    (RequestError, HTTPStatus.BAD_REQUEST),
    (NoToken, HTTPStatus.UNAUTHORIZED),
    (NotAllowed, HTTPStatus.FORBIDDEN),
    (NotFound, HTTPStatus.NOT_FOUND),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
    (MgpuError, HTTPStatus.SERVICE_UNAVAILABLE),  # a node that cannot be reached, for one
)


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure as `{"error": {code, message, hint}}`."""
    try:
        return await handler(request)
    except MgpuError as error:
        answer = next(answer for kind, answer in _STATUS if isinstance(error, kind))
        return _error(answer, version.suspected(request, answer, error.as_json()))
    except web.HTTPException as error:  # aiohttp's own: no such route, body too large
        if error.status in (404, 405) and version.theirs(request):
            return _error(HTTPStatus(error.status), version.no_such_route(request))
        code = {404: "not_found", 405: "bad_request", 413: "too_large"}.get(error.status, "bad_request")
        large = error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        what = f"more than {bodies.LIMIT_B >> 20} MiB in one request" if large else error.reason
        told = {"message": f"{request.method} {request.path}: {what}", "hint": bodies.IN_PARTS if large else ""}
        return _error(HTTPStatus(error.status), {"code": code, **told})
    except ConnectionError:
        raise
    except Exception as error:
        logger.exception("%s %s failed", request.method, request.path)
        text = f"internal error: {type(error).__name__}: {error}".splitlines()[0]
        answer, told = HTTPStatus.INTERNAL_SERVER_ERROR, {"code": "internal", "message": text}
        return _error(answer, version.suspected(request, answer, {**told, "hint": "see the master's log"}))


def _error(answer: HTTPStatus, error: dict[str, str]) -> web.Response:
    return web.json_response({"error": error}, status=answer)


class _Routes:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._quick = ThreadPoolExecutor(QUICK_THREADS, "api")
        self._wide = ThreadPoolExecutor(WIDE_THREADS, "api-nodes")
        prospects = outlook.Prospects(context)
        self.streams = stream.Streams(context, self._run, prospects)
        self._listed = listed.Listed(context, self._run, self._run_for_all, prospects)
        self._turns = turns.Turns(frozenset((0, context.owner_uid)))

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/status", self._status, name="status"),
            web.post("/v1/stop", self._asked(status.stop), name="stop"),
            web.post("/v1/reload", self._told(reload.reload), name="reload"),
            web.post("/v1/restart", self._asked(restart.restart, wide=True), name="restart"),
            web.get("/v1/tokens", self._asked(tokens.list_tokens), name="tokens"),
            web.post("/v1/tokens", self._create_token, name="token-create"),
            web.post("/v1/tokens/{token}/revoke", self._asked(tokens.revoke, of=_token), name="token-revoke"),
            web.post("/v1/jobs", self._submit, name="submit"),
            web.post("/v1/jobs/many", self._told(submit_many.submit_many), name="submit-many"),
            web.post("/v1/jobs/test", self._told(outlook.test_only), name="test-only"),
            web.get("/v1/jobs", self._list_jobs, name="queue"),
            web.get("/v1/window", self._window, name="window"),
            web.post("/v1/cancel", self._told(cancel.cancel), name="cancel"),
            web.post("/v1/signal", self._told(signal.signal, wide=True), name="signal"),
            web.post("/v1/hold", self._told(hold.hold), name="hold"),
            web.post("/v1/release", self._told(hold.release), name="release"),
            web.post("/v1/requeue", self._told(requeue.requeue), name="requeue"),
            web.get("/v1/jobs/{job}", self._show_job, name="show-job"),
            web.get("/v1/jobs/{job}/why", self._asked(jobs.why, of=_job), name="why"),
            web.post("/v1/jobs/{job}/update", self._told(update.update, of=_job), name="update"),
            web.get("/v1/jobs/{job}/output", self._output, name="logs"),
            web.get("/v1/jobs/{job}/stream", self._stream, name="follow"),
            web.get("/v1/enroll", self._enrolment, name="enroll"),
            web.post("/v1/enroll", self._told(enroll.enroll, wide=True), name="enroll-test"),
            web.post("/v1/preflight", self._told(preflight.preflight, wide=True), name="preflight"),
            web.get("/v1/trees", self._tree_limits, name="tree-limits"),
            web.get("/v1/trees/{digest}", self._asked(trees.find, of=_digest), name="find-tree"),
            web.put("/v1/trees/{digest}", self._receive_tree, name="send-tree"),
            web.get("/v1/audit", self._audit, name="audit"),
            web.get("/v1/nodes", self._asked(nodes.list_nodes), name="nodes"),
            web.post("/v1/nodes", self._told(register.register, wide=True), name="node-add"),
            web.get("/v1/nodes/{node}", self._asked(nodes.show_node, of=_node), name="show-node"),
            web.post("/v1/nodes/{node}/probe", self._probe, name="probe"),
            web.get("/v1/nodes/{node}/residue", self._asked(residue.residue, of=_node, wide=True), name="residue"),
            web.post("/v1/nodes/{node}/clean", self._told(residue.clean, of=_node, wide=True), name="node-clean"),
            web.post("/v1/nodes/{node}/drain", self._told(drain.drain, of=_node, wide=True), name="node-drain"),
            web.post("/v1/nodes/{node}/resume", self._told(drain.resume, of=_node, wide=True), name="node-resume"),
            web.get("/v1/nodes/{node}/lost", self._asked(nodes.lost_on, of=_node), name="lost-jobs"),
            web.post("/v1/nodes/{node}/down", self._asked(nodes.give_up, of=_node, wide=True), name="node-down"),
            web.get("/v1/nodes/{node}/hostkeys", self._host_keys, name="host-keys"),
            web.post("/v1/nodes/{node}/trust", self._told(nodes.trust_node, of=_node, wide=True), name="trust"),
        ]

    @web.middleware
    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Only those this master is for, and only if they mean the same configuration; how it is and that it should end
        may be said in any case: that is the way out."""
        caller = caller_of(request)
        try:
            self._require_ours(request, caller)
            async with turns.of_body(request, self._turns.begin(caller.uid)):
                return await handler(request)
        except NotAllowed as error:
            named = request.match_info
            what = (named.route.name or "a request").replace("-", " ")
            where = named.get("job", ""), named.get("node", "")
            await self._run(audit.refused, self._context, caller, what, where, error)
            raise

    def _require_ours(self, request: web.Request, caller: Caller) -> None:
        context = self._context
        if not context.serves(caller):
            raise NotAllowed(
                f"this master serves uid {context.owner_uid} alone", "start your own: any mgpu command does"
            )
        if request.path not in WAYS_OUT:
            version.check(request)
        meant, ours = request.headers.get("X-Mgpu-Config"), status.config_name(context)
        if meant is not None and request.path not in WAYS_OUT and not _same_file(meant, ours):
            raise OtherConfig(
                f"the master runs with {_config_words(ours)}, this command means {_config_words(meant)}",
                "`mgpu stop` ends that one (jobs run on), the next command starts one with this; or name the same with "
                "--config, or keep both with another --state-dir",
            )

    async def close(self, _app: web.Application) -> None:
        for pool in (self._quick, self._wide):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        async with turns.of_thread(wide=False):
            return await self._run_for_all(function, *arguments)

    async def _run_for_all(self, function: Callable[..., T], *arguments: Any) -> T:
        """For what is done once for several who ask."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, function, *arguments)

    async def _run_widely(self, function: Callable[..., T], *arguments: Any) -> T:
        """For what is asked of many nodes at once."""
        async with turns.of_thread(wide=True):
            return await asyncio.get_running_loop().run_in_executor(self._wide, function, *arguments)

    def _asked(self, operation: Callable[..., Any], of: Named | None = None, wide: bool = False) -> Handler:
        """For what takes the caller, and what the path names. `wide`: it waits for nodes."""
        run = self._run_widely if wide else self._run

        async def handle(request: web.Request) -> web.Response:
            named = () if of is None else (of(request),)
            return web.json_response(await run(operation, self._context, caller_of(request), *named))

        return handle

    def _told(self, operation: Callable[..., Any], of: Named | None = None, wide: bool = False) -> Handler:
        """The same, of what takes a body as well."""
        run = self._run_widely if wide else self._run

        async def handle(request: web.Request) -> web.Response:
            named = () if of is None else (of(request),)
            body = await bodies.read_object(request)
            return web.json_response(await run(operation, self._context, caller_of(request), *named, body))

        return handle

    async def _status(self, request: web.Request) -> web.Response:
        told: dict[str, str] = request.app[TOLD]
        return web.json_response({**await self._run(status.status, self._context, caller_of(request)), **told})

    async def _create_token(self, request: web.Request) -> web.Response:
        body = await bodies.read_object(request)
        answer = await self._run(tokens.create, self._context, caller_of(request), body)
        told: dict[str, str] = request.app[TOLD]
        return web.json_response({**answer, "listens": told.get("listens", "")}, status=HTTPStatus.CREATED)

    async def _submit(self, request: web.Request) -> web.Response:
        made = await self._run(submit.submit, self._context, caller_of(request), await bodies.read_object(request))
        answer = {"job_id": made.job_id, "notices": made.notices, "created": made.created}
        return web.json_response(answer, status=HTTPStatus.CREATED if made.created else HTTPStatus.OK)

    async def _list_jobs(self, request: web.Request) -> web.StreamResponse:
        return await self._listed.serve(request, caller_of(request))

    async def _window(self, request: web.Request) -> web.Response:
        return await self._listed.window(request, caller_of(request))

    async def _show_job(self, request: web.Request) -> web.Response:
        ways = request.query.get("ways") == "1"
        return web.json_response(await self._run(jobs.show_job, self._context, caller_of(request), _job(request), ways))

    async def _output(self, request: web.Request) -> web.Response:
        wanted = output.parse_output_request(_job(request), request.query)
        run = self._run_widely if wanted.fresh else self._run  # it waits for nodes
        found = await run(output.read_output, self._context, caller_of(request), wanted)
        headers = {
            "X-Mgpu-Offset": str(found.offset),
            "X-Mgpu-Size": str(found.size),
            "X-Mgpu-Complete": str(int(found.complete)),
            **({"X-Mgpu-Owed": found.owed} if found.owed else {}),
        }
        return web.Response(body=found.data, headers=headers, content_type="application/octet-stream")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        return await self.streams.serve(request, caller_of(request), _job(request))

    async def _tree_limits(self, _request: web.Request) -> web.Response:
        return web.json_response(trees.limits(self._context))

    async def _receive_tree(self, request: web.Request) -> web.Response:
        """Looked through piece by piece as it comes, with no more of it in memory than a piece."""
        digest = _digest(request)
        incoming = await self._run(trees.receive, self._context, caller_of(request), digest)
        if incoming is None:
            return web.json_response({"digest": digest})
        try:
            async for data in request.content.iter_chunked(TREE_PIECE_B):
                await self._run_widely(incoming.write, data)
            await self._run_widely(incoming.keep)
        finally:
            incoming.close()
        return web.json_response({"digest": digest}, status=HTTPStatus.CREATED)

    async def _audit(self, request: web.Request) -> web.Response:
        asked = (self._context, caller_of(request), request.query)
        # made into text in the thread too: a long list would hold up everybody else here
        text = await self._run(lambda: json.dumps(audit.list_entries(*asked)))
        return web.Response(text=text, content_type="application/json")

    async def _probe(self, request: web.Request) -> web.Response:
        """However long the node takes, no thread waits for it: a hundred may be asked at once."""
        caller, name = caller_of(request), _node(request)
        begun = await self._run_widely(nodes.begin_probe, self._context, caller, name)
        failure = await asyncio.wrap_future(begun)
        return web.json_response(await self._run_widely(nodes.probed, self._context, caller, name, failure))

    async def _enrolment(self, request: web.Request) -> web.Response:
        nodes = request.query.get("nodes", "")
        return web.json_response(await self._run(enroll.enrolment, self._context, caller_of(request), nodes))

    async def _host_keys(self, request: web.Request) -> web.Response:
        return web.json_response(await self._run_widely(nodes.host_keys, self._context, _node(request)))


def _job(request: web.Request) -> Reference:
    return parse_reference(request.match_info["job"])


def _node(request: web.Request) -> str:
    return request.match_info["node"]


def _token(request: web.Request) -> str:
    return request.match_info["token"]


def _digest(request: web.Request) -> str:
    return request.match_info["digest"]


def _same_file(meant: str, ours: str) -> bool:
    return meant == ours or bool(meant and ours and os.path.realpath(meant) == os.path.realpath(ours))


def _config_words(name: str) -> str:
    return f"the configuration {name}" if name else "no configuration"
