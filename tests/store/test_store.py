"""The store against a real SQLite file."""

import subprocess
import sys
import textwrap
import threading
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from mgpu.core.errors import StoreError
from mgpu.core.model import AttemptState, Audit, DeviceUuid, JobState, NodeName, NodeState, Request
from mgpu.core.observation import Node, Observation
from mgpu.store import reading
from mgpu.store.audits import AuditFilter
from mgpu.store.disk import disk_fault
from mgpu.store.filters import JobFilter
from mgpu.store.store import Store
from mgpu.store.writing import HoldConflict
from tests.store.stored_values import NODE, attempt, job, part, spec


@pytest.fixture
def store(tmp_path):
    opened = Store.open(tmp_path / "mgpu.db")
    yield opened
    opened.close()


def add(store, request_id, **changes):
    with store.write() as w:
        return w.add_job(job(request_id, **changes))[0]


def test_files_are_private_and_the_database_keeps_its_id(tmp_path):
    path = tmp_path / "state" / "mgpu.db"
    with_first = Store.open(path)
    first_id = with_first.database_id
    add(with_first, "a")
    for file in (path, path.with_name("mgpu.db-wal")):
        assert file.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    with_first.close()
    again = Store.open(path)
    assert again.database_id == first_id
    assert len(first_id) == 32
    again.close()


def test_a_job_comes_back_as_it_was(store):
    wanted = job("r1", spec=spec(env={"A": "\udcff"}, name="caf\u00e9"), avoid=(NODE,), detail="x\u2026")
    with store.write() as w:
        job_id, created = w.add_job(wanted)
    assert created
    with store.read() as r:
        assert r.job(job_id) == replace(wanted, job_id=job_id)
        assert r.job_by_request("r1").job_id == job_id
        assert r.job(job_id + 1) is None


def test_the_same_request_is_the_same_job(store):
    first = add(store, "r1")
    with store.write() as w:
        assert w.add_job(job("r1", user="bob")) == (first, False)
        assert w.add_job(job("r2")) == (first + 1, True)


def test_text_that_is_not_utf8_is_stored_written_out(store):
    job_id = add(store, "r1", detail="bad \udcff")
    with store.read() as r:
        assert r.job(job_id).detail == r"bad \udcff"


@pytest.mark.parametrize("at_once", [1, 2, 500])
def test_filters(store, monkeypatch, at_once):
    monkeypatch.setattr(reading, "AT_ONCE", at_once)
    a = add(store, "a", spec=spec(request=Request(gpus=1, partition="train")))
    b = add(store, "b", user="bob", state=JobState.RUNNING, attempt=1)
    c = add(store, "c", state=JobState.COMPLETED, spec=spec(name="x"))
    d = add(store, "d", state=JobState.FAILED)
    with store.write() as w:
        w.add_attempt(attempt(b), [part(b, 0)])

    def ids(**wanted):
        with store.read() as r:
            found = r.jobs(JobFilter(**wanted))
            in_turn = list(r.jobs_in_turn(r.ids(JobFilter(**wanted))))
        assert list(chain(*in_turn)) == found and max(map(len, in_turn), default=0) <= at_once
        return [job.job_id for job in found]

    assert ids() == [a, b]
    assert ids(limit=1) == [a]
    assert ids(scope="ended") == [c, d]
    assert ids(scope="ended", limit=1) == [d]
    assert ids(scope="all", limit=3) == [b, c, d]
    for job_id, end_time in ((c, 9.0), (d, 7.0)):  # the later one ended first
        with store.write() as w:
            w.save_job(replace(w.job(job_id), end_time=end_time))
    assert ids(scope="ended") == [d, c]
    assert ids(scope="ended", limit=1) == [c]
    assert ids(user="bob") == [b]
    assert ids(partition="train") == [a]
    assert ids(node="gpu01") == [b]
    assert ids(node="gpu02") == []
    assert ids(scope="all", name="x") == [c]
    assert ids(scope="all", states=(JobState.FAILED, JobState.PENDING)) == [a, d]
    assert ids(scope="all", ids=(d, a, 99)) == [a, d]
    with store.read() as r:
        assert [found.job_id for found in r.pending()] == [a]
        assert r.count_by_state(JobFilter(scope="all"))[JobState.COMPLETED] == 1
        assert r.count_by_state(JobFilter(user="bob")) == {JobState.RUNNING: 1}
        assert list(r.parts_of_jobs([a, b])) == [b]


