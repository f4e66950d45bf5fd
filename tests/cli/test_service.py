"""mgpu service: what is written, and that nothing else is touched. Programs of the test's own stand where systemctl and
crontab would: they keep what they are given."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mgpu.cli.service import systemd
from mgpu.client import service, start
from tests.cli.conftest import Ran
from tests.cli.stand_ins import CRONTAB, settings

Command = Callable[..., Ran]
SSH_ONLY = "nodes:\n  - {node_id: gpu01, hostname: gpu01.example.org}\n"
HERE_TOO = SSH_ONLY + "  - {node_id: here, connection: local}\n"

SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$HOME/asked"
case $* in
*is-active*) # one line of it after the other, the last for ever
    [ -e "$HOME/state" ] || { echo inactive; exit; }
    head -n 1 "$HOME/state"
    [ "$(wc -l <"$HOME/state")" -le 1 ] || sed -i 1d "$HOME/state" ;;
*restart*) echo active >"$HOME/state" ;;
*disable*) rm -f "$HOME/state" ;;
esac
"""


@pytest.fixture
def booted(clean_home: Path, monkeypatch: pytest.MonkeyPatch, programs: Callable[..., None]) -> Path:
    """A machine that systemd has started; the folder of its units."""
    folder = clean_home / "units"
    folder.mkdir()
    monkeypatch.setattr(service, "SYSTEM_FOLDER", str(folder))
    monkeypatch.setattr(systemd, "BOOTED", str(clean_home))
    programs(systemctl=SYSTEMCTL)
    return folder


def asked(home: Path) -> list[str]:
    return (home / "asked").read_text().splitlines()


def test_it_is_installed_and_taken_away(booted: Path, clean_home: Path, mgpu: Command) -> None:
    config = clean_home / "c.yaml"
    config.write_text(SSH_ONLY)
    words = ("--config", str(config), "--state-dir", str(clean_home / "state"), "service")
    shown = mgpu(*words, "install", "systemd", "--print")
    assert not (clean_home / "asked").exists()
    assert list(booted.iterdir()) == []
    done = mgpu(*words, "install", "systemd")
    assert (done.status, done.err) == (0, "")
    path = booted / "mgpu.service"
    assert path.read_text() == shown.out
    assert path.stat().st_mode & 0o777 == 0o644
    assert asked(clean_home) == ["daemon-reload", "enable mgpu", "is-active mgpu", "restart mgpu"]
    assert f"{path} is written: the master runs as {pwd.getpwuid(os.getuid()).pw_name}" in done.out
    assert "journalctl -u mgpu -f" in done.out
    assert f"--config {config} --state-dir {clean_home}/state" in settings(shown.out)["ExecStart"]
    assert settings(shown.out)["NoNewPrivileges"] == "yes"
    config.write_text(HERE_TOO)
    assert mgpu(*words, "install", "systemd").status == 0  # once more replaces it
    assert "NoNewPrivileges" not in settings(path.read_text())
    told = mgpu(*words, "status")
    assert (told.status, told.out) == (0, f"{path}: active; log: journalctl -u mgpu\n")
    (clean_home / "asked").unlink()
    assert mgpu(*words, "uninstall").status == 0
    assert asked(clean_home) == ["disable --now mgpu", "daemon-reload"]
    assert not path.exists()
    assert mgpu(*words, "status").status == 1
    assert mgpu(*words, "uninstall", "systemd").err.startswith(f"mgpu: there is no {path}")


def test_a_unit_of_others_is_left_alone(booted: Path, clean_home: Path, mgpu: Command) -> None:
    path = booted / "mgpu.service"
    path.write_text("[Service]\nExecStart=/bin/true\n")
    for words in (["install", "systemd"], ["uninstall", "systemd"]):
        done = mgpu("service", *words)
        assert done.status == 1
        assert f"{path} was not written by mgpu service install" in done.err
        assert done.err.count("\n") == 1
    assert path.read_text() == "[Service]\nExecStart=/bin/true\n"
    assert mgpu("service", "uninstall").status == 1
    assert mgpu("service", "install", "systemd", "--name", "mgpu-two").status == 0
    assert "enable mgpu-two" in asked(clean_home)


def test_one_unit_for_each_state_directory(booted: Path, clean_home: Path, mgpu: Command) -> None:
    first, second = ("--state-dir", str(clean_home / "a")), ("--state-dir", str(clean_home / "b"))
    assert mgpu(*first, "service", "install", "systemd").status == 0
    assert "--name mgpu-SOMETHING" in mgpu(*second, "service", "install", "systemd").err
    assert mgpu(*second, "service", "install", "systemd", "--name", "mgpu-b").status == 0
    assert "has a service already" in mgpu(*first, "service", "install", "systemd", "--name", "mgpu-c").err


def test_the_systemd_of_the_user(booted: Path, clean_home: Path, mgpu: Command) -> None:
    done = mgpu("service", "install", "systemd", "--user")
    assert done.status == 0
    path = clean_home / ".config/systemd/user/mgpu.service"
    assert settings(path.read_text())["WantedBy"] == "default.target"
    assert "User" not in settings(path.read_text())
    assert asked(clean_home)[:2] == ["--user show-environment", "--user daemon-reload"]
    assert "loginctl enable-linger" in done.out
    assert "mgpu service uninstall systemd --user" in done.out
    assert mgpu("service", "uninstall", "systemd", "--user").status == 0


