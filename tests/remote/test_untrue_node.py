"""A node whose answers are framed well and make no sense: each is trouble of that node, never an exception of ours."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from mgpu.core.model import NodeName
from mgpu.core.probe import parse_probe
from mgpu.remote import wire
from mgpu.remote.channel import LocalConnection
from mgpu.remote.errors import RemoteError
from mgpu.remote.runner import ProbeWanted, ShellRunner
from mgpu.remote.session import NodeSession

SERVE = """
mark=$1
printf '\\n%s hello end ok {hello}\\n' "$mark"
while read -r id operation rest; do
  if [ $operation = root ]; then printf '\\n%s %s end ok\\n' "$mark" "$id"; continue; fi
  {answer}
done
"""
END = "printf '\\n%s %s end %s\\n' \"$mark\" \"$id\" '{words}'"


@pytest.fixture
def runner_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ShellRunner]:
    def make(answer: str, hello: str = "boot host") -> ShellRunner:
        body = SERVE.replace("{hello}", hello).replace("{answer}", answer)
        parts = (b":", b":", f"serve() {{\n{body}\n}}".encode())
        monkeypatch.setattr(wire, "parts", lambda: parts)
        return ShellRunner(NodeSession(LocalConnection, ("db", "node001", "-"), 10.0, 10.0))

    return make


ASKED: dict[str, Callable[[ShellRunner], object]] = {
    "look": lambda runner: runner.look(["1.1"]),
    "stop": lambda runner: runner.stop("1.1", "token", "CANCEL"),
    "go": lambda runner: runner.go("1.1", "run"),
    "read": lambda runner: runner.read("1.1", "stdout", 0),
    "probe": lambda runner: runner.probe(ProbeWanted(timeout_s=1.0)),
}
NONSENSE = {
    "look": ["ok", "ok nan boot", "ok 1e999 boot", "ok 1", f"ok {'9' * 400} boot"],
    "stop": ["ok"],
    "go": ["ok"],
    "read": ["ok", "ok -5", "ok x", f"ok {'9' * 5000}"],
    "probe": ["ok", "ok 0", "ok x y", "ok -1 0"],
}


@pytest.mark.parametrize(("asked", "words"), [(asked, words) for asked, many in NONSENSE.items() for words in many])
def test_an_answer_that_makes_no_sense(runner_of: Callable[..., ShellRunner], asked: str, words: str) -> None:
    runner = runner_of(END.replace("{words}", words))
    try:
        with pytest.raises(RemoteError, match="cannot be read"):
            ASKED[asked](runner)
    finally:
        runner.close()


def test_a_greeting_that_makes_no_sense(runner_of: Callable[..., ShellRunner]) -> None:
    runner = runner_of("", hello="")
    with pytest.raises(RemoteError, match="cannot be read"):
        runner.look([])
    runner.close()


def test_an_answer_without_its_sections(runner_of: Callable[..., ShellRunner]) -> None:
    runner = runner_of(END.replace("{words}", "ok 0 0"))
    try:
        assert parse_probe(NodeName("node001"), runner.probe(ProbeWanted(timeout_s=1.0)), 1000.0).fault
    finally:
        runner.close()


def test_events_without_a_line_break(runner_of: Callable[..., ShellRunner]) -> None:
    """A job may write what it likes into the file: what is no line is not kept, and the next line counts."""
    flood = (
        'printf "%s %s begin\\n" "$mark" "$id"; head -c 5000000 /dev/zero | tr "\\0" x; echo; echo next; read -r stop'
    )
    runner = runner_of(flood)
    try:
        begun, cut, line = islice(runner.events(), 3)
        assert (begun, line) == ("", "next")
        assert len(cut) < 2_000_000
    finally:
        runner.close()
