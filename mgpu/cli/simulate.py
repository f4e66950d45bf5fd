"""mgpu simulate: a job log through the planner, on a virtual clock."""

from __future__ import annotations

import os
import sys

from mgpu.cli.past import past_jobs, present_nodes
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import say, table
from mgpu.lean.typing import TYPE_CHECKING, Any
from mgpu.wording.figures import count, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mgpu.core.outcome import Outcome
    from mgpu.core.plan import NodeView
    from mgpu.core.replay import LoggedJob, Ran, Rules

EXAMPLES = """
Examples:
  mgpu simulate jobs.swf --nodes 8x8                      on 8 nodes of 8 GPUs
  mgpu simulate jobs.csv.gz --nodes 4x8,2x4 --order sjf   shortest job first
  mgpu simulate --from-history --compare default --compare fifo --plot ways.svg
  mgpu simulate jobs.csv --nodes 16x8 --compare fifo/easy --compare sjf/skip
"""
ORDERS = ("default", "fifo", "sjf")
MOST_NODES, MOST_GPUS = 4096, 65536


class Way:
    """How jobs are scheduled: `ORDER[/BACKFILL[/POLICY]]`, as a heading says it."""

    def __init__(self, order: str, backfill: str, policy: str) -> None:
        from mgpu.core.plan import Backfill
        from mgpu.core.policies import POLICIES

        known = {"order": (order, ORDERS), "backfill": (backfill, list(Backfill)), "policy": (policy, list(POLICIES))}
        for what, (word, words) in known.items():
            if word not in words:
                raise bad_request(f"no {what} '{word}': it is one of {', '.join(words)}")
        self.order = order
        self.backfill = Backfill(backfill)
        self.policy = policy

    @property
    def name(self) -> str:
        return f"{self.order}/{self.backfill}/{self.policy}"

    @property
    def rules(self) -> Rules:
        from mgpu.core.fairshare import FIFO, FairShare
        from mgpu.core.replay import Rules

        first: Callable[[LoggedJob], float] = (lambda job: -job.span_s) if self.order == "sjf" else (lambda job: 0.0)
        return Rules(first, self.backfill, self.policy, FairShare() if self.order == "default" else FIFO)


@command(
    Option("--nodes", "NxG[,...]", "The cluster: N nodes of G GPUs each."),
    Option("--order", "ORDER", "default (as the queue orders them), fifo, or sjf: the shortest first."),
    Option("--backfill", "KIND", "easy, skip or none, as scheduling.backfill."),
    Option("--policy", "NAME", "fill_first or spread."),
    Option("--compare", "ORDER[/BACKFILL[/POLICY]]", "Another way, side by side; may be repeated.", repeated=True),
    Option("--vc", "NAME", "Only the jobs of this partition of the log."),
    Option("--from", "SECONDS", "Only jobs submitted from then on, by the log's clock.", key="since"),
    Option("--until", "SECONDS", "Only jobs submitted until then."),
    Option("--from-history", "", "In place of TRACE: the jobs that ran here, on the nodes that are here."),
    Option("--plot", "FILE.svg", "Draw GPUs in use and jobs waiting over time, a line for each way."),
    Option("--csv", "FILE", "Write down each job: when it started and ended, and on how many GPUs."),
    Argument("trace", "TRACE", "?"),
    examples=EXAMPLES,
)
def simulate(session: Session, /, trace: str | None, **asked: Any) -> None:
    """Replay a job log through the planner that runs in production, and tell what its users would have waited for.

    TRACE is a log in the Standard Workload Format, or CSV with the columns submit_time, duration and gpus (and nodes,
    gpus_per_node, user, vc, requested_time), also compressed with gzip. The planner knows a job's requested_time; where
    the log has none, its true duration. At each instant all ends come first, then all submissions, then one plan.
    """
    if bool(trace) == bool(asked["from_history"]):
        raise bad_request("which jobs?", "name a job log, or give --from-history")
    ways = ways_of(asked)
    for path in filter(None, (asked["plot"], asked["csv"])):
        if not os.access(os.path.dirname(path) or ".", os.W_OK):
            raise bad_request(f"{path} cannot be written there", "name a file in a folder of yours")
    nodes = cluster(asked["nodes"] or ("" if trace else present_nodes(session)))
    log = read(trace) if trace else past_jobs(session)
    there = chosen(log, asked["vc"], number("--from", asked["since"]), number("--until", asked["until"]))
    jobs = [job for job in there if job.ran]
    if not jobs:
        raise bad_request(f"{count(len(there), 'job')} to replay, and none of them ran for any time on any GPU")
    results = [(way, list(watched(replayed(jobs, nodes, way), len(jobs), way.name))) for way in ways]
    if asked["plot"]:
        draw(asked["plot"], results, nodes)
    if asked["csv"]:
        write_csv(asked["csv"], results)
    show(session, jobs, nodes, results, len(there) - len(jobs))


