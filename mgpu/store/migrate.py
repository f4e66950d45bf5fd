"""From an older schema to this one, with alembic. Imported only when the revisions differ."""

from __future__ import annotations

import glob
import logging
import os
import sqlite3
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from mgpu import clock
from mgpu.core.errors import StoreError
from mgpu.store import ownership

log = logging.getLogger(__name__)

COPIES = 3  # of databases as they were before they were brought to a newer schema


def upgrade(engine: Engine, path: Path, revision: str | None) -> None:
    """Bring the database from `revision` (None = before the first) to the newest, after a copy of it was made beside
    it. Raises StoreError for a revision that this version does not know."""
    config = configuration()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise StoreError(
            f"{path}: made by a newer version of mgpu (schema {revision})", "install that version or newer"
        )
    copy = _keep(path, revision)
    log.info("%s: from schema %s to %s; %s is a copy of it as it was", path, revision, max(known), copy)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def configuration() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    return config


def _keep(path: Path, revision: str | None) -> Path:
    """A copy beside it, for the way back; the oldest of many go."""
    moment = datetime.fromtimestamp(clock.now(), tz=timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    made = path.with_name(f"{path.name}.schema-{revision or '0000'}-{moment}")
    _copy(path, made)
    for old in sorted(path.parent.glob(f"{glob.escape(path.name)}.schema-*-*Z"), key=_when)[:-COPIES]:
        old.unlink(missing_ok=True)
    return made


def _when(copy: Path) -> str:
    return copy.name.rpartition("-")[2]


def _copy(path: Path, copy: Path) -> None:
    """Through SQLite, so that what still stands in the write-ahead log is part of it. All of it, or no file."""
    os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    ownership.give_to_folder(copy)
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    except sqlite3.Error:
        copy.unlink()
        raise
