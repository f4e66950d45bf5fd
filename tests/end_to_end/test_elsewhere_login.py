"""Logins as people have them: a key with a passphrase, a machine in between, connections that are shared."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.end_to_end.cluster import Terminal, until
from tests.end_to_end.elsewhere import SSH, Elsewhere
from tests.lab import Lab, Settings

WORD = "correct horse"


@pytest.fixture(scope="module")
def shared(swept: None, lab_prefix: Callable[[], str]) -> Iterator[Elsewhere]:
    with (
        Lab(Settings(ephemeral=True, nodes=3), lab_prefix(), "loopback") as lab,
        closing(Elsewhere(lab, "logins")) as made,
    ):
        made("nodes", env=made.on_head())
        yield made


@pytest.fixture
def away(shared: Elsewhere) -> Iterator[Elsewhere]:
    shared.record.write_text("")
    yield shared
    shared.clear()


def configured(away: Elsewhere, folder: Path, text: str) -> dict[str, str]:
    """The environment with an ssh that reads `text` before the lab's own settings, of which it wins."""
    config = folder / "ssh_config"
    config.write_text(text + away.lab.ssh_config.read_text().replace("BatchMode yes\n", ""))
    ssh = folder / "ssh"
    note = f'case " $* " in *" -G "*|*" -W "*) ;; *) echo $$ >>{away.record} ;; esac'
    ssh.write_text(f'#!/bin/sh\n{note}\nexec {SSH} -F {config} "$@"\n')
    ssh.chmod(0o755)
    return {**away.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.fixture
def locked(away: Elsewhere, tmp_path: Path) -> dict[str, str]:
    """The key has a passphrase, and nobody holds it in an agent."""
    key = tmp_path / "locked"
    shutil.copy(away.lab.key, key)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", WORD, "-f", key], check=True, capture_output=True)
    return configured(away, tmp_path, f"IdentityFile {key}\nIdentitiesOnly yes\n")


def running_with(word: str) -> list[str]:
    """The command lines of all processes that hold it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if word in line]


def without_the_open_key(env: dict[str, str]) -> dict[str, str]:
    config = Path(env["PATH"].split(":")[0], "ssh_config")
    lines = config.read_text().splitlines()
    config.write_text("".join(f"{line}\n" for line in lines if not line.startswith("  IdentityFile")))
    return env


def test_a_passphrase_is_asked_for_once(away: Elsewhere, locked: dict[str, str]) -> None:
    words = ["srun", "--", "sh", "-c", "echo here; sleep 300"]
    with_prompt = Terminal(away.argv(words), without_the_open_key(locked))
    away._begun.append(with_prompt)
    with_prompt.read_until("Enter passphrase")
    with_prompt.type(WORD + "\r")
    with_prompt.read_until("here")
    with_prompt.type("\x03")
    with_prompt.read_until("^C again within 1 s")
    with_prompt.type("\x03\x03")  # asks to cancel, beside the stream
    assert with_prompt.finish() == 130
    assert with_prompt.text.count("Enter passphrase") == 1
    assert WORD not in with_prompt.text


@pytest.mark.parametrize("through", ["", "node003"])
def test_an_interrupt_at_the_question_is_only_that(away: Elsewhere, locked: dict[str, str], through: str) -> None:
    """Also where it is the ssh to the jump host that asks, which ssh itself has started."""
    env = without_the_open_key(locked)
    config = Path(env["PATH"].split(":")[0], "ssh_config")
    if through:
        config.write_text(f"Host {away.head.name}\n  ProxyJump {through}\nHost *\n{config.read_text()}")
    # a shell that stays: what ends with the terminal alone would end here too
    shell = ["/bin/sh", "-c", 'trap : INT; "$@"; echo "ended $?"; read line', "sh"]
    terminal = Terminal([*shell, *away.argv(["srun", "--", "true"])], env)
    away._begun.append(terminal)
    terminal.read_until("Enter passphrase")
    terminal.type("\x03")
    terminal.read_until("ended 130")
    until("no ssh goes on asking", lambda: not running_with(str(config)))
    assert away.active_jobs() == []


def test_nobody_is_asked_where_nobody_is(away: Elsewhere, locked: dict[str, str]) -> None:
    ran = subprocess.run(
        ["setsid", "-w", *map(os.fsdecode, away.argv(["queue"]))],
        env=without_the_open_key(locked),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 69
    assert "does not let" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_through_another_machine(away: Elsewhere, tmp_path: Path) -> None:
    hop = away.lab.nodes[2]
    env = configured(away, tmp_path, f"Host {away.head.name}\n  ProxyJump {hop.name}\n")
    assert away("srun", "--", "echo", "here", env=env).out == "here\n"
    hop.fault("sshd", "stop")
    try:
        line = away.refused("queue", code=69, env=env)
    finally:
        hop.fault("sshd", "start")
    assert "refuses connections" in line


def test_connections_that_are_shared_already(away: Elsewhere, tmp_path: Path) -> None:
    socket = tmp_path / "cm"
    env = configured(away, tmp_path, f"ControlMaster auto\nControlPath {socket}\nControlPersist 60\n")
    assert away.json("queue", env=env) == {"jobs": []}
    assert socket.exists()
    assert away("srun", "--", "echo", "here", env=env).out == "here\n"
    with_master = ["ssh", "-O", "exit", "-o", f"ControlPath={socket}", away.head.name]
    assert subprocess.run(with_master, env=env, capture_output=True, check=False).returncode == 0


def test_a_cut_while_a_password_would_be_asked_for(away: Elsewhere, locked: dict[str, str]) -> None:
    terminal = Terminal(
        away.argv(["srun", "--", "sh", "-c", "echo here; sleep 2; echo there"]), without_the_open_key(locked)
    )
    away._begun.append(terminal)
    terminal.read_until("Enter passphrase")
    terminal.type(WORD + "\r")
    terminal.read_until("here")
    away.cut()
    while terminal.text.count("Enter passphrase") < 2:
        terminal.pump_text()
    terminal.type(WORD + "\r")
    terminal.read_until("there")
    assert terminal.finish() == 0
