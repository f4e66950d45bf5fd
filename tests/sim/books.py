"""What must be true of the stored state, compared with what really happened. Reads the database file by itself."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

from mgpu.core.array import Reference, array_of, each, holds, stored_indices
from mgpu.core.model import JobId, PartKey
from mgpu.master.realise import UNPACK_S
from mgpu.store.spool import Spool
from tests.sim.node import VirtualNode
from tests.sim.truth import Story, Truth

FOR_GOOD = {"directory", "network"}  # failures that no waiting mends: the job may end with the first
COSTLY = (*FOR_GOOD, "node", "stopped", "node_lost")
FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
MOST_FAILURES = 5  # retries.max
MEASURED_LATE_S = 300.0  # a part that is over runs for the master until it hears of it
SETTLED_S = 150.0  # after the last fault: then every node was looked at again


class Books:
    def __init__(self, path: Path, spool: Spool, truth: Truth, nodes: Mapping[str, VirtualNode]) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self._spool = spool
        self._truth = truth
        self._nodes = nodes
        self._ended: set[tuple[int, int, int]] = set()
        self._collected: set[tuple[int, int, int]] = set()
        self._final: set[int] = set()
        self.cancelled: set[Reference] = set()  # jobs with a wish to end them
        self.requeued: set[Reference] = set()  # jobs with a wish to run them once more
        self.calm_since: float | None = None

    def close(self) -> None:
        self._connection.close()

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        return self._connection.execute(query, values).fetchall()

    # --- after every pass -------------------------------------------------------------------------------------------

    def check(self, now: float, waits: Iterable[JobId] | None) -> None:
        """`waits` None = this pass came to no plan."""
        self._connection.execute("BEGIN")
        try:
            self._check_holds()
            self._check_parts()
            self._check_jobs(waits)
            self._check_arrays()
            self._check_uses(now)
            if self.calm_since is not None and now > self.calm_since + SETTLED_S:
                self._check_calm(now, self.calm_since + SETTLED_S)
        finally:
            self._connection.execute("COMMIT")

    def _check_holds(self) -> None:
        held = self.rows("SELECT node, uuid, job_id, attempt, rank FROM holds WHERE released IS NULL")
        live = self.rows("SELECT node, uuids, job_id, attempt, rank FROM parts WHERE state <> 'ENDED'")
        wanted = {
            (r["node"], uuid, r["job_id"], r["attempt"], r["rank"]) for r in live for uuid in json.loads(r["uuids"])
        }
        if {tuple(row) for row in held} != wanted:
            self._truth.violate(f"held: {sorted(tuple(row) for row in held)}, but live parts have {sorted(wanted)}")
        if len({(row["node"], row["uuid"]) for row in held}) != len(held):
            self._truth.violate("a device is held twice")
        crooked = self.rows(
            "SELECT a.job_id, a.number FROM attempts a WHERE (a.state = 'ENDED') <> NOT EXISTS (SELECT 1 FROM parts p"
            " WHERE p.job_id = a.job_id AND p.attempt = a.number AND p.state <> 'ENDED')"
        )
        for row in crooked:
            self._truth.violate(f"attempt {row['job_id']}.{row['number']} and its parts disagree about being over")

    def _check_uses(self, now: float) -> None:
        """Nothing is measured twice, whoever dies when."""
        rows = self.rows(
            "SELECT u.*, json_array_length(p.uuids) AS gpus, p.started, coalesce(p.ended, ?) AS until FROM uses u"
            " JOIN parts p USING (job_id, attempt, rank)",
            now,
        )
        for row in rows:
            most_s = row["gpus"] * (max(0.0, row["until"] - (row["started"] or row["until"])) + MEASURED_LATE_S)
            if not row["busy_s"] <= row["measured_s"] + 1e-6 <= most_s + 2e-6:
                self._truth.violate(f"{tuple(row)}: busy, measured and held do not fit")

    def _check_parts(self) -> None:
        for row in self.rows("SELECT * FROM parts WHERE state = 'ENDED'"):
            which = (row["job_id"], row["attempt"], row["rank"])
            if which not in self._ended:
                self._ended.add(which)
                self._check_ended(row)
            if row["collected"] and which not in self._collected:
                self._collected.add(which)
                self._check_collected(row)

    def _check_ended(self, row: sqlite3.Row) -> None:
        key = f"{row['job_id']}.{row['attempt']}"
        story = self._truth.story(key, row["node"])
        if row["stop"] == "GIVEN_UP":
            story.given_up = True
            return
        if story.processes:
            self._truth.violate(f"{key} on {row['node']} is ENDED, and {story.processes} processes of it live")
        story.stored_as_ended = True

    def _check_collected(self, row: sqlite3.Row) -> None:
        key = f"{row['job_id']}.{row['attempt']}"
        story = self._truth.story(key, row["node"])
        if story.processes:
            self._truth.violate(f"{key} on {row['node']} is done with, and {story.processes} processes of it live")
        story.stored_as_ended = True
        if story.given_up:
            return
        part = PartKey(row["job_id"], row["attempt"], row["rank"])
        for stream in ("stdout", "stderr"):
            real = bytes(story.output[stream])
            stored = self._spool.read(part, stream, 0, len(real) + 1)  # type: ignore[arg-type]
            if stored != real:
                self._truth.violate(f"{stream} of {key} rank {row['rank']}: {stored!r} is stored, it was {real!r}")

    # --- jobs -------------------------------------------------------------------------------------------------------

    def _check_jobs(self, waits: Iterable[JobId] | None) -> None:
        jobs = self.rows("SELECT * FROM jobs")
        for job in jobs:
            if job["state"] not in FINAL:
                self._final.discard(job["job_id"])
            elif job["job_id"] not in self._final:
                self._final.add(job["job_id"])
                if job["rest"] is None:
                    self._check_final(job)
        if waits is not None:
            known = set(waits)
            for job in jobs:
                if job["state"] == "PENDING" and job["job_id"] not in known:
                    self._truth.violate(f"job {job['job_id']} is PENDING, and nothing says why")
        odd = self.rows(
            "SELECT j.job_id, j.state FROM jobs j WHERE j.rest IS NULL AND (j.state = 'RUNNING') <> EXISTS"
            " (SELECT 1 FROM parts p WHERE p.job_id = j.job_id AND p.state <> 'ENDED')"
        )
        for job in odd:
            self._truth.violate(f"job {job['job_id']} is {job['state']}, which its parts are not")

    def _check_final(self, job: sqlite3.Row) -> None:
        number, state, reason = job["job_id"], job["state"], job["reason"]
        name = f"job {number} is {state} ({reason}: {job['detail']})"
        stories = self._truth.of_attempt(number, job["attempt"])
        ran = [story for story in stories if story.starts]
        if state == "COMPLETED" and not self._complete(number, job["attempt"]):
            self._truth.violate(f"{name}, but {stories}")
        if state == "CANCELLED" and not self._was_to_end(job) and reason != "DependencyNeverSatisfied":
            self._truth.violate(f"{name}, and nobody wanted that")
        if state == "TIMEOUT" and not any(story.timed_out for story in stories):
            self._truth.violate(f"{name}, and no time limit was reached")
        if state == "NODE_FAIL" and not any(_node_failed(story) for story in stories):
            self._truth.violate(f"{name}, and no node went down")
        if state == "FAILED":
            codes = {story.exit_code for story in ran if story.exit_recorded and not story.ended_by_us}
            if reason == "NonZeroExitCode" and (not job["exit_code"] or job["exit_code"] not in codes):
                self._truth.violate(f"{name} with exit code {job['exit_code']}, but {stories}")
            if reason == "SupervisorKilled" and not any(story.guard_killed for story in stories):
                self._truth.violate(f"{name}, and nobody did")
        self._check_attempts(job, name)

    def _was_to_end(self, job: sqlite3.Row) -> bool:
        return _among(job, self.cancelled)

    def _may_run_again(self, job: sqlite3.Row) -> bool:
        return _among(job, self.requeued)

    def _check_arrays(self) -> None:
        """Each index is one task, or still to come, or dropped; and it is over when all of them are."""
        for array in self.rows("SELECT * FROM jobs WHERE rest IS NOT NULL"):
            number, state = array["job_id"], array["state"]
            tasks = self.rows("SELECT array_index, state FROM jobs WHERE array_id = ?", number)
            rest, dropped = (list(each(stored_indices(array[name]))) for name in ("rest", "dropped"))
            if state in FINAL:
                dropped, rest = [*dropped, *rest], []
            meant = array_of(json.loads(array["spec"])["array"])
            found = sorted([*(task["array_index"] for task in tasks), *rest, *dropped])
            if found != list(each(meant.indices)):
                self._truth.violate(f"array {number} of {meant} has become {found}")
            states = [task["state"] for task in tasks]
            running, alive = states.count("RUNNING"), any(each_state not in FINAL for each_state in states)
            if meant.cap and running > meant.cap:
                self._truth.violate(f"{running} tasks of array {number} run, {meant.cap} may")
            expected = (
                "PENDING" if rest else "RUNNING" if alive else ended_as({*states, *(["CANCELLED"] * len(dropped))})
            )
            if state != expected:
                self._truth.violate(f"array {number} is {state}, with {rest} to come and its tasks {states}")
            waited = json.loads(array["spec"]).get("dependency") is not None
            if dropped and not waited and not any(named.job_id == number for named in self.cancelled):
                self._truth.violate(f"{dropped} of array {number} are cancelled, and nobody wanted that")

    def _check_attempts(self, job: sqlite3.Row, name: str) -> None:
        failures = [
            (row["number"], row["failure"])
            for row in self.rows("SELECT number, failure FROM attempts WHERE job_id = ? ORDER BY number", job["job_id"])
        ]
        # all that node trouble may cost, whether or not the command ran
        before = [failure for _, failure in failures if failure in COSTLY]
        if job["reason"] == "LaunchFailed" and len(before) <= MOST_FAILURES and not FOR_GOOD & {*before}:
            self._truth.violate(f"{name} after {failures}")
        own = sum(failure == "exit" for _, failure in failures)
        again = self._may_run_again(job)
        if own > json.loads(job["spec"]).get("retries", 0) + 1 and not again:
            self._truth.violate(f"{name}: its own exit was retried too often: {failures}")
        spec = json.loads(job["spec"])
        ran = [number for number, _ in failures if any(s.starts for s in self._truth.of_attempt(job["job_id"], number))]
        if (spec["kind"] == "srun" or not spec.get("requeue", True)) and not spec.get("retries") and len(ran) > 1:
            self._truth.violate(f"{name}: its command ran in the attempts {ran}, though it is not to be queued again")
        for number, failure in failures:
            stories = self._truth.of_attempt(job["job_id"], number)
            # a part that never began is counted so, too, where others of its job ran
            apart = len({bool(story.starts) for story in stories}) > 1
            if failure == "node_lost" and not apart and not any(_node_failed(story) for story in stories):
                self._truth.violate(f"{name}: attempt {number} ended as node_lost, but {stories}")
            over = self._complete(job["job_id"], number) and not any(story.given_up for story in stories)
            if over and job["state"] != "COMPLETED" and not again:
                self._truth.violate(f"{name}, but attempt {number} of it completed: {stories}")

    def _complete(self, job: int, attempt: int) -> bool:
        """Every part ran its command to a good end by itself."""
        parts = self.rows("SELECT node FROM parts WHERE job_id = ? AND attempt = ?", job, attempt)
        stories: list[Story] = [self._truth.story(f"{job}.{attempt}", part["node"]) for part in parts]
        return bool(stories) and all(
            story.exit_recorded and story.exit_code == 0 and not story.ended_by_us for story in stories
        )

    def _check_calm(self, now: float, settled: float) -> None:
        """Well after the last fault contact is there, and what is to start has started. How long that takes each master
        counts from its own beginning, which with a tree may be long after that."""
        for row in self.rows(
            "SELECT p.* FROM parts p JOIN attempts a ON p.job_id = a.job_id AND p.attempt = a.number"
            " JOIN jobs j ON j.job_id = a.job_id"
            " WHERE p.state IN ('STARTING', 'LOST')"
            " AND iif(j.spec LIKE '%\"digest\"%', max(a.created, ?) + ?, a.created) < ?",
            settled,
            UNPACK_S,
            now - SETTLED_S,
        ):
            self._truth.violate(f"{row['job_id']}.{row['attempt']} on {row['node']} is still {row['state']}")
        for row in self.rows(
            "SELECT * FROM attempts"
            " WHERE state = 'ENDED' AND created > ? AND failure NOT IN ('', 'exit', 'supervisor')",
            settled,
        ):
            stories = self._truth.of_attempt(row["job_id"], row["number"])
            (job,) = self.rows("SELECT * FROM jobs WHERE job_id = ?", row["job_id"])
            wanted = self._was_to_end(job) or self._may_run_again(job) or any(story.timed_out for story in stories)
            if not wanted:
                self._truth.violate(f"{row['job_id']}.{row['number']} failed ({row['reason']}) with no trouble around")

    # --- at the end -------------------------------------------------------------------------------------------------

    def unfinished(self) -> str:
        """What is still to come; "" = nothing."""
        jobs = self.rows("SELECT job_id, state, reason, detail FROM jobs WHERE state NOT IN (?, ?, ?, ?, ?)", *FINAL)
        parts = self.rows("SELECT job_id, attempt, rank, state FROM parts WHERE state <> 'ENDED' OR collected = 0")
        return "; ".join(str(tuple(row)) for row in (*jobs, *parts))

    def check_end(self, submitted: int) -> None:
        found = self.rows("SELECT count(*) FROM jobs WHERE array_id IS NULL")[0][0]
        if found != submitted:
            self._truth.violate(f"{submitted} jobs were submitted, {found} are stored")
        for story in self._truth.stories.values():
            if story.processes:
                self._truth.violate(f"at the end {story} still runs")
        for node in self._nodes.values():
            held = [key for key, ours in node.supervised.items() if ours.holds_lease]
            if held:
                self._truth.violate(f"at the end {held} still hold leases on {node.name}")


def ended_as(states: set[str]) -> str:
    """Of an array, from how its tasks ended."""
    bad = states - {"COMPLETED"}
    return "COMPLETED" if not bad else "CANCELLED" if bad == {"CANCELLED"} else "FAILED"


def _among(job: sqlite3.Row, said: Iterable[Reference]) -> bool:
    """Somebody said so of the job, of its array, or of some tasks with it among them."""
    return any(
        named.job_id == job["job_id"]
        or (named.job_id == job["array_id"] and (named.indices is None or holds(named.indices, job["array_index"])))
        for named in said
    )


def _node_failed(story: Story) -> bool:
    """Also where its gang had begun on the other nodes, and the word to begin came too late for this one."""
    return story.rebooted or story.given_up or story.left_waiting
