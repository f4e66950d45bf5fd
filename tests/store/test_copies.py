"""The database as a whole: copied while others write, looked through, brought to this schema."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mgpu.core.errors import NotFound, RequestError, StoreError
from mgpu.core.model import AttemptState, JobState
from mgpu.store import copies
from mgpu.store.check import check
from mgpu.store.store import Store
from tests.store.stored_values import attempt, job, part

SCHEMAS = Path(__file__).with_name("schemas")
WRITER = """
import sys
from pathlib import Path
from mgpu.store.store import Store
from tests.store.stored_values import job
store = Store.open(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(100_000):
    with store.write() as writer:
        # two of a kind, so that a copy of one without the other can be told
        writer.add_job(job(f"w{number}a"))
        writer.add_job(job(f"w{number}b"))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "mgpu.db"


def fill(path: Path, jobs: int) -> Store:
    store = Store.open(path)
    with store.write() as writer:
        for number in range(jobs):
            writer.add_job(job(f"r{number}"))
    return store


def silent(_left: int, _pages: int) -> None:
    pass


def count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM jobs").fetchone()[0])


def test_a_copy_beside_a_writer_is_of_one_moment_and_private(path, tmp_path, monkeypatch):
    fill(path, 3000).close()
    monkeypatch.setattr(copies, "PAGES", 5)  # many steps, with writes in between
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout.readline() == b"ready\n"
            steps = []
            written = copies.back_up(path, tmp_path / "copy", False, lambda left, pages: steps.append((left, pages)))
        finally:
            writer.kill()
    assert len(steps) > 50
    assert [left for left, _ in steps] == sorted({left for left, _ in steps}, reverse=True)  # it never began anew
    assert written.path.stat().st_mode & 0o777 == 0o600
    assert written.size == written.path.stat().st_size
    assert not list(tmp_path.glob(".copy*"))
    found = count(written.path)
    assert found >= 3000
    assert found % 2 == 0
    assert count(path) > found


def test_what_is_there_is_replaced_only_on_request(path, tmp_path):
    fill(path, 1).close()
    target = tmp_path / "copy"
    target.write_text("dear")
    with pytest.raises(RequestError, match="is there already"):
        copies.back_up(path, target, False, silent)
    assert target.read_text() == "dear"
    link = tmp_path / "link"
    link.symlink_to("nowhere")
    with pytest.raises(RequestError, match="is there already"):
        copies.back_up(path, link, False, silent)
    copies.back_up(path, target, True, silent)
    assert count(target) == 1
    assert target.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("force", [True, False])
def test_no_backup_takes_the_place_of_the_database_a_device_or_a_folder(path, tmp_path, force):
    fill(path, 1).close()
    before = path.read_bytes()
    link = tmp_path / "link"
    link.symlink_to(path.parent)
    for name in ("mgpu.db", "mgpu.db-wal", "mgpu.db-shm", "mgpu.db-journal", "lock"):
        for target in (path.with_name(name), link / name):
            with pytest.raises(RequestError, match="belongs to the database itself"):
                copies.back_up(path, target, force, silent)
    os.mkfifo(tmp_path / "pipe")
    for target, words in ((Path("/"), "folder"), (tmp_path, "folder"), (tmp_path / "pipe", "no file that a backup")):
        with pytest.raises(RequestError, match=words):
            copies.back_up(path, target, force, silent)
    assert path.read_bytes() == before
    assert (tmp_path / "pipe").is_fifo()


def test_what_cannot_be_copied_is_told_and_leaves_nothing(path, tmp_path):
    with pytest.raises(NotFound, match="there is no database"):
        copies.back_up(path, tmp_path / "copy", False, silent)
    fill(path, 2000).close()
    with pytest.raises(StoreError, match="cannot be written"):
        copies.back_up(path, tmp_path / "no" / "copy", False, silent)
    data = bytearray(path.read_bytes())
    data[3 * 4096 : 40 * 4096] = b"\xff" * (37 * 4096)
    path.write_bytes(data)
    with pytest.raises(StoreError):
        copies.back_up(path, tmp_path / "copy", False, silent)
    assert not [*tmp_path.glob("copy*"), *tmp_path.glob(".copy*")]


def test_a_database_of_others_is_none_of_ours(path, tmp_path):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE x (y)")
    with pytest.raises(StoreError, match="not a database of mgpu"):
        copies.back_up(path, tmp_path / "copy", False, silent)


def test_room_is_given_back(path):
    store = fill(path, 5000)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM jobs WHERE job_id > 10")
        connection.commit()
    with pytest.raises(RequestError, match="would have to wait"):
        copies.vacuum(path, 1000)
    before, after = copies.vacuum(path, None)
    assert after < before / 5
    with store.read() as reader:
        assert reader.job(10) is not None
    store.close()


def test_a_migration_is_tried_and_nothing_changed(path):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((SCHEMAS / "0006.sql").read_text())
        connection.commit()
    before = path.read_bytes()
    assert copies.try_migration(path)[0] == "0006"
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["mgpu.db"]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(StoreError, match="made by a newer version"):
        copies.try_migration(path)


# --- check -----------------------------------------------------------------------------------------------------------

WRONG = {
    "UPDATE holds SET released = 1": {"holds", "missing"},
    "UPDATE parts SET state = 'ENDED'": {"holds", "attempts", "jobs"},
    "UPDATE jobs SET state = 'PENDING' WHERE job_id = 1": {"jobs"},
    "UPDATE jobs SET state = 'FAILED' WHERE job_id = 2": {"ends"},
    "UPDATE jobs SET array_id = 1 WHERE job_id = 2": {"arrays"},
    "UPDATE jobs SET spec = '{}' WHERE job_id = 2": {"values"},
    "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'jobs'": {"numbers"},
    "INSERT INTO meta (database_id, created) VALUES ('cd', 1.0)": {"identity"},
    "DELETE FROM attempts": {"file"},
    "UPDATE alembic_version SET version_num = '0001'": {"schema"},
}


def busy(path: Path) -> None:
    store = fill(path, 2)
    with store.write() as writer:
        waits = writer.job(1)
        writer.save_job(replace(waits, state=JobState.RUNNING, attempt=1), waits)
        writer.add_attempt(attempt(1, state=AttemptState.RUNNING), [part(1, 0, 1, state=AttemptState.RUNNING)])
    store.close()


def wrong(path: Path, spool: Path) -> set[str]:
    return {one.check for one in check(path, spool) if one.status not in ("ok", "skipped")}


def test_a_sound_database_is_found_sound(path, tmp_path):
    busy(path)
    (tmp_path / "spool" / "1" / "1").mkdir(parents=True)
    assert wrong(path, tmp_path / "spool") == set()


@pytest.mark.parametrize("change", WRONG)
def test_each_contradiction_is_found(path, tmp_path, change):
    busy(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(change)
        connection.commit()
    assert wrong(path, tmp_path / "spool") == WRONG[change]


def test_output_of_nobody_is_found(path, tmp_path):
    busy(path)
    for name in ("1/2", "17/1", "x/1"):
        (tmp_path / "spool" / name).mkdir(parents=True)
    told = [one.text for one in check(path, tmp_path / "spool") if one.check == "spool"]
    assert [text.partition(" is ")[0] for text in told] == [f"{tmp_path}/spool/{name}" for name in ("1/2", "17/1")]


def test_damage_is_a_finding(path, tmp_path):
    fill(path, 2000).close()
    data = bytearray(path.read_bytes())
    data[20 * 4096 : 40 * 4096] = b"\xff" * (20 * 4096)
    path.write_bytes(data)
    assert "file" in wrong(path, tmp_path / "spool")
