"""The master's numbers as Prometheus reads them: text format 0.0.4.

Labels are nodes, states, classes and routes: all of them bounded. No user, job name or id ever becomes one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import mgpu
from mgpu import clock
from mgpu.core.model import FailureClass, JobState, NodeName, NodeState
from mgpu.core.observation import Node
from mgpu.core.plan import DeviceState
from mgpu.meters import Histogram, Meters, Probes
from mgpu.ops.context import Context
from mgpu.ops.status import disk
from mgpu.store.filters import JobFilter
from mgpu.store.tables import REVISION

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_DISK = {"database_bytes": "Of the database.", "spool_bytes": "Of kept output.", "free_bytes": "Left on the disk."}

Labels = Mapping[str, str]
Sample = tuple[Labels, float | int | None]


def metrics(context: Context) -> str:
    meters = context.control.meters
    found = (*_master(context, meters), *_jobs(context, meters), *_nodes(context, meters), *_interface(meters))
    return "".join(f"{line}\n" for line in found)


def _master(context: Context, meters: Meters) -> Iterator[str]:
    told = {"version": mgpu.__version__, "wire": str(mgpu.WIRE), "schema": REVISION}
    yield from _family("mgpu_build_info", "gauge", "What runs.", [(told, 1)])
    yield from _family("mgpu_start_time_seconds", "gauge", "When this master began.", [({}, context.started)])
    yield from _histogram("mgpu_tick_duration_seconds", "Passes of the master.", meters.passes)
    age = None if meters.passed_at is None else clock.monotonic() - meters.passed_at
    yield from _family("mgpu_tick_age_seconds", "gauge", "Since the last pass was over.", [({}, age)])
    yield from _family(
        "mgpu_tick_failing", "gauge", "1 while passes fail: mgpu status says why.", [({}, int(bool(meters.trouble)))]
    )
    for name, size in disk(context).items():
        yield from _family(f"mgpu_{name}", "gauge", _DISK[name], [({}, size)])


def _jobs(context: Context, meters: Meters) -> Iterator[str]:
    with context.store.read() as reader:
        queue = reader.count_by_state(JobFilter())
    active = [state for state in JobState if not state.final]
    yield from _family(
        "mgpu_jobs", "gauge", "Jobs in the queue.", [({"state": s.value}, queue.get(s, 0)) for s in active]
    )
    for name, helps, count in (
        ("submitted", "Jobs that were submitted; an array is one.", meters.submitted),
        ("started", "Attempts that began to run.", meters.started),
        ("requeued", "Attempts after which the job was queued again.", meters.requeued),
    ):
        yield from _family(f"mgpu_jobs_{name}_total", "counter", helps, [({}, count)])
    ends = [({"state": state.value}, meters.ended[state.value]) for state in JobState if state.final]
    yield from _family("mgpu_jobs_ended_total", "counter", "Jobs that ended.", ends)
    classes = [one for one in FailureClass if one is not FailureClass.NONE]
    failures = [({"class": one.value}, meters.failures[one.value]) for one in classes]
    yield from _family("mgpu_attempt_failures_total", "counter", "Attempts that ended so.", failures)
    yield from _histogram("mgpu_job_wait_seconds", "From submission to the first start.", meters.waits)


def _nodes(context: Context, meters: Meters) -> Iterator[str]:
    stored = meters.nodes()
    states = Counter(stored[node.name].state for node in context.config.nodes if node.name in stored)
    counted = [({"state": state.value}, states[state]) for state in NodeState]
    yield from _family("mgpu_nodes", "gauge", "Nodes of the inventory.", counted)
    answers = [({"node": node.name}, int(_answers(node))) for node in stored.values()]
    yield from _family("mgpu_node_up", "gauge", "1 = it answers.", answers)
    gpus: list[Sample] = []
    for view in meters.views():
        found = Counter(device.state for device in view.devices)
        gpus += [({"node": view.name, "state": state.value}, found[state]) for state in DeviceState]
    yield from _family("mgpu_gpus", "gauge", "GPUs by state.", gpus)
    use = [({"node": node.name}, _utilisation(node)) for node in stored.values()]
    yield from _family("mgpu_node_gpu_utilization_ratio", "gauge", "Mean of its GPUs, when last seen.", use)
    yield from _probes(list(meters.probes.items()))
    yield from _contacts(meters)


def _answers(node: Node) -> bool:
    return node.state not in (NodeState.DOWN, NodeState.UNKNOWN) and not node.failures


def _utilisation(node: Node) -> float | None:
    seen = node.observation.gpus if node.observation else ()
    shares = [gpu.utilization for gpu in seen if gpu.utilization is not None]
    return sum(shares) / len(shares) / 100 if shares else None


def _probes(probes: Sequence[tuple[NodeName, Probes]]) -> Iterator[str]:
    name = "mgpu_node_probe_duration_seconds"
    yield from _head(name, "summary", "Probes that were answered.")
    for node, one in probes:
        yield _line(f"{name}_sum", {"node": node}, one.total_s)
        yield _line(f"{name}_count", {"node": node}, one.answered)
    last = [({"node": node}, one.last_s if one.answered else None) for node, one in probes]
    yield from _family("mgpu_node_last_probe_seconds", "gauge", "How long the last answer took.", last)
    failed = [({"node": node}, one.failed) for node, one in probes]
    yield from _family("mgpu_node_probe_failures_total", "counter", "Probes without an answer.", failed)


def _contacts(meters: Meters) -> Iterator[str]:
    contacts = meters.contacts()
    for name, kind, helps, place in (
        ("logins_total", "counter", "Logins: beyond the first ones, each is a reconnect.", 2),
        ("connections", "gauge", "Connections that are open.", 0),
        ("shells", "gauge", "Shells that are open.", 1),
    ):
        samples = [({"node": node}, contact[place]) for node, contact in contacts.items()]
        yield from _family(f"mgpu_node_{name}", kind, helps, samples)


def _interface(meters: Meters) -> Iterator[str]:
    asked = [
        ({"method": method, "route": route, "status": str(status)}, count)
        for (method, route, status), count in sorted(dict(meters.requests).items())
    ]
    yield from _family("mgpu_http_requests_total", "counter", "Requests that were answered.", asked)
    told = [({"result": word}, meters.notices[told]) for word, told in (("told", True), ("failed", False))]
    yield from _family("mgpu_notices_total", "counter", "Events that the command of notify: was given.", told)
    yield from _family("mgpu_http_clients", "gauge", "Connections of clients.", [({}, meters.clients())])
    yield from _family("mgpu_http_streams", "gauge", "Outputs that are being followed.", [({}, meters.streams())])


# --- the format -----------------------------------------------------------------------------------------------------


def _family(name: str, kind: str, helps: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield from _head(name, kind, helps)
    for labels, value in samples:
        if value is not None:
            yield _line(name, labels, value)


def _head(name: str, kind: str, helps: str) -> tuple[str, str]:
    return f"# HELP {name} {helps}", f"# TYPE {name} {kind}"


def _histogram(name: str, helps: str, value: Histogram) -> Iterator[str]:
    yield from _head(name, "histogram", helps)
    counts = value.cumulative()
    for bound, count in zip((*map(str, value.bounds), "+Inf"), counts, strict=True):
        yield _line(f"{name}_bucket", {"le": bound}, count)
    yield _line(f"{name}_sum", {}, value.total)
    yield _line(f"{name}_count", {}, counts[-1])


def _line(name: str, labels: Labels, value: float | int) -> str:
    told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{told}}} {value}" if told else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