def test_parts_are_open_until_ended_and_collected_and_hold_until_ended(store):
    job_id = add(store, "a", attempt=1)
    running = part(job_id, 0, 1, state=AttemptState.RUNNING, pid=42, ready=True)
    with store.write() as w:
        w.add_attempt(attempt(job_id), [running])
    with store.read() as r:
        assert r.open_parts() == [running] == r.parts(job_id, 1)
        assert r.holds() == {(NODE, DeviceUuid(f"GPU-{i}")): (job_id, 1) for i in (0, 1)}
    ended = replace(running, state=AttemptState.ENDED, ended=1010.0, exit_code=3)
    with store.write() as w:
        w.save_part(ended)
        w.save_attempt(replace(attempt(job_id), state=AttemptState.ENDED, exit_code=3))
    with store.read() as r:
        assert r.open_parts() == [ended]
        assert r.holds() == {}
        assert r.attempt(job_id, 1).exit_code == 3
        assert r.attempts(job_id) == [r.attempt(job_id, 1)]
    with store.write() as w:
        w.save_part(replace(ended, collected=True))
    with store.read() as r:
        assert r.open_parts() == []


def test_a_refused_attempt_leaves_nothing_and_the_transaction_goes_on(store):
    first, second = add(store, "a"), add(store, "b")
    with store.write() as w:
        w.add_attempt(attempt(first), [part(first, 1)])
        with pytest.raises(HoldConflict) as refused:
            w.add_attempt(attempt(second), [part(second, 7), part(second, 0, 1, rank=1)])
        w.audit(Audit(1.0, "master", "refused", job_id=second))
    assert (refused.value.node, refused.value.uuid) == (NODE, "GPU-1")
    with store.read() as r:
        assert r.attempts(second) == []
        assert set(r.holds().values()) == {(first, 1)}
        assert [entry.what for entry in r.audits(job_id=second)] == ["refused"]
    with store.write() as w:
        w.save_part(part(first, 1, state=AttemptState.ENDED, ended=5.0))
        w.add_attempt(attempt(second), [part(second, 0, 1)])
    with store.read() as r:
        assert set(r.holds().values()) == {(second, 1)}


def test_an_exception_rolls_everything_back(store):
    with pytest.raises(ZeroDivisionError), store.write() as w:
        w.add_job(job("a"))
        raise ZeroDivisionError
    with store.read() as r:
        assert r.jobs(JobFilter(scope="all")) == []


def test_what_the_audit_says_stays(store):
    said = Audit(1.0, "alice", "cancel", None, NODE, "not hers", 1001, "socket", "refused")
    with store.write() as w:
        w.audit(said)
    for verb in ("UPDATE audit SET who = 'bob'", "DELETE FROM audit"):
        with pytest.raises(IntegrityError, match="append-only"), store._writing.begin() as connection:
            connection.exec_driver_sql(verb)
    with store.read() as r:
        assert r.audits(node=NODE) == [said]


def test_what_becomes_of_a_job_is_a_row_and_told_once_it_is_stored(store):
    told = []
    store.listen(told.append)
    job_id = add(store, "r1")
    with store.write() as w:
        waits = w.job(job_id)
        w.save_job(replace(waits, state=JobState.RUNNING, attempt=1, start_time=5.0), waits)
        assert told == []
    with pytest.raises(KeyError), store.write() as w:
        runs = w.job(job_id)
        w.save_job(replace(runs, state=JobState.FAILED, end_time=6.0), runs)
        raise KeyError
    with store.write() as w:
        runs = w.job(job_id)
        w.save_job(replace(runs, state=JobState.PENDING, start_time=None), runs)
    with store.write() as w:
        waits = w.job(job_id)
        failed = replace(waits, state=JobState.FAILED, attempt=2, start_time=7.0, end_time=8.0, exit_code=3)
        w.save_job(replace(failed, detail="why"), waits)
    with store.read() as r:
        rows = r.audits(job_id=job_id)
    assert rows == [one.entry for one in told]
    assert [(row.what, row.detail) for row in rows] == [
        ("started", "attempt 1"),
        ("requeued", "attempt 1"),
        ("started", "attempt 2"),
        ("ended: FAILED", "attempt 2, exit code 3: why"),
    ]
    assert (rows[0].at, rows[3].at) == (5.0, 8.0)
    assert [(one.job.state, one.job.exit_code) for one in told[2:]] == [(JobState.RUNNING, None), (JobState.FAILED, 3)]


def test_nodes_and_audit(store):
    seen = Node(NODE, NodeState.UP, last_seen=5.0, observation=Observation(NODE, 5.0, "boot", "gpu01.lab"))
    with store.write() as w:
        w.save_node(Node(NODE))
        w.save_node(seen)
        w.save_node(Node(NodeName("a")))
        for at in range(5):
            w.audit(Audit(float(at), "master", "probe", node=NODE))
    with store.read() as r:
        assert r.nodes() == [Node(NodeName("a")), seen]
        assert r.node(NODE) == seen
        assert [entry.at for entry in r.audited(AuditFilter(node=NODE, limit=2))] == [3.0, 4.0]
        assert r.audits(node=NodeName("a")) == []
        assert r.audits(what="notice") == []


