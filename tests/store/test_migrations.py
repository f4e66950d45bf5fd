"""The steps of the migrations and the tables must end at the same schema."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from mgpu import care, clock
from mgpu.core.errors import StoreError
from mgpu.core.model import AttemptState, DeviceUuid, JobId, JobState, NodeState
from mgpu.core.observation import Mark, MarkKind, Node, Observation, Streak
from mgpu.store import migrate, tables
from mgpu.store.filters import JobFilter
from mgpu.store.store import Store
from mgpu.store.writing import HoldConflict
from tests.store.stored_values import NODE, job, part
from tests.store.stored_values import attempt as stored_attempt

SCHEMAS = Path(__file__).with_name("schemas")
REVISIONS = sorted(file.stem for file in SCHEMAS.glob("*.sql"))


def schema(path):
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
    connection.close()
    # SQLite quotes the name of a table that was made anew
    return {(kind, name): "".join(sql.replace(f'"{name}"', name).split()) for kind, name, sql in rows if sql}


def copies(path):
    return sorted(path.parent.glob(f"{path.name}.schema-*"))


def made_by(revision, path):
    """As mgpu of that schema wrote it: a job that waits, one that runs on two GPUs, one that has failed."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((SCHEMAS / f"{revision}.sql").read_text())


def test_the_tables_name_the_newest_revision():
    script = ScriptDirectory.from_config(migrate.configuration())
    assert script.get_heads() == [tables.REVISION]


