"""What limits refuse at once: a job that could never start for their sake, and one too many in the queue."""

from __future__ import annotations

from mgpu.core.errors import NotAllowed, RequestError
from mgpu.core.limits import least_whole, partition_scopes, scopes, too_wide
from mgpu.core.model import JobSpec
from mgpu.core.plan import Owner
from mgpu.core.shape import shape_of
from mgpu.ops.context import Context
from mgpu.store.reading import Reader


def require_possible(context: Context, spec: JobSpec, user: str) -> None:
    bounds = context.config.bounds
    if bounds is None:
        return
    shape, named, views = shape_of(spec.request), spec.request.partition, context.control.views()
    owner = Owner(user, spec.account)
    if reason := too_wide(shape.total, owner, named, views, bounds):
        raise RequestError(reason)
    if not spec.request.exclusive:
        return
    whole = least_whole(max(1, len(shape.sizes)), named, [view for view in views if view.name in shape.named] or views)
    if reason := too_wide(whole, owner, named, views, bounds):
        raise RequestError(f"--exclusive takes all GPUs of a node: {reason.partition(':')[0]}", "leave out --exclusive")


def require_room(context: Context, reader: Reader, spec: JobSpec, user: str) -> None:
    """One more may be queued."""
    bounds = context.config.bounds
    if bounds is None:
        return
    owner, named = Owner(user, spec.account), spec.request.partition
    asked = [*scopes(owner, bounds)]
    for name in named.split(",") if named else ():
        asked += partition_scopes(name, owner, bounds)
    for scope, limits in asked:
        if limits.queued is None:
            continue
        account, partition = (scope.name if scope.kind == kind else "" for kind in ("account", "partition"))
        if (count := reader.count_queued(scope.user, account, partition)) >= limits.queued:
            who = scope.user or f"account {scope.name}" if scope.kind != "partition" else scope.user or "everybody"
            where = f" in partition {partition}" if partition else ""
            raise NotAllowed(
                f"{who} has {count} job{'' if count == 1 else 's'} queued{where}, and may have {limits.queued}",
                "wait until some have started, or cancel some",
            )
