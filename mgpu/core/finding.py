"""What a look has shown, in words for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OK = "ok"
WARNING = "warning"
FAILURE = "failure"
SKIPPED = "skipped"  # it could not be looked at


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
