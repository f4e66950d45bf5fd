"""Somebody else computes on a GPU that a job holds: its owner is told once, when that is first seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import is_

from mgpu.core.lifecycle.milestones import WHO
from mgpu.core.model import Audit, DeviceUuid, JobId
from mgpu.core.plan import NodeView
from mgpu.core.smi.mig import label
from mgpu.ops.output import NOTICE
from mgpu.store.store import Store


class Conflicts:
    """Of GPUs that jobs hold now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._told: set[tuple[JobId, DeviceUuid]] = set()
        self._looked: tuple[NodeView, ...] = ()

    def tell(self, views: tuple[NodeView, ...], now: float) -> list[JobId]:
        """The jobs to which something is told."""
        if len(views) == len(self._looked) and all(map(is_, views, self._looked)):
            return []
        self._looked = views
        found = {(job_id, uuid): (job_id, where, who) for job_id, uuid, where, who in _conflicts(views)}
        holders = {device.job_id for view in views for device in view.devices}
        self._told = {told for told in self._told if told[0] in holders}
        news = [found[key] for key in found if key not in self._told]
        if news:
            with self._store.write() as writer:
                for job_id, where, who in news:
                    # a master that begins anew may have told it before
                    before = writer.audits(job_id=job_id, what=NOTICE)
                    if not any(entry.detail.startswith(where) for entry in before):
                        writer.audit(Audit(now, WHO, NOTICE, job_id, None, f"{where}: {who}"))
        self._told |= found.keys()
        return [job_id for job_id, _, _ in news]


def _conflicts(views: Iterable[NodeView]) -> Iterator[tuple[JobId, DeviceUuid, str, str]]:
    for view in views:
        for device in view.devices:
            if device.conflict and device.job_id is not None:
                where = f"somebody else is on GPU {label(device.index)} of {view.name}, which this job holds"
                yield device.job_id, device.uuid, where, device.conflict
