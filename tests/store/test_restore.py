"""A backup in the place of the database: what happened since does not meet what comes."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mgpu.client.lock import master_lock
from mgpu.core.errors import NotFound, StoreError
from mgpu.core.model import AttemptState, JobState
from mgpu.core.token import Token
from mgpu.store import copies
from mgpu.store.restore import MARGIN, restore
from mgpu.store.store import Store
from tests.store.stored_values import attempt, job, part

SCHEMAS = Path(__file__).with_name("schemas")


class State:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "state"
        self.path, self.spool = self.folder / "mgpu.db", self.folder / "spool"
        self.backup, self.aside = folder / "backup", self.folder / "aside"

    def back_up(self) -> None:
        copies.back_up(self.path, self.backup, True, lambda _left, _pages: None)

    def restore(self):
        return restore(self.backup, self.path, self.spool, 17.0, self.aside)

    def add(self, store: Store, request_id: str, runs: bool = False) -> int:
        with store.write() as writer:
            job_id, _ = writer.add_job(job(request_id))
            if runs:
                waits = writer.job(job_id)
                writer.save_job(replace(waits, state=JobState.RUNNING, attempt=1), waits)
                running = part(job_id, job_id, state=AttemptState.RUNNING)
                writer.add_attempt(attempt(job_id, state=AttemptState.RUNNING), [running])
                (self.spool / str(job_id) / "1").mkdir(parents=True)
        return job_id


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path)


def test_what_was_is_there_again_and_what_came_since_is_aside(state):
    store = Store.open(state.path)
    runs, waits = state.add(store, "a", runs=True), state.add(store, "b")
    state.back_up()
    since = state.add(store, "c", runs=True)
    store.close()
    identity = store.database_id
    done = state.restore()
    assert (done.held, done.moved, done.next) == (1, 1, since + 1)
    store = Store.open(state.path)
    assert store.database_id == identity  # so that what runs is found on its node
    assert state.path.stat().st_mode & 0o777 == 0o600
    with store.read() as reader:
        assert reader.job(runs).state is JobState.RUNNING
        assert reader.job(runs).held == ""
        assert reader.job(waits).held == "JobHeldAdmin by restore"
        assert reader.job(since) is None
        (row,) = reader.audits(what="restored from a backup")
        assert (row.at, row.detail) == (17.0, str(state.backup))
    assert state.add(store, "d") == since + 1
    store.close()
    assert sorted(path.name for path in state.spool.glob("*/*")) == ["1"]
    assert (state.aside / "spool" / str(since) / "1").is_dir()
    with closing(sqlite3.connect(state.aside / "mgpu.db")) as before:
        assert before.execute("SELECT max(job_id) FROM jobs").fetchone() == (since,)


@pytest.mark.parametrize("there", [b"x" * 100_000, None])
def test_in_place_of_what_cannot_be_read_numbers_go_on_far_behind(state, there):
    store = Store.open(state.path)
    last = state.add(store, "a")
    state.back_up()
    store.close()
    state.path.unlink()
    (state.spool / str(last + 5) / "1").mkdir(parents=True)
    if there is not None:
        state.path.write_bytes(there)
        state.path.with_name("mgpu.db-wal").write_bytes(b"of the one before")
    done = state.restore()
    assert done.next == last + 5 + MARGIN + 1
    assert not state.path.with_name("mgpu.db-wal").exists()
    store = Store.open(state.path)
    assert state.add(store, "b") == done.next
    store.close()


def test_what_is_no_sound_backup_changes_nothing(state):
    store = Store.open(state.path)
    state.add(store, "a", runs=True)
    store.close()
    before = state.path.read_bytes()
    with pytest.raises(NotFound):
        state.restore()
    state.backup.write_bytes(b"x" * 10_000)
    with pytest.raises(StoreError, match="not a database"):
        state.restore()
    with closing(sqlite3.connect(state.path)) as source, closing(sqlite3.connect(state.folder / "newer")) as target:
        source.backup(target)
        target.execute("UPDATE alembic_version SET version_num = '9999'")
        target.commit()
    (state.folder / "newer").replace(state.backup)
    with pytest.raises(StoreError, match="made by a newer version"):
        state.restore()
    assert state.path.read_bytes() == before
    assert sorted(path.name for path in state.folder.iterdir()) == ["mgpu.db", "spool"]


def revoked(state):
    with closing(sqlite3.connect(state.path)) as connection:
        return dict(connection.execute("SELECT token_id, revoked FROM tokens"))


@pytest.mark.parametrize("readable", [True, False])
def test_a_token_that_was_revoked_opens_nothing_again(state, readable):
    store = Store.open(state.path)
    for token_id in ("aaaaaaaa", "bbbbbbbb"):
        with store.write() as writer:
            writer.add_token(Token(token_id, "0" * 64, 1, "ann", "", 3.0, None))
    state.back_up()
    with store.write() as writer:
        (token, _) = writer.tokens()
        writer.save_token(replace(token, revoked=11.0), token)
    store.close()
    if not readable:
        state.path.unlink()
    done = state.restore()
    assert done.revoked == (1 if readable else 2)
    assert revoked(state) == {"aaaaaaaa": 11.0 if readable else 17.0, "bbbbbbbb": None if readable else 17.0}


def test_a_backup_of_another_master_is_refused_but_in_place_of_an_empty_one(state, tmp_path):
    other = State(tmp_path / "other")
    store = Store.open(other.path)
    other.add(store, "a")
    copies.back_up(other.path, state.backup, True, lambda _left, _pages: None)
    store.close()
    store = Store.open(state.path)
    store.close()
    assert state.restore().held == 1
    for path in state.folder.glob("mgpu.db*"):
        path.unlink()
    store = Store.open(state.path)
    state.add(store, "b")
    store.close()
    before = state.path.read_bytes()
    state.aside = state.folder / "later"
    with pytest.raises(StoreError, match="a backup of another database"):
        state.restore()
    assert state.path.read_bytes() == before
    assert not state.aside.exists()


@pytest.mark.parametrize("schema", sorted(path.stem for path in SCHEMAS.glob("*.sql")))
def test_a_copy_of_any_schema_can_be_put_back(state, schema):
    state.folder.mkdir()
    with closing(sqlite3.connect(state.backup)) as connection:
        connection.executescript((SCHEMAS / f"{schema}.sql").read_text())
        connection.commit()
        assert copies.schema_of(connection) == schema
    done = state.restore()
    assert done.next > MARGIN
    Store.open(state.path).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can do it for another account")
def test_what_root_puts_there_is_of_the_account_that_runs_the_master(state):
    store = Store.open(state.path)
    state.back_up()
    state.add(store, "a", runs=True)
    store.close()
    for path in (state.folder, *state.folder.rglob("*")):
        os.chown(path, 1, 2)
    with master_lock(state.folder):
        assert state.restore().moved == 1
    copies.back_up(state.path, state.folder / "copy", False, lambda _left, _pages: None)
    owners = {str(path.relative_to(state.folder)): os.lstat(path)[4:6] for path in state.folder.rglob("*")}
    assert {"mgpu.db", "copy", "lock", "aside/mgpu.db", "aside/spool/1/1"} <= owners.keys()
    assert set(owners.values()) == {(1, 2)}, owners
    assert os.lstat(state.backup).st_uid == 0  # there it is root's folder