def ways_of(asked: dict[str, Any]) -> list[Way]:
    given = (asked["order"] or "default", asked["backfill"] or "easy", asked["policy"] or "fill_first")
    if not asked["compare"]:
        return [Way(*given)]
    ways = []
    for text in asked["compare"]:
        words = text.split("/")
        if len(words) > 3:
            raise bad_request(f"--compare {text}: it is ORDER[/BACKFILL[/POLICY]]")
        ways.append(Way(*words, *given[len(words) :]))
    return ways


def number(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise bad_request(f"{option} {text}: seconds are asked for, a number") from None


def cluster(text: str) -> list[NodeView]:
    """Nodes with nothing on them."""
    from mgpu.core.model import DeviceUuid, NodeName
    from mgpu.core.plan import DeviceState, DeviceView, NodeView

    sizes: list[int] = []
    for part in text.split(","):
        nodes, cross, gpus = part.partition("x")
        if not (cross and nodes.isdecimal() and gpus.isdecimal() and int(nodes) and int(gpus)):
            raise bad_request("say which cluster: --nodes 8x8 is 8 nodes of 8 GPUs", f"not {text!r}" if text else "")
        if int(nodes) > MOST_NODES or int(nodes) * int(gpus) > MOST_GPUS:
            raise bad_request(f"--nodes {part}: at most {MOST_NODES} nodes and {MOST_GPUS} GPUs")
        sizes += [int(gpus)] * int(nodes)
    found = []
    for at, size in enumerate(sizes, 1):
        name = f"node{at:03}"
        devices = tuple(
            DeviceView(DeviceUuid(f"{name}-{index}"), index, "GPU", "", None, DeviceState.FREE) for index in range(size)
        )
        found.append(NodeView(NodeName(name), True, "", devices))
    return found


def read(path: str) -> list[LoggedJob]:
    import gzip
    import zlib

    from mgpu.core.joblog import JobLogError, read_log

    try:
        with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as lines:
            return read_log(lines)
    except JobLogError as error:
        raise bad_request(f"{path}: {error}", "mgpu simulate --help names the formats") from None
    except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise bad_request(f"{path}: not a text file: {error}") from None


def chosen(jobs: Sequence[LoggedJob], vc: str | None, since: float | None, until: float | None) -> list[LoggedJob]:
    there = {job.queue for job in jobs}
    if vc is not None and vc not in there:
        names = ", ".join(sorted(there - {""})[:8]) or "none"
        raise bad_request(f"no job of the log is of {vc}", f"its partitions: {names}")
    kept = [
        job
        for job in jobs
        if (vc is None or job.queue == vc)
        and (since is None or job.submit >= since)
        and (until is None or job.submit <= until)
    ]
    if not kept:
        raise bad_request("no job of the log is left to replay", "see --vc, --from and --until")
    return kept


def replayed(jobs: Sequence[LoggedJob], nodes: Sequence[NodeView], way: Way) -> Iterator[Ran]:
    from mgpu.core.replay import replay

    return replay(jobs, nodes, way.rules)


def watched(ran: Iterable[Ran], total: int, name: str) -> Iterator[Ran]:
    """With a bar on a terminal that is not too small for one."""
    shown = os.isatty(2) and os.environ.get("TERM") != "dumb"
    done = -1
    for at, one in enumerate(ran, 1):
        yield one
        if shown and 50 * at // total != done:
            done = 50 * at // total
            print(f"\r{name}  [{'#' * done}{'.' * (50 - done)}]", end="", file=sys.stderr, flush=True)
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def draw(path: str, results: Sequence[tuple[Way, Sequence[Ran]]], nodes: Sequence[NodeView]) -> None:
    from mgpu.core.plot import plot

    drawn = {way.name: ran for way, ran in results if ran}
    if drawn:
        with open(path, "w", encoding="utf-8") as file:
            file.write(plot(drawn, sum(len(node.devices) for node in nodes)))


def write_csv(path: str, results: Sequence[tuple[Way, Sequence[Ran]]]) -> None:
    import csv

    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("way", "job_id", "user", "gpus", "submit_time", "start_time", "end_time", "wait_s"))
        for way, ran in results:
            for one in ran:
                job = one.job
                rows.writerow(
                    (way.name, job.name, job.user, one.gpus, job.submit, one.start, one.end, f"{one.wait_s:g}")
                )


