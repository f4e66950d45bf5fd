"""What is left of us on a node: read from its answer, and what of it may go. Pure.

What is kept, and for how long (docs/architecture.md says it for people):

- the run directory of an attempt stays whole until every byte of its output is in the spool;
- then all of it goes but its records, the *tombstone*, so that a request which comes late cannot start it once more;
- a tree that jobs brought along (--ship) stays for a week after one last wanted it, the last ten at most;
- tombstones that are a week old go too, a few at each clean-up of their node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mgpu.numeral import numeral

_PLACE = re.compile(r"([0-9a-f]{32})/([A-Za-z0-9][A-Za-z0-9._-]*)/([1-9][0-9]*)\.([1-9][0-9]*)")
_TREE_PLACE = re.compile(r"([0-9a-f]{32})/([A-Za-z0-9][A-Za-z0-9._-]*)/trees/([0-9a-f]{64})(?:\.[0-9]+)?")
_SECONDS = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,12})?")
# A request that was sent before a cut comes within minutes or never: the kernels give the connection up.
LATE_S = 600


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """`condition`: alive, ended, tombstone (but for its records it is cleaned away), unstarted, died (no process is
    left, and no end is recorded), elsewhere (nor is it of this boot: it may live on another machine with this home)."""

    place: str
    database: str
    node: str
    job_id: int
    attempt: int
    condition: str
    age_s: float
    size_kib: int


@dataclass(frozen=True, slots=True)
class EventsFile:
    database: str
    node: str
    age_s: float
    size_kib: int


@dataclass(frozen=True, slots=True)
class ShippedTree:
    """Kept packed, for jobs that go by it."""

    place: str
    database: str
    node: str
    digest: str
    age_s: float
    size_kib: int


@dataclass(frozen=True, slots=True)
class LeaseDirectory:
    """`name` is the device's UUID."""

    name: str
    owner: str
    held: bool
    age_s: float


@dataclass(frozen=True, slots=True)
class Residue:
    """`base` is where the run directories are on the node."""

    base: str
    runs: tuple[RunDirectory, ...]
    events: tuple[EventsFile, ...]
    leases: tuple[LeaseDirectory, ...]
    trees: tuple[ShippedTree, ...] = ()


def parse_residue(sections: Mapping[str, tuple[str, str]], now: str) -> Residue:
    """`sections`: name -> (the words after the name, the text below); `now` by the node's clock. What has not our form
    is none of ours."""
    base = sections["base"][0]
    sizes = {}
    for line in sections["sizes"][1].splitlines():
        size, _, path = line.partition("\t")
        if (kib := numeral(size)) is not None:
            sizes[path.removeprefix(f"{base}/")] = kib
    runs = []
    for words in _lines(sections["runs"], 3):
        found = _PLACE.fullmatch(words[0])
        if found:
            database, node, job_id, attempt = found.groups()
            age, kib = _age(now, words[1]), sizes.get(words[0], 0)
            runs.append(RunDirectory(words[0], database, node, int(job_id), int(attempt), words[2], age, kib))
    events = []
    for place, since, size in _lines(sections["events"], 3):
        found = _PLACE.fullmatch(place.removesuffix("/events") + "/1.1")
        if found:
            events.append(EventsFile(found[1], found[2], _age(now, since), int(size)))
    trees = []
    for place, since, size in _lines(sections["trees"], 3):
        kept = _TREE_PLACE.fullmatch(place)
        if kept:
            trees.append(ShippedTree(place, kept[1], kept[2], kept[3], _age(now, since), int(size)))
    leases = [
        LeaseDirectory(name, owner, held == "held", _age(now, since))
        for name, held, since, owner in _lines(sections["leases"], 4)
    ]
    order = sorted(runs, key=lambda run: (run.database, run.node, run.job_id, run.attempt))
    return Residue(base, tuple(order), tuple(events), tuple(leases), tuple(trees))


def _lines(section: tuple[str, str], count: int) -> list[list[str]]:
    return [words for line in section[1].splitlines() if len(words := line.split(" ")) == count]


def _age(now: str, since: str) -> float:
    if not (_SECONDS.fullmatch(now) and _SECONDS.fullmatch(since)):
        raise ValueError(f"{now!r} and {since!r} are no times")
    return max(0.0, float(now) - float(since))


def why_stays(run: RunDirectory, here: tuple[str, str], state: str | None, everything: bool) -> str:
    """ "" = it may go; else why not. Rules in order, the first that holds says it. `here`: our database and the node's
    name in it; `state`: of an attempt that this database knows: open, uncollected or over. `everything`: also what is
    of other databases."""
    ours = run.database == here[0]
    rules = (
        (run.condition == "alive", "a process of it lives"),
        (ours and run.node != here[1], f"it is of the node {run.node}, with the same home: clean that one"),
        (ours and state == "open", "the job has not ended"),
        (ours and state == "uncollected", "its output is not collected yet"),
        (ours and state == "over", ""),
        (not everything and ours, "this database knows no such job: --all takes it too"),
        (not everything, "it is of another database: --all takes it too"),
        (
            run.condition == "elsewhere",
            "no end is recorded, and it is not of this boot: it may live on another machine with the same home",
        ),
    )
    return next((reason for holds, reason in rules if holds), "")


def why_tree_stays(tree: ShippedTree, here: tuple[str, str], everything: bool) -> str:
    """As `why_stays`. It is sent again to whoever needs it."""
    ours = tree.database == here[0]
    if ours and tree.node != here[1]:
        return f"it is of the node {tree.node}, with the same home: clean that one"
    return "" if ours or everything else "it is of another database: --all takes it too"


WHY_REFUSED = {
    "alive": "a process of it lives",
    "young": f"it changed within the last {LATE_S // 60} minutes: a request still on its way could start it once more",
    "used": f"a job wanted it within the last {LATE_S // 60} minutes",
    "absent": "it is not there any more",
    "stays": "the node cannot remove it",
    "held": "a process holds it",
    "foreign": "another account made it",
}
