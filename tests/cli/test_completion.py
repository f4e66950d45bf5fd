"""What could stand next on a command line."""

from __future__ import annotations

import os
import pty
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.cli.completion import living, values
from mgpu.cli.completion.line import Typed, read, written
from mgpu.cli.completion.offers import Ask, Offer, offer
from mgpu.cli.completion.values import value_of
from mgpu.cli.main import CLI
from mgpu.cli.syntax import GLOBAL_OPTIONS
from mgpu.cli.top import THEMES
from mgpu.core import mail
from mgpu.core.model import JobState, LauncherName
from mgpu.core.plan import Backfill
from mgpu.core.policies import POLICIES
from mgpu.core.signals import SIGNALS
from tests.cli.conftest import REPOSITORY, Ran
from tests.cli.test_readers import COMMANDS, command_of
from tests.client.peer import Peer, job

NODE = {"node_id": "gpu01", "state": "UP", "partition": "a b", "gpu_type": "H100", "gpus": [{"state": "free"}]}


SSH = """#!/bin/sh
echo "$@" >>"$HOME/said"
(: </dev/tty) 2>/dev/null && echo terminal >>"$HOME/said"
case $* in *-G*) exit 0 ;; esac
exit 255
"""


def names(ask: Ask) -> list[tuple[str, str]]:
    return [(name, "") for name in {"jobs": ("17", "18"), "nodes": ("gpu01", "gpu02")}.get(ask.kind, ())]


def offered(line: str) -> list[str]:
    *before, current = line.split(" ")
    return [word for word, _ in offer(CLI, before, current, names).found]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("que", ["queue"]),
        ("sba", ["sbatch"]),
        ("node dr", ["drain"]),
        ("node undr", ["undrain"]),
        ("queue --st", ["--states", "--state", "--start", "--state-dir"]),
        ("queue --me --m", ["--master"]),
        ("srun --json", []),
        ("queue --states RUN", ["RUNNING"]),
        ("queue --states=run", ["--states=RUNNING"]),
        ("queue --states RUNNING,R", []),
        ("queue --states RUNNING,P", ["RUNNING,PENDING"]),
        ("srun -w ", ["gpu01", "gpu02"]),
        ("srun -w gpu01,", ["gpu01,gpu02"]),
        ("srun -QG 2 -w ", ["gpu01", "gpu02"]),
        ("srun --launcher t", ["torchrun"]),
        ("--config x queue --name y --me -w g", ["gpu01", "gpu02"]),
        ("cancel ", ["17", "18"]),
        ("cancel 17 ", ["18"]),
        ("cancel -- 1", ["17", "18"]),
        ("show job 1", ["17", "18"]),
        ("show node ", ["gpu01", "gpu02"]),
        ("show ", ["job", "node"]),
        ("signal 17 U", ["USR1", "USR2"]),
        ("service install s", ["systemd"]),
        ("token revoke ", []),
        ("srun -I -w ", ["gpu01", "gpu02"]),
        ("srun --nice 5 -w ", ["gpu01", "gpu02"]),
        ("srun --gres gpu:2 -w ", ["gpu01", "gpu02"]),
        ("nonsense ", []),
        ("srun -- ls -", []),
        ("srun ls --g", []),
        ("init host --for", ["--force"]),
    ],
)
def test_what_is_offered(line: str, found: list[str]) -> None:
    assert offered(line) == found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("srun ", Offer("commands")),
        ("srun -G 2 py", Offer("commands")),
        ("srun python tr", Offer("files")),
        ("submit ", Offer("files")),
        ("submit -D ", Offer("folders")),
        ("submit --chdir=x", Offer("folders", prefix="--chdir=")),
        ("simulate --plot ", Offer("files")),
        ("srun --ship=", Offer("folders", prefix="--ship=")),
        ("config check ", Offer("files")),
        ("--config ", Offer("files")),
    ],
)
def test_what_the_shell_finds_itself(line: str, expected: Offer) -> None:
    *before, current = line.split(" ")
    assert offer(CLI, before, current, names) == expected


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_of_each_value_it_is_said_what_it_is(names: list[str]) -> None:
    """A new metavar goes into one of the tables of mgpu.cli.completion.values."""
    command = command_of(names)
    valued = [each for each in [*command.options, *GLOBAL_OPTIONS] if each.metavar]
    assert [each.key for each in [*valued, *command.arguments] if value_of(each) is None] == []


def test_choices_are_those_of_the_master() -> None:
    """They are written down twice: none of the core is loaded for a Tab."""
    assert tuple(JobState) == values.STATES
    assert tuple(LauncherName) == values.LAUNCHERS
    assert tuple(POLICIES) == values.POLICIES
    assert set(values.BACKFILLS) == set(Backfill)
    assert tuple(f"SIG{name}" for name in values.SIGNALS) == tuple(SIGNALS.values())
    assert values.THEMES == THEMES
    assert [word for word in values.MAIL_TYPES if mail.parse_mail_type(word) != word] == ["ALL", "NONE"]


# --- what the master knows ---