def test_migrating_gives_the_schema_of_a_fresh_database(tmp_path):
    fresh, old = tmp_path / "fresh.db", tmp_path / "old.db"
    Store.open(fresh).close()
    with sqlite3.connect(old) as connection:
        connection.execute(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
            " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    connection.close()
    migrated = Store.open(old)
    assert len(migrated.database_id) == 32
    with migrated.write() as w:
        w.add_job(job("a"))
    migrated.close()
    assert schema(old) == schema(fresh)
    (copy,) = copies(old)
    assert copy.name.startswith("old.db.schema-0000-2")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert list(schema(copy)) == [("table", "alembic_version")]


def test_nodes_of_the_first_schema_are_kept_with_nothing_held_against_them(tmp_path):
    path = tmp_path / "mgpu.db"
    seen = Observation(NODE, 5.0, "boot", "gpu01.lab")
    node = Node(NODE, NodeState.DOWN, "no route", since=3.0, last_seen=5.0, failures=4, observation=seen)
    store = Store.open(tmp_path / "newest.db")
    with store.write() as w:
        w.save_node(node)
    store.close()
    made_by("0001", path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM nodes")
        connection.execute("ATTACH ? AS newest", [str(tmp_path / "newest.db")])
        known = ", ".join(name for _, name, *_ in connection.execute("PRAGMA main.table_info(nodes)"))
        connection.execute(f"INSERT INTO main.nodes ({known}) SELECT {known} FROM newest.nodes")
    connection.close()
    store = Store.open(path)
    mark = Mark(MarkKind.DRAINED, "alice", "2026-12-01T08:00:00Z", "fan", DeviceUuid("GPU-5"))
    marked = replace(node, marks=(mark,), streaks=(Streak(DeviceUuid("GPU-4"), ((JobId(7), 1.5),)),))
    with store.write() as w:
        assert w.nodes() == [node]
        w.save_node(marked, node)
    with store.read() as r:
        assert r.node(NODE) == marked
    store.close()
    Store.open(tmp_path / "fresh.db").close()
    assert schema(path) == schema(tmp_path / "fresh.db")


def test_a_database_of_a_newer_version_is_left_alone(tmp_path):
    path = tmp_path / "mgpu.db"
    Store.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(StoreError, match="newer version of mgpu"):
        Store.open(path)
    assert copies(path) == []


def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "mgpu.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    with pytest.raises(StoreError, match="not one of mgpu"):
        Store.open(path)


def test_there_is_a_database_of_every_schema():
    script = ScriptDirectory.from_config(migrate.configuration())
    assert sorted(found.revision for found in script.walk_revisions()) == REVISIONS


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_database_of_any_older_version_goes_on(tmp_path, revision):
    path = tmp_path / "mgpu.db"
    made_by(revision, path)
    store = Store.open(path)
    assert store.database_id == "cafe" * 8
    with store.read() as r:
        waits, runs, ended = (r.job_by_request(name) for name in ("waits", "runs", "ended"))
        assert [job.state for job in (waits, runs, ended)] == [JobState.PENDING, JobState.RUNNING, JobState.FAILED]
        assert (waits.spec.env, waits.user, waits.submit_time) == ({"A": "caf\u00e9"}, "alice", 1000.0)
        ((_, attempt, parts),) = r.open_attempts()
        assert (attempt.job_id, attempt.state) == (runs.job_id, AttemptState.RUNNING)
        assert [(each.pid, each.devices) for each in parts] == [(4242, (0, 1))]
        assert r.node(NODE).last_seen == 5.0
        assert {uuid for _, uuid in r.holds()} == {"GPU-0", "GPU-1"}
        assert [found.job_id for found in r.jobs(JobFilter(scope="ended"))] == [ended.job_id]
    with store.write() as w:
        assert w.add_job(job("later"))[0] == ended.job_id + 1
        with pytest.raises(HoldConflict):
            w.add_attempt(stored_attempt(waits.job_id), [part(waits.job_id, 0)])
    store.close()
    Store.open(tmp_path / "fresh.db").close()
    assert schema(path) == schema(tmp_path / "fresh.db")
    assert len(copies(path)) == (revision != tables.REVISION)


def test_the_way_back_is_a_copy_of_all_that_was_there(tmp_path):
    path, before = tmp_path / "mgpu.db", tmp_path / "before.db"
    made_by("0003", path)
    made_by("0003", before)
    with closing(sqlite3.connect(path)) as connection:  # what is only in the write-ahead log yet
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE jobs SET name = 'late'")
        connection.commit()
        Store.open(path).close()
    (copy,) = copies(path)
    assert copy.name.startswith("mgpu.db.schema-0003-2")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert schema(copy) == schema(before)
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT DISTINCT name FROM jobs").fetchall() == [("late",)]
    copy.replace(path)  # and forward again
    Store.open(path).close()
    assert len(copies(path)) == 1


def test_numbers_given_since_the_copy_are_skipped_as_the_docs_say(tmp_path):
    path = tmp_path / "mgpu.db"
    made_by("0005", path)
    store = Store.open(path)
    with store.write() as w:
        since, _ = w.add_job(job("since"))
    store.close()
    (copy,) = copies(path)
    text = (Path(__file__).parents[2] / "docs/upgrading.md").read_text()
    assert f"mgpu db restore ~/.local/state/mgpu/{copy.name[: len('mgpu.db.schema-0005')]}" in text
    assert care.restore(str(tmp_path), str(copy)).next == since + 1
    with closing(sqlite3.connect(path)) as connection:  # what the older version finds
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("0005",)
    store = Store.open(path)
    with store.write() as w:
        assert w.add_job(job("later"))[0] == since + 1
    store.close()


def test_the_last_few_copies_are_kept(tmp_path, monkeypatch):
    path = tmp_path / "mgpu.db"
    other = tmp_path / "mgpu.db.of-mine"
    other.write_text("mine")
    for day in range(5):
        monkeypatch.setattr(clock, "now", lambda day=day: 1_800_000_000.0 + 86_400 * day)
        path.unlink(missing_ok=True)
        made_by(REVISIONS[-2 - day % 2], path)  # by time, not by name
        Store.open(path).close()
    assert [file.name.rpartition("-")[2][:8] for file in copies(path)] == ["20270118", "20270117", "20270119"]
    assert other.read_text() == "mine"


def test_without_room_for_the_copy_nothing_is_changed(tmp_path, monkeypatch):
    path = tmp_path / "mgpu.db"
    made_by("0005", path)
    before = schema(path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(clock, "now", lambda: 1_800_000_000.0)
    (tmp_path / "mgpu.db.schema-0005-20270115T080000Z").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        Store.open(path)
    assert schema(path) == before
