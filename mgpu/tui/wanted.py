"""Which part of the queue is wanted: filters, order, and the window of rows that is in view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LEAST_ROWS = 200  # of a window: a scroll by some pages asks for nothing
MOST_ROWS = 1000  # what the master gives at once
SORTS = ("queue", "id", "name", "user", "state", "gpus", "time", "node")


@dataclass
class Wanted:
    ended: bool = False
    search: str = ""
    mine: bool = False
    user: str = ""
    sort: str = "queue"
    offset: int = 0
    limit: int = LEAST_ROWS

    def query(self) -> dict[str, Any]:
        """As `GET /v1/window` has it."""
        return {
            "scope": "ended" if self.ended else "active",
            "search": self.search.strip(),
            "me": "1" if self.mine else "",
            "user": self.user,
            "sort": self.sort,
            "offset": self.offset,
            "limit": self.limit,
            "start": "" if self.ended else "1",
        }

    def cover(self, first: int, behind: int, matching: int) -> bool:
        """Whether another window is wanted, with these rows in view: it moves before its end comes into view."""
        page = max(behind - first, 1)
        limit = min(max(LEAST_ROWS, 4 * page), MOST_ROWS)
        before, after = first - self.offset, self.offset + self.limit - behind
        near_begin = before < page and self.offset > 0
        near_end = after < page and self.offset + self.limit < matching
        if limit == self.limit and not near_begin and not near_end:
            return False
        self.offset, self.limit = max(0, first - (limit - page) // 2), limit
        return True

    def to_the_top(self) -> None:
        """Other rows are wanted: they are looked at from the first one on."""
        self.offset = 0

    def sort_by(self, key: str) -> None:
        """Once more by the same is the other way round."""
        self.sort = f"-{key}" if self.sort == key else key
        self.to_the_top()

    def sort_by_next(self) -> None:
        place = SORTS.index(self.sort.removeprefix("-"))
        self.sort = SORTS[(place + 1) % len(SORTS)]
        self.to_the_top()

    def turn(self) -> None:
        self.sort_by(self.sort.removeprefix("-"))

    @property
    def filtered(self) -> bool:
        return bool(self.search.strip() or self.mine or self.user)

    def drop_filters(self) -> None:
        self.search, self.mine, self.user = "", False, ""
        self.to_the_top()

    def words(self) -> list[str]:
        """What is left out, and in which order, for the title."""
        said = [f"search “{self.search.strip()}”"] if self.search.strip() else []
        said += ["mine"] if self.mine else []
        said += [f"of {self.user}"] if self.user else []
        if self.sort != "queue":
            said.append(f"by {self.sort.removeprefix('-')}{', turned round' if self.sort.startswith('-') else ''}")
        return said
