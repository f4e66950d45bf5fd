"""What a token is, and when it holds."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

import pytest

from mgpu.core.token import Token, digest_of, opens, parse_token, render_token

SECRET = "0123456789abcdef" * 4
TOKEN = Token("00c0ffee", digest_of(SECRET), 1000, "ann", "laptop", 100.0)


def test_it_is_read_as_it_is_written() -> None:
    assert parse_token(render_token("00c0ffee", SECRET)) == ("00c0ffee", SECRET)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mgpu_00c0ffee",
        f"00c0ffee_{SECRET}",
        f"mgpu_00C0FFEE_{SECRET}",
        f"mgpu_00c0ffee_{SECRET}0",
        f"mgpu_00c0ffee_{SECRET}\n",
    ],
)
def test_nothing_else_is_one(text: str) -> None:
    assert parse_token(text) is None


def test_what_is_kept_does_not_open() -> None:
    assert TOKEN.digest == hashlib.sha256(SECRET.encode()).hexdigest()
    assert opens(SECRET, TOKEN.digest)
    assert not opens(TOKEN.digest, TOKEN.digest)
    assert not opens(SECRET[:-1] + "0", TOKEN.digest)


def test_it_is_compared_in_the_same_time_wherever_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: asked.append((a, b)) or real(a, b))
    opens("x", TOKEN.digest)
    assert asked == [(digest_of("x"), TOKEN.digest)]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"expires": 201.0}, ""),
        ({"expires": 200.0}, "expired"),
        ({"revoked": 150.0}, "revoked"),
        ({"revoked": 150.0, "expires": 160.0}, "revoked"),
    ],
)
def test_when_it_holds(changes: dict[str, float], why: str) -> None:
    assert replace(TOKEN, **changes).why_not(200.0) == why
