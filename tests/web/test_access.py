"""Who may see the monitor in a browser."""

from __future__ import annotations

import pytest

from mgpu.tui.web.access import Access, why_not
from mgpu.tui.web.server import policy

HERE = {"Host": "127.0.0.1:8000"}
OWN = {**HERE, "Origin": "http://127.0.0.1:8000"}


def test_a_token_is_worth_a_session_once() -> None:
    access = Access()
    assert access.exchange("") is None  # there is none yet
    token = access.new_token()
    assert access.exchange(token + "x") is None
    session = access.exchange(token)
    assert session is not None and access.knows(session) and not access.knows(token)
    assert access.exchange(token) is None and access.exchange("") is None
    assert not access.knows("") and not access.knows("\udcff")


def test_another_token_is_another_session_and_ends_the_one_not_used() -> None:
    access = Access()
    first, second = access.new_token(), access.new_token()
    assert access.exchange(first) is None
    one, other = access.exchange(second), access.exchange(access.new_token())
    assert one != other and access.knows(str(one)) and access.knows(str(other))
    assert len({access.place, Access().place}) == 2


@pytest.mark.parametrize("headers", [HERE, OWN, {"Host": "localhost:9"}, {"Host": "[::1]:80"}, {"Host": "127.0.0.1"}])
def test_this_machine_asks_for_a_page(headers: dict[str, str]) -> None:
    assert why_not(headers, opens_stream=False) == ""


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "evil.example"},
        {"Host": "evil.example:8000"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example:8000"},
        {"Host": "10.0.0.1:8000"},
        {"Host": "127.0.0.1:8000@evil.example"},
        {**HERE, "Origin": "http://evil.example"},
        {**HERE, "Origin": "null"},
        {**HERE, "Origin": "https://127.0.0.1:8000"},
        {**HERE, "Origin": "http://127.0.0.1:9999"},
        {**HERE, "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
        {**HERE, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
    ],
)
@pytest.mark.parametrize("opens_stream", [False, True])
def test_others_do_not(headers: dict[str, str], opens_stream: bool) -> None:
    assert why_not(headers, opens_stream) != ""


def test_a_stream_is_opened_by_the_page_alone() -> None:
    assert why_not(OWN, opens_stream=True) == ""
    assert why_not(HERE, opens_stream=True) != ""
    assert why_not({**HERE, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, opens_stream=False) == ""


def test_the_page_may_do_nothing_elsewhere() -> None:
    rules = dict(rule.split(" ", 1) for rule in policy("abc", "127.0.0.1:8").split("; "))
    assert rules.pop("default-src") == "'none'"
    allowed = {source for rule in rules.values() for source in rule.split()}
    assert allowed == {"'self'", "'none'", "'nonce-abc'", "'unsafe-inline'", "data:", "ws://127.0.0.1:8"}
    assert "unsafe" not in rules["script-src"]