def test_where_there_is_no_systemd(
    programs: Callable[..., None], clean_home: Path, mgpu: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "BOOTED", str(clean_home / "none"))
    line = mgpu("service", "install", "systemd").err
    assert line == "mgpu: this machine was not started by systemd: mgpu service install cron does without it\n"
    monkeypatch.setattr(systemd, "BOOTED", str(clean_home))
    programs(systemctl="#!/bin/sh\necho 'Failed to connect to bus: No medium found' >&2; exit 1\n")
    line = mgpu("service", "install", "systemd", "--user").err
    assert "your own systemd cannot be asked: Failed to connect to bus: No medium found" in line
    assert line.count("\n") == 1


def test_a_start_that_fails_is_told_with_where_to_look(
    booted: Path, programs: Callable[..., None], mgpu: Command
) -> None:
    programs(systemctl="#!/bin/sh\ncase $* in restart*) echo 'Job failed. See logs.' >&2; exit 1 ;; esac\n")
    done = mgpu("service", "install", "systemd")
    assert done.status == 1
    assert "systemctl restart mgpu failed: Job failed. See logs.: journalctl -u mgpu says why" in done.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have others run it")
def test_as_another_user(booted: Path, clean_home: Path, mgpu: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found out by a process of that user: where it cannot run mgpu, that is told now and not by systemd."""
    who = pwd.getpwnam("nobody")
    argv = ["/bin/sh", "-c", f"exec '{sys.executable}' -c ''"]
    probe = subprocess.run(argv, user=who.pw_uid, check=False, cwd="/", stderr=subprocess.DEVNULL)
    words = ("--state-dir", "/var/lib/mgpu", "service", "install", "systemd", "--run-as", "nobody")
    if probe.returncode:
        done = mgpu(*words)
        assert done.status == 77
        assert f"nobody cannot run {sys.executable}" in done.err
        assert done.err.count("\n") == 1
        assert list(booted.iterdir()) == []
        monkeypatch.setattr(systemd, "_identity", lambda _who: {})  # then with our own rights, in its home
    (clean_home / "c.yaml").write_text(HERE_TOO)
    clean_home.chmod(0o755)
    done = mgpu(*words)
    assert (done.status, done.err) == (0, "")
    found = settings((booted / "mgpu.service").read_text())
    assert (found["User"], found["StateDirectory"]) == ("nobody", "mgpu")
    assert found["ExecStart"].endswith(" daemon --state-dir /var/lib/mgpu")
    assert (
        "the master runs as nobody, with no configuration (this machine alone), its state in /var/lib/mgpu" in done.out
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have others run it")
def test_faults_that_the_other_user_meets_are_told_as_that(
    booted: Path, clean_home: Path, mgpu: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "_identity", lambda _who: {})
    (clean_home / "c.yaml").write_text("nodes: 5\n")
    words = ("--config", str(clean_home / "c.yaml"), "--state-dir", "/var/lib/mgpu", "service", "install", "systemd")
    done = mgpu(*words, "--run-as", "nobody")
    assert done.status == 2
    assert done.err.startswith("mgpu: as nobody: ")
    assert "c.yaml:1" in done.err
    monkeypatch.setenv("SUDO_USER", "nobody")  # who typed sudo is meant
    assert mgpu(*words).err.startswith("mgpu: as nobody: ")
    assert list(booted.iterdir()) == []


def test_what_makes_no_sense_is_refused(booted: Path, programs: Callable[..., None], mgpu: Command) -> None:
    programs(crontab=CRONTAB)
    for words, what in (
        (["install", "launchd"], "no kind of service"),
        (["install", "systemd", "--tick"], "--tick is of cron"),
        (["install", "cron", "--user"], "of systemd"),
        (["install", "systemd", "--name", "../x"], "--name"),
        (["install", "systemd", "--name", "sshd"], "--name"),
        (["install", "systemd", "--user", "--run-as", "root"], "--run-as"),
        (["install", "systemd", "--run-as", "no-such-user"], "no user 'no-such-user'"),
        (["install", "cron", "--state-dir", "/a\nb"], "control characters"),
    ):
        done = mgpu("service", *words)
        assert (done.status, done.out) == (2, ""), words
        assert what in done.err
        assert done.err.count("\n") == 1
    assert list(booted.iterdir()) == []


def test_a_configuration_with_faults_is_not_installed(
    booted: Path, programs: Callable[..., None], clean_home: Path, mgpu: Command
) -> None:
    programs(crontab=CRONTAB)
    (clean_home / "c.yaml").write_text("nodes: 5\n")
    for kind in ("systemd", "cron"):
        done = mgpu("--config", str(clean_home / "c.yaml"), "service", "install", kind)
        assert done.status == 2
        assert "c.yaml:1" in done.err
    assert list(booted.iterdir()) == []
    assert not (clean_home / "crontab").exists()


# --- who asks while the service is not there ----------------------------------------------------------------------


def test_no_client_starts_a_master_beside_a_service(
    booted: Path, clean_home: Path, mgpu: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mgpu("service", "install", "systemd").status == 0
    (clean_home / "state").write_text("failed\n")
    done = mgpu("queue")
    assert done.status == 69
    assert "here it is the service mgpu, which is failed: " in done.err
    assert "systemctl start mgpu; journalctl -u mgpu says more" in done.err
    assert mgpu("daemon", "--ensure").status == 69
    # another state directory is nobody's service
    monkeypatch.setattr(start, "command", lambda *_: [sys.executable, "-c", "import sys; sys.exit(69)"])
    assert "the master did not start" in mgpu("--state-dir", str(clean_home / "other"), "queue").err


def test_one_that_is_being_restarted_is_waited_for(booted: Path, clean_home: Path, mgpu: Command) -> None:
    assert mgpu("service", "install", "systemd").status == 0
    (clean_home / "asked").unlink()
    (clean_home / "state").write_text("deactivating\nactivating\nactive\ninactive\n")
    assert "which is inactive" in mgpu("queue").err
    assert asked(clean_home) == ["is-active mgpu"] * 4
