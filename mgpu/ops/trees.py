"""Working trees that come with --ship: taken before the job that names them, kept for as long as one may need them."""

from __future__ import annotations

from mgpu import clock
from mgpu.core.array import shown_id
from mgpu.core.errors import NotFound, RequestError
from mgpu.core.model import Job, Tree
from mgpu.core.tree import parse_digest
from mgpu.ops.context import Caller, Context
from mgpu.ops.render import Json
from mgpu.store.trees import TREES_OF_ONE, Incoming


def limits(context: Context) -> Json:
    """`max_size`: bytes of the files of one tree, 0 = any."""
    return {"max_size": context.trees.limit}


def find(context: Context, caller: Caller, digest: str) -> Json:
    """Whether the caller has sent it. Raises NotFound."""
    if not context.trees.wanted(caller.uid, parse_digest(digest)):
        raise NotFound(f"there is no tree {digest[:12]} of {caller.user}", "send it with PUT")
    return {"digest": digest}


def receive(context: Context, caller: Caller, digest: str) -> Incoming | None:
    """Where it goes; None = it is there already. Raises RequestError where jobs that wait or run have so many of them
    that there is no room for another."""
    parse_digest(digest)
    trees = context.trees
    if trees.wanted(caller.uid, digest):
        return None
    tidy(context)
    if trees.limit and trees.size_of(caller.uid) > trees.limit * TREES_OF_ONE:
        raise RequestError(
            f"the shipped trees of {caller.user}'s jobs take more than {trees.limit * TREES_OF_ONE >> 20} MiB already",
            "let some of these jobs end, or ship less",
        )
    return trees.receive(caller.uid, digest)


def tidy(context: Context) -> None:
    """Away with what no job needs any more."""
    with context.store.read() as r:
        needed = r.shipped()
    context.trees.forget(needed, clock.now())


def require_there(context: Context, uid: int, tree: Tree | None) -> None:
    """Of a job that is submitted. Raises RequestError."""
    if tree is not None and not context.trees.wanted(uid, tree.digest):
        raise RequestError(f"the tree {tree.digest[:12]} was not sent to this master", "submit it again with --ship")


def require_still_there(context: Context, job: Job) -> None:
    """Of one that is to run once more."""
    if job.spec.tree is not None and not context.trees.wanted(job.uid, job.spec.tree.digest):
        raise RequestError(
            f"the tree that job {shown_id(job)} shipped is not kept any more: submit it again with --ship"
        )
