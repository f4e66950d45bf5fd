"""Writes the file of the newest schema into tests/store/schemas, from the one before; what new columns may hold is then
added to it by hand: `python -m tests.store.newest_schema`."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from mgpu.store.store import Store
from mgpu.store.tables import REVISION

SCHEMAS = Path(__file__).with_name("schemas")


def main() -> None:
    before = max(path for path in SCHEMAS.glob("*.sql") if path.stem < REVISION)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mgpu.db")
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(before.read_text())
        Store.open(path).close()
        with closing(sqlite3.connect(path)) as connection:
            (SCHEMAS / f"{REVISION}.sql").write_text("\n".join(connection.iterdump()) + "\n")


if __name__ == "__main__":
    main()
