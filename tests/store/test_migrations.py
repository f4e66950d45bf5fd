"""The steps of the migrations and the tables must end at the same schema."""

import sqlite3
from dataclasses import replace

import pytest
from alembic.script import ScriptDirectory

from mgpu.core.errors import StoreError
from mgpu.core.model import DeviceUuid, JobId, NodeState
from mgpu.core.observation import Mark, MarkKind, Node, Observation, Streak
from mgpu.store import migrate, tables
from mgpu.store.store import Store
from tests.store.stored_values import NODE, job


def schema(path):
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
    connection.close()
    # SQLite quotes the name of a table that was made anew
    return {(kind, name): "".join(sql.replace(f'"{name}"', name).split()) for kind, name, sql in rows if sql}


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
    copy = tmp_path / f"old.db.before-{tables.REVISION}"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert list(schema(copy)) == [("table", "alembic_version")]


def test_nodes_of_the_first_schema_are_kept_with_nothing_held_against_them(tmp_path):
    path = tmp_path / "mgpu.db"
    seen = Observation(NODE, 5.0, "boot", "gpu01.lab")
    node = Node(NODE, NodeState.DOWN, "no route", since=3.0, last_seen=5.0, failures=4, observation=seen)
    store = Store.open(path)
    with store.write() as w:
        w.save_node(node)
    store.close()
    with sqlite3.connect(path) as connection:  # what the first schema lacks
        for index in ("jobs_task", "jobs_active_task", "jobs_ended"):
            connection.execute(f"DROP INDEX {index}")
        tasks = [("jobs", name) for name in ("array_id", "array_index", "rest", "dropped")]
        for table, name in (("nodes", "marks"), ("nodes", "streaks"), ("jobs", "held"), ("attempts", "port"), *tasks):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
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
    assert [file.name for file in tmp_path.iterdir() if "before" in file.name] == []


def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "mgpu.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    with pytest.raises(StoreError, match="not one of mgpu"):
        Store.open(path)
