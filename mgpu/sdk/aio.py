"""The same for asyncio: each request in one of a few threads, each stream in a thread of its own while it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from mgpu.client.http import MasterError
from mgpu.client.job_stream import Event
from mgpu.sdk.asking import AnyJob, Command, WithOptions, several
from mgpu.sdk.client import Client
from mgpu.sdk.ending import Limit, Seconds, ended_of, seconds_of
from mgpu.sdk.following import Followed, Lines, Since, beginning_at
from mgpu.sdk.running import follow_to_the_end, given
from mgpu.sdk.values import (
    Completed,
    Job,
    JobFailed,
    JobId,
    Kind,
    Line,
    Node,
    Output,
    Prospects,
    Status,
    Submitted,
    number,
)

AT_ONCE = 8  # requests; further ones wait for one of these
P = ParamSpec("P")
T = TypeVar("T")


class AsyncClient:
    """As Client, with coroutines and async iterators: `async with AsyncClient() as client: ...`. Belongs to one event
    loop.

    A request that was sent is not taken back by cancelling the task that waits for it: who cancels a `submit` may have
    queued a job (give a `request_id` to ask again). Cancelling `wait` ends the waiting, cancelling `run` the job."""

    def __init__(self, master: str | None = None, **how: Any) -> None:
        """`how`: as Client takes it."""
        self._client = Client(master, **how)
        self._pool = ThreadPoolExecutor(AT_ONCE, "mgpu")
        self._runs: set[Future[Any]] = set()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Returns when what was asked is answered, and jobs whose `run` was cancelled are. The client cannot be used
        any more."""
        await asyncio.to_thread(wait, list(self._runs))
        await asyncio.to_thread(self._pool.shutdown)
        self._client.close()

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """See Client.call."""
        return await self._do(self._client.call, method, path, body)

    async def _do(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *args, **kwargs))

    # --- jobs are queued --------------------------------------------------------------------------------------------

    async def submit(self, command: Command, args: Iterable[object] = (), **options: Any) -> Submitted:
        """See Client.submit."""
        return await self._do(self._client.submit, command, args, **options)

    async def submit_many(self, commands: Iterable[Command | WithOptions], **options: Any) -> list[Submitted]:
        """See Client.submit_many."""
        return await self._do(self._client.submit_many, commands, **options)

    async def test(self, command: Command, args: Iterable[object] = (), **options: Any) -> Prospects:
        """See Client.test."""
        return await self._do(self._client.test, command, args, **options)

    async def run(
        self,
        command: Command,
        args: Iterable[object] = (),
        *,
        input: bytes | None = None,
        capture_output: bool = False,
        check: bool = False,
        timeout: Seconds | None = None,
        **options: Any,
    ) -> Completed:
        """See Client.run."""
        own = ThreadPoolExecutor(1, "mgpu-run")
        try:
            how = given(input, capture_output, seconds_of(timeout))
            begun = self._in_thread(own, self._client.begin, command, args, how, options)
            job, followed = await self._or_no_job(begun)
            ends = self._in_thread(own, follow_to_the_end, self._client, followed, job, how)
            try:
                # what has not begun there yet could be cancelled unseen, and nobody would end the job
                completed = await _apart(ends)
            except asyncio.CancelledError:
                followed.stop()  # and that cancels the job
                raise
        finally:
            own.shutdown(wait=False)
        if check and not completed.job.succeeded:
            raise JobFailed(completed.job, completed)
        return completed

    def _in_thread(
        self, own: ThreadPoolExecutor, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Waited for by `aclose`, whoever else does."""
        future = own.submit(function, *args, **kwargs)
        self._runs.add(future)
        future.add_done_callback(self._runs.discard)
        return future

    async def _or_no_job(self, begun: Future[tuple[Submitted, Followed]]) -> tuple[Submitted, Followed]:
        """Cancelled meanwhile, a job that is queued all the same goes again."""

        def take_back(done: Future[tuple[Submitted, Followed]]) -> None:
            if done.cancelled() or done.exception() is not None:
                return
            job, followed = done.result()
            followed.close()
            try:
                self._client.cancel(job)
            except MasterError:
                return

        try:
            return await _apart(begun)
        except asyncio.CancelledError:
            begun.add_done_callback(take_back)
            raise

    # --- jobs are looked at -----------------------------------------------------------------------------------------

    async def queue(self, **filters: Any) -> list[Job]:
        """See Client.queue."""
        return await self._do(self._client.queue, **filters)

    async def history(self, since: Since | None = None, until: Since | None = None, **filters: Any) -> list[Job]:
        """See Client.history."""
        return await self._do(self._client.history, since, until, **filters)

    async def job(self, job: AnyJob) -> Job:
        """See Client.job."""
        return await self._do(self._client.job, job)

    async def why(self, job: AnyJob) -> Prospects:
        """See Client.why."""
        return await self._do(self._client.why, job)

    async def wait(self, job: AnyJob, *, timeout: Seconds | None = None, check: bool = False) -> Job:
        """See Client.wait."""
        [ended] = await self.wait_all([job], timeout=timeout)
        if check and not ended.succeeded:
            raise JobFailed(ended)
        return ended

    async def wait_all(self, jobs: Iterable[AnyJob], *, timeout: Seconds | None = None) -> list[Job]:
        """See Client.wait_all."""
        wanted = [number(job) for job in several("jobs", jobs)]
        ended = {job.job_id: job async for job in self.as_ended(wanted, timeout=timeout)}
        return [ended[job_id] for job_id in wanted]

    async def as_ended(self, jobs: Iterable[AnyJob], *, timeout: Seconds | None = None) -> AsyncIterator[Job]:
        """See Client.as_ended."""
        waiting, limit = self._client.waiting(jobs), Limit(seconds_of(timeout))
        while waiting.left:
            for job in await self._do(ended_of, waiting):
                yield job
            if waiting.left:
                await asyncio.sleep(limit.within(waiting))

    # --- what jobs print --------------------------------------------------------------------------------------------

    async def stream(
        self,
        job: AnyJob,
        *,
        rank: int | None = None,
        attempt: int | None = None,
        tail: int | None = None,
        since: Since | None = None,
    ) -> AsyncIterator[Output]:
        """See Client.stream."""
        begin = partial(self._client.follow, number(job), {"rank": rank, "attempt": attempt}, beginning_at(tail, since))
        async with aclosing(_items(begin)) as items:
            async for item in items:
                if isinstance(item, Output):
                    yield item

    async def lines(
        self, job: AnyJob, *, rank: int | None = None, tail: int | None = None, since: Since | None = None
    ) -> AsyncIterator[Line]:
        """See Client.lines."""
        begin = partial(self._client.follow, number(job), {"rank": rank}, beginning_at(tail, since))
        cut = Lines()
        async with aclosing(_items(begin)) as items:
            async for item in items:
                for line in cut.of(item):
                    yield line
        for line in cut.rest():
            yield line

    async def logs(self, job: AnyJob, kind: Kind = "stdout", rank: int = 0, **how: Any) -> bytes:
        """See Client.logs."""
        return await self._do(self._client.logs, job, kind, rank, **how)

    # --- jobs are changed -------------------------------------------------------------------------------------------

    async def cancel(self, *jobs: AnyJob, **filters: Any) -> list[JobId]:
        """See Client.cancel."""
        return await self._do(self._client.cancel, *jobs, **filters)

    async def hold(self, *jobs: AnyJob, **filters: Any) -> list[JobId]:
        """See Client.hold."""
        return await self._do(self._client.hold, *jobs, **filters)

    async def release(self, *jobs: AnyJob, **filters: Any) -> list[JobId]:
        """See Client.release."""
        return await self._do(self._client.release, *jobs, **filters)

    async def requeue(self, *jobs: AnyJob, hold: bool = False, **filters: Any) -> list[JobId]:
        """See Client.requeue."""
        return await self._do(self._client.requeue, *jobs, hold=hold, **filters)

    async def signal(self, signal: int | str, *jobs: AnyJob, **how: Any) -> list[JobId]:
        """See Client.signal."""
        return await self._do(self._client.signal, signal, *jobs, **how)

    async def update(self, job: AnyJob, **options: Any) -> list[str]:
        """See Client.update."""
        return await self._do(self._client.update, job, **options)

    # --- nodes and the master ---------------------------------------------------------------------------------------

    async def nodes(self) -> list[Node]:
        """See Client.nodes."""
        return await self._do(self._client.nodes)

    async def node(self, name: str, *, probe: bool = False) -> Node:
        """See Client.node."""
        return await self._do(self._client.node, name, probe=probe)

    async def status(self) -> Status:
        """See Client.status."""
        return await self._do(self._client.status)


async def _apart(future: Future[T]) -> T:
    """What comes of it; who waits may be cancelled, it goes on. What goes wrong then is nobody's concern."""
    inner = asyncio.wrap_future(future)
    inner.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(inner)


async def _items(begin: Callable[[], Followed]) -> AsyncGenerator[Output | Event]:
    """One after the other, each fetched when it is asked for: so whoever is slow to read slows the stream. Ended early,
    the thread that waits for the next is woken."""
    loop = asyncio.get_running_loop()
    own = ThreadPoolExecutor(1, "mgpu-stream")
    followed = await _begun(own, begin)
    items = followed.items()
    try:
        while (item := await loop.run_in_executor(own, _next, items)) is not None:
            yield item
    finally:
        followed.stop()
        own.submit(items.close)  # behind what it is just doing
        own.shutdown(wait=False)


async def _begun(own: ThreadPoolExecutor, begin: Callable[[], Followed]) -> Followed:
    coming = own.submit(begin)
    try:
        return await _apart(coming)
    except BaseException:
        coming.add_done_callback(_close)
        own.shutdown(wait=False)
        raise


def _close(done: Future[Followed]) -> None:
    if not done.cancelled() and done.exception() is None:
        done.result().close()


def _next(items: Iterator[Output | Event | None]) -> Output | Event | None:
    """None = it was the last."""
    for item in items:
        if item is not None:
            return item
    return None
