"""What a look has shown, in words for people."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

OK = "ok"
WARNING = "warning"
FAILURE = "failure"
SKIPPED = "skipped"  # it could not be looked at
STATUSES = (OK, WARNING, FAILURE, SKIPPED)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finding:
    """`check` names what was looked at, `text` says what is so, `hint` what to do about it."""

    status: str
    check: str
    text: str
    hint: str = ""

    def as_json(self) -> dict[str, str]:
        return {"status": self.status, "check": self.check, "text": self.text, "hint": self.hint}


Findings = Iterable[Finding]


def ok(check: str, text: str) -> Finding:
    return Finding(OK, check, text)


def warning(check: str, text: str, hint: str) -> Finding:
    return Finding(WARNING, check, text, hint)


def failure(check: str, text: str, hint: str) -> Finding:
    return Finding(FAILURE, check, text, hint)


def skipped(check: str, text: str) -> Finding:
    return Finding(SKIPPED, check, text)


def within(limit_s: float, ask: Callable[[], T]) -> T:
    """What `ask` returns or raises; TimeoutError when that takes longer: nothing can end it then."""
    answers: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            answers.append(ask())
        except Exception as error:  # noqa: BLE001  # raised again below, in the thread that asked
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if errors:
        raise errors[0]
    if not answers:
        raise TimeoutError
    return answers[0]