def test_saving_what_was_never_added_is_an_error(store):
    with pytest.raises(LookupError), store.write() as w:
        w.save_job(job("a"))


def test_readers_see_a_still_picture_beside_the_writer(store):
    add(store, "a")
    with store.read() as r:
        assert len(list(r.pending())) == 1
        writer = threading.Thread(target=add, args=(store, "b"))
        writer.start()
        writer.join(10)
        assert not writer.is_alive()
        assert len(list(r.pending())) == 1
    with store.read() as r:
        assert len(list(r.pending())) == 2


def test_a_write_inside_a_write_is_refused(store):
    with store.write(), pytest.raises(RuntimeError), store.write():
        raise AssertionError("not reached")
    add(store, "a")


def test_two_processes_write_without_losing_anything(store, tmp_path):
    program = textwrap.dedent("""
        import sys
        from dataclasses import replace
        from pathlib import Path
        from mgpu.store.store import Store

        store = Store.open(Path(sys.argv[1]))
        for _ in range(40):
            with store.write() as w:
                job = next(w.pending())
                w.save_job(replace(job, failures=job.failures + 1))
    """)
    job_id = add(store, "a")
    command = [sys.executable, "-c", program, str(store.path)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    with store.read() as r:
        assert r.job(job_id).failures == 80


def test_the_frequent_queries_use_their_indices(store):
    with store.read() as r:
        for query, index in (
            ("SELECT * FROM jobs WHERE state = 'PENDING' ORDER BY job_id", "jobs_pending"),
            ("SELECT * FROM jobs WHERE state IN ('PENDING', 'RUNNING') ORDER BY job_id", "jobs_active"),
            ("SELECT * FROM jobs WHERE state NOT IN ('PENDING', 'RUNNING') ORDER BY end_time", "jobs_ended"),
            ("SELECT * FROM parts WHERE (state <> 'ENDED' OR collected = 0)", "parts_open"),
            ("SELECT * FROM holds WHERE released IS NULL", "holds_device"),
        ):
            plan = r._connection.execute(text(f"EXPLAIN QUERY PLAN {query}")).all()
            assert index in str(plan), plan


@pytest.mark.parametrize("content", [b"this is not a database, but some text that is long enough\n" * 40])
def test_a_file_that_is_no_database_is_named(tmp_path, content):
    path = tmp_path / "mgpu.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"mgpu\.db: the database is damaged") as refused:
        Store.open(path)
    assert "move the file away" in refused.value.hint
    assert path.read_bytes() == content


def test_damage_in_the_middle_is_named_when_it_is_met(tmp_path):
    path = tmp_path / "mgpu.db"
    store = Store.open(path)
    for number in range(40):
        add(store, f"r{number}")
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="the database is damaged"):
        store = Store.open(path)
        with store.read() as r:
            list(r.pending())


def test_only_what_differs_is_written(store):
    job_id = add(store, "a", spec=spec(name="x"))
    with store.read() as r:
        was = r.job(job_id)
    with store.write() as w:
        w.save_job(replace(was, failures=3))
        w.save_job(replace(was, detail="later"), was)
    with store.read() as r:
        assert r.job(job_id) == replace(was, failures=3, detail="later")
    renamed = replace(was, spec=replace(was.spec, name="y", request=Request(partition="p")))
    with store.write() as w:
        w.save_job(renamed, was)
    with store.read() as r:
        assert [found.job_id for found in r.jobs(JobFilter(name="y", partition="p"))] == [job_id]
        assert not r.jobs(JobFilter(name="x"))


def test_touched_jobs_are_told_once(store):
    store.take_touched()
    job_id = add(store, "a")
    assert store.take_touched() == {job_id}
    assert store.take_touched() == set()


def test_a_disk_that_fails_is_told_from_a_damaged_file(tmp_path):
    """SQLite has one word for both, and the advice is the opposite: there the file is sound."""
    sound = tmp_path / "mgpu.db"
    sound.write_bytes(b"no database")
    assert disk_fault(sound) == ""
    assert disk_fault(tmp_path / "gone") == "No such file or directory"
    assert disk_fault(Path("/proc/self/mem")) == "Input/output error"  # as what lies on a disk that has gone


def test_more_readers_than_there_can_be_are_told_so(store):
    store._engine.pool._timeout = 0.05
    with ExitStack() as stack, pytest.raises(StoreError, match="too many read it at once"):
        while True:
            stack.enter_context(store.read())
    with store.read() as r:
        assert r.nodes() == []