@pytest.fixture
def master(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> Peer:
    monkeypatch.setattr(living, "_stand_alone", lambda: None)
    active = [job("RUNNING", job_id="7_[1-3]", array_job_id=7, name="a\tb"), job("PENDING", job_id=8, user="\x1b[2J")]
    peer.answers["GET", "/v1/window"] = {"jobs": active}
    peer.answers["GET", "/v1/nodes"] = {"nodes": [NODE, {**NODE, "node_id": "x\ny"}]}
    return peer


def told(ran: Ran) -> list[list[str]]:
    assert (ran.status, ran.err) == (0, "")
    return [line.split("\t") for line in ran.out.splitlines()]


def test_names_come_from_the_master(master: Peer, mgpu: Callable[..., Ran]) -> None:
    assert told(mgpu("completion", "candidates", "--", "mgpu", "cancel", "")) == [
        ["", ""],
        ["8", r"PENDING train (\e[2J)"],
        ["7_[1-3]", r"RUNNING a\tb (alice)"],
        ["7", "the whole array"],
    ]
    assert told(mgpu("completion", "candidates", "--", "mgpu", "srun", "-p", "")) == [["", ""], ["a b", ""]]
    assert told(mgpu("completion", "candidates", "--", "mgpu", "node", "drain", "")) == [
        ["", ""],
        ["gpu01", "UP, 1 of 1 GPUs free"],
    ], "what would be a line of its own in a terminal is left out"
    assert {path.partition("&")[0] for path in master.paths()} == {"/v1/window?scope=active", "/v1/nodes"}
    mgpu("completion", "candidates", "--", "mgpu", "logs", "")
    assert any("scope=ended" in path for path in master.paths())


def test_the_words_of_a_line_as_bash_has_it(master: Peer, mgpu: Callable[..., Ran]) -> None:
    ran = mgpu("completion", "candidates", "--line=X=1 mgpu srun --partition=a", "--replaced=a")
    assert told(ran) == [["", ""], [r"a\ b", ""]]


def test_whoever_does_not_answer_is_not_waited_for(
    master: Peer, mgpu: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(living, "PATIENCE_S", 0.05)
    silent = threading.Event()
    master.answers["GET", "/v1/nodes"] = silent
    assert told(mgpu("completion", "candidates", "--", "mgpu", "nodes", "")) == [["", ""]]
    silent.set()


@pytest.mark.parametrize("answer", [b"not JSON", {"nodes": 5}, {"nodes": [{"state": "UP"}]}, (500, {}, {})])
def test_a_master_that_says_something_else(master: Peer, mgpu: Callable[..., Ran], answer: Any) -> None:
    master.answers["GET", "/v1/nodes"] = answer
    assert told(mgpu("completion", "candidates", "--", "mgpu", "nodes", "")) == [["", ""]]


@pytest.mark.parametrize("around", [[], ["sh", "-c", '"$@"; exit $?', "sh"]], ids=["leads its session", "one of it"])
def test_no_master_is_started_and_ssh_asks_nothing(programs: Callable[..., None], around: list[str]) -> None:
    """Whoever pressed Tab answers no questions: ssh has neither the terminal nor a window to ask in."""
    programs(ssh=SSH)
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "SSH_ASKPASS": "/bin/false", "DISPLAY": ":0"}

    def ask(*words: str) -> None:
        argv = [*around, sys.executable, "-m", "mgpu", "completion", "candidates", "--", "mgpu", *words, ""]
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe(argv[0], argv, environ)
        told = b""
        with suppress(OSError):  # so a terminal ends
            while data := os.read(terminal, 1000):
                told += data
        os.close(terminal)
        assert (os.waitpid(pid, 0)[1], told) == (0, b"\t\r\n")

    ask("cancel")
    assert not Path(os.environ["XDG_STATE_HOME"]).exists()
    ask("--master", "ssh://head", "cancel")
    said = (Path(os.environ["HOME"]) / "said").read_text()
    assert "BatchMode=yes" in said
    assert "terminal" not in said


# --- bash's line ---

LETTERS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8) | st.text(
    "ab '\"\\$`!*?[]{}~#&|;<>()=:,@/-", max_size=8
)


@given(LETTERS.filter(bool))
def test_what_is_written_is_read_alike(name: str) -> None:
    """By bash too: see tests/cli/test_completion_shells.py."""
    text = written(name, Typed((), "", ""), "")
    assert read(f"mgpu show {text}") == Typed(("mgpu", "show"), name, text)
    for quote in "'\"":
        begun = read(f"mgpu show {quote}")
        text = written(name, begun, "")
        assert read(f"mgpu show {quote}{text}{quote}").current == name


@given(LETTERS)
def test_any_line_is_read(line: str) -> None:
    typed = read(line)
    assert line.endswith(typed.raw)


@pytest.mark.parametrize(
    ("line", "words", "current"),
    [
        ("mgpu queue ", ("mgpu", "queue"), ""),
        ("A=1 B='x y' mgpu q", ("mgpu",), "q"),
        ("mgpu logs 'a b", ("mgpu", "logs"), "a b"),
        ('mgpu logs "a \\" b', ("mgpu", "logs"), 'a " b'),
        ("mgpu queue >file -", ("mgpu", "queue"), "-"),
        ("mgpu queue | mgpu sh", ("mgpu",), "sh"),
        ("mgpu show a\\ b", ("mgpu", "show"), "a b"),
        ("mgpu show $(reboot", (), "reboot"),
    ],
)
def test_a_line(line: str, words: tuple[str, ...], current: str) -> None:
    typed = read(line)
    assert (typed.words, typed.current) == (words, current)
