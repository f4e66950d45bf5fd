"""From an older schema to this one, with alembic. Imported only when the revisions differ."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from mgpu.core.errors import StoreError


def upgrade(engine: Engine, path: Path, revision: str | None) -> None:
    """Bring the database from `revision` (None = before the first) to the newest, after a copy of it was made beside
    it. Raises StoreError for a revision that this version does not know."""
    config = configuration()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise StoreError(
            f"{path}: made by a newer version of mgpu (schema {revision})", "install that version or newer"
        )
    _copy(path, path.with_name(f"{path.name}.before-{max(known)}"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def configuration() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    return config


def _copy(path: Path, copy: Path) -> None:
    """Through SQLite, so that what still stands in the write-ahead log is part of it."""
    os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
