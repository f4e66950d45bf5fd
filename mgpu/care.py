"""What is done to the database file itself, by its command alone: beside a master that runs, or in place of one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from mgpu import clock
from mgpu.core.finding import Finding
from mgpu.store import check as looks
from mgpu.store import copies
from mgpu.store import restore as backups
from mgpu.store.copies import Progress, Written
from mgpu.store.restore import Restored
from mgpu.store.store import Store

VACUUM_MOST = 100 << 20  # bytes, with a master that waits for it


def back_up(state_dir: str, target: str, force: bool, progress: Progress) -> Written:
    """`target` "" = beside the database, named by the time."""
    path = _database(state_dir)
    if target:
        return copies.back_up(path, Path(target).absolute(), force, progress)
    return copies.back_up(path, path.with_name(f"{path.name}.backup-{_moment(clock.now())}"), force, progress)


def check(state_dir: str) -> Iterator[Finding]:
    return looks.check(_database(state_dir), Path(state_dir) / "spool")


def vacuum(state_dir: str, beside_master: bool) -> tuple[int, int]:
    return copies.vacuum(_database(state_dir), VACUUM_MOST if beside_master else None)


def migrate(state_dir: str, only_try: bool) -> tuple[str, str]:
    """The schema before and after; `only_try`: that it would have. The caller holds the master's lock."""
    path = _database(state_dir)
    before, after = copies.try_migration(path)
    if not only_try and before != after:
        Store.open(path).close()
    return before, after


def restore(state_dir: str, source: str) -> Restored:
    """The caller holds the master's lock."""
    path, now = _database(state_dir), clock.now()
    aside = path.with_name(f"before-restore-{_moment(now)}")
    return backups.restore(Path(source).absolute(), path, Path(state_dir) / "spool", now, aside)


def _moment(now: float) -> str:
    return datetime.fromtimestamp(now, tz=timezone.utc).strftime("%Y%m%dT%H%M%SZ")


def _database(state_dir: str) -> Path:
    return Path(state_dir) / "mgpu.db"