FIGURES = (
    ("mean wait", "mean_wait_s"), ("median wait", "median_wait_s"), ("95 % wait up to", "p95_wait_s"),
    ("longest wait", "max_wait_s"), ("mean JCT", "mean_jct_s"), ("makespan", "makespan_s"),
)  # fmt: skip


def show(
    session: Session,
    jobs: Sequence[LoggedJob],
    nodes: Sequence[NodeView],
    results: Sequence[tuple[Way, list[Ran]]],
    never_ran: int,
) -> None:
    from mgpu.core.outcome import outcome

    gpus = sum(len(node.devices) for node in nodes)
    if not all(ran for _, ran in results):
        raise bad_request(f"none of the {count(len(jobs), 'job')} can ever start there", "see --nodes")
    found = [(way, outcome(ran, gpus)) for way, ran in results]
    if session.json:
        documents = [document(way, made, len(jobs), never_ran) for way, made in found]
        session.print_json(documents[0] if len(documents) == 1 else {"ways": documents})
        return
    rows = [[title, *(seconds(getattr(made, key)) for _, made in found)] for title, key in FIGURES]
    rows.append(["bounded slowdown", *(f"{made.bsld:.4f}" for _, made in found)])
    rows.append(["utilization", *(f"{made.utilization:.1f} %" for _, made in found)])
    session.print_lines(table(["", *(way.name for way, _ in found)], rows, right=range(1, len(found) + 1)))
    if len(results) == 1:
        session.print_lines(["", *by_width(results[0][1], gpus), "", *by_user(results[0][1], gpus)])
    left = len(jobs) - len(results[0][1])
    if left:
        say(f"{count(left, 'job')} of {len(jobs)} can never start there, and are left out")
    if never_ran:
        say(f"{count(never_ran, 'job')} beside these ran for no time or on no GPU, and are left out")


def seconds(value: float) -> str:
    return f"{value:.4f} s ({duration(value)})"


def document(way: Way, made: Outcome, jobs: int, never_ran: int) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "order": way.order,
        "backfill": way.backfill,
        "policy": way.policy,
        "left_out": jobs - made.jobs,
        "never_ran": never_ran,
        **asdict(made),
    }


def by_width(ran: Sequence[Ran], gpus: int) -> list[str]:
    from mgpu.core.outcome import grouped, width

    groups = grouped(sorted(ran, key=lambda one: one.gpus), width, gpus)
    return rows_of("GPUS", groups)


def by_user(ran: Sequence[Ran], gpus: int, most: int = 10) -> list[str]:
    """Those who waited longest in all."""
    from mgpu.core.outcome import grouped

    groups = grouped(ran, lambda one: one.job.user or "-", gpus)
    first = sorted(groups, key=lambda name: -groups[name].jobs * groups[name].mean_wait_s)[:most]
    return rows_of("USER", {name: groups[name] for name in first})


def rows_of(heading: str, groups: dict[str, Outcome]) -> list[str]:
    rows = [
        [name, str(made.jobs), duration(made.mean_wait_s), duration(made.max_wait_s), f"{made.bsld:.2f}"]
        for name, made in groups.items()
    ]
    return table([heading, "JOBS", "MEAN WAIT", "LONGEST WAIT", "SLOWDOWN"], rows, right=range(1, 5))
