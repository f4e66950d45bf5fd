"""Writers that come at the same time share one transaction, and so the wait for the disk that its commit is.

Each has its turn, under the store's lock, and may fail by itself; all of them return when the commit is done, and none
of them has happened if it fails.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import cast

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from mgpu.store.writing import Writer

MOST = 16  # so that the first of them does not wait for ever


class Group:
    """Begun when it is made. `over`: the commit is done, or has failed."""

    def __init__(self, engine: Engine) -> None:
        self._connection = engine.connect()
        try:
            self._transaction = self._connection.begin()
        except BaseException:
            self._connection.close()
            raise
        self._driver = cast(sqlite3.Connection, self._connection.connection.driver_connection)
        self._turns = 0
        self.over: Future[None] = Future()

    @property
    def full(self) -> bool:
        return self._turns >= MOST or self.over.done()

    @contextmanager
    def turn(self) -> Iterator[Writer]:
        self._turns += 1
        self._driver.execute("SAVEPOINT turn")
        try:
            yield Writer(self._connection)
        except BaseException as error:
            if self._driver.in_transaction:
                self._driver.execute("ROLLBACK TO turn")
                self._driver.execute("RELEASE turn")
            else:  # SQLite has given up all of it: no space, or a disk that fails
                self.over.set_exception(error)
            raise
        self._driver.execute("RELEASE turn")

    def end(self) -> None:
        """Never raises: what went wrong stands in `over`."""
        try:
            if self.over.done():
                self._transaction.rollback()
            else:
                self._transaction.commit()
                self.over.set_result(None)
        except (SQLAlchemyError, sqlite3.Error) as error:
            if not self.over.done():
                self.over.set_exception(error)
        finally:
            if self._driver.in_transaction:  # a commit that failed leaves it open
                self._driver.rollback()
            self._connection.close()
