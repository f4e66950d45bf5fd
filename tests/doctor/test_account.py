"""What is made of the answer of the node's shell; and the text itself, under the shells that a node may have."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from mgpu.core.finding import Finding
from mgpu.core.model import DeviceUuid
from mgpu.core.observation import GpuReading, Observation
from mgpu.doctor import account
from mgpu.doctor.account import parse, python
from mgpu.doctor.case import Case
from tests.doctor.test_walk import case
from tests.lab.hanging import can_hang, hanging

MARK = "0123abcd"
TEXT = Path(account.__file__).with_name("look.sh").read_text()


def told(**sections: tuple[str, list[str]]) -> Case:
    made = case()
    made.sections = {"account": ("train", []), **sections}
    return made


def only(findings: Iterable[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_the_answer_stands_between_marks() -> None:
    before, sections = parse(f"hello\nwarn\n\n{MARK} begin 17\n\n{MARK} home 0 /a b\nkib 5\n\n{MARK} end\n", MARK)
    assert before == "hello\nwarn\n"
    assert sections["begin"][0] == "17"
    assert sections["home"] == ("0 /a b", ["kib 5"])
    assert list(sections) == ["begin", "home", "end"]
    assert parse("no\n", MARK) == ("no\n", {})


@pytest.mark.parametrize("shell", [["dash"], ["bash"], ["busybox", "sh"]], ids="-".join)
def test_the_text_under_each_shell(shell: list[str], tmp_path: Path) -> None:
    home = tmp_path / "a home's"
    home.mkdir()
    variables = f"mark={MARK}\nroot=''\nworkdir='~/work'\nsetup='echo noise; X=1'\n"
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "SHELL": "/bin/odd"}
    ran = subprocess.run(
        [*shell, "-s", MARK],
        input=variables + TEXT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    before, sections = parse(ran.stdout, MARK)
    assert before == ""
    assert list(sections) == ["begin", "account", "tools", "home", "workdir", "python", "locks", "logind", "end"]
    assert sections["account"][1][0] == "shell /bin/odd"
    assert [line for line in sections["tools"][1] if line] == []
    assert sections["home"][0] == f"0 {home}"
    assert sections["workdir"][0] != "0"
    assert "ready 1" in sections["python"][1]
    assert any(line.startswith("python 3") for line in sections["python"][1])
    assert sections["locks"][0] == "0"
    assert list(home.iterdir()) == []


FOUND = "python 3.11.2 at /usr/bin/python3"


@pytest.mark.parametrize(
    ("status", "lines", "said", "text"),
    [
        ("0", ["ready 1", FOUND, "torch 2.5.1+cu124"], "ok", f"P{FOUND[1:]}, torch 2.5.1+cu124, after setup"),
        ("1", ["noise", "ready 1", FOUND], "ok", f"P{FOUND[1:]}, no torch, after setup"),
        ("1", ["ready 1"], "ok", "there is none where jobs look for it"),
        ("2", ["ready "], "warning", "the inventory's setup does not come to its end"),
        ("124", [], "warning", "the inventory's setup does not end within 5 s"),
    ],
)
def test_the_python_that_jobs_find(status: str, lines: list[str], said: str, text: str) -> None:
    made = told(python=(status, lines))
    made.node = replace(made.node, setup="conda activate x")
    found = only(python(made))
    assert (found.status, found.text) == (said, text)


@pytest.mark.skipif(not can_hang(), reason="needs root and /dev/fuse")
def test_a_home_that_hangs_is_the_place_that_is_named(tmp_path: Path) -> None:
    home = tmp_path / "gone"
    home.mkdir()
    variables = f"mark={MARK}\nroot=''\nworkdir={home}/work\n"
    with hanging(home):
        ran = subprocess.run(
            ["sh", "-s", MARK],
            input=variables + TEXT,
            env={"HOME": str(home), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
    asked = case()
    _, asked.sections = parse(ran.stdout, MARK)
    assert list(asked.sections)[-1] == "end"
    found = list(account.home(asked))
    assert [each.status for each in found] == ["failure", "failure"]
    assert found[0].text == f"jobs cannot be written to {home}/.mgpu: it hangs"
    assert found[1].text.endswith(": it hangs")


@pytest.mark.parametrize(
    ("lines", "status", "text"),
    [
        (["error ", "tmp 1777 root"], "ok", "every account"),
        (["tmp 755 root"], "failure", "/tmp has mode 755"),
        (["tmp 1777 root", "mounted /tmp-inst/train"], "warning", "a /tmp of its own"),
        (["tmp 1777 root", "lease 644 eve /tmp/mgpu.lease.GPU-1 regular empty file"], "failure", "is no directory"),
        (["tmp 1777 root", "lease 700 eve /tmp/mgpu.lease.GPU-1 directory"], "failure", "closed to others"),
        (["tmp 1777 root", "lease 777 eve /tmp/mgpu.lease.GPU-elsewhere symbolic link"], "ok", "every account"),
    ],
)
def test_leases_that_not_everybody_can_use(lines: list[str], status: str, text: str) -> None:
    asked = told(locks=("0", lines))
    gpu = GpuReading(0, DeviceUuid("GPU-1"), "", "")
    asked.observation = replace(Observation(asked.node.name, 0.0, "", ""), gpus=(gpu,))
    found = only(account.locks(asked))
    assert (found.status, text in found.text) == (status, True), found


def test_no_lease_can_be_made() -> None:
    found = only(account.locks(told(locks=("1", ["error mkdir: cannot create '/tmp/x': Permission denied"]))))
    assert (found.status, found.text) == ("failure", "no lease can be made and locked in /tmp: Permission denied")


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([], "ok"),
        (["property", "b false", "as 0", 'as 1 "root"'], "ok"),
        (["property", "b true", "as 0", 'as 1 "root"'], "failure"),
        (["property", "b true", "as 0", 'as 2 "root" "train"'], "ok"),
        (["property", "b true", 'as 1 "eve"', 'as 1 "root"'], "ok"),
        (["property", "b true", 'as 1 "train"', 'as 1 "root"'], "failure"),
        (["property", "garbage"], "ok"),
        (["file"], "ok"),
        (["file", "KillUserProcesses=no", "KillUserProcesses = yes"], "failure"),
        (["file", "KillUserProcesses=yes", "KillUserProcesses=no"], "ok"),
    ],
)
def test_logind(lines: list[str], status: str) -> None:
    assert only(account.logind(told(logind=("", lines)))).status == status


@pytest.mark.parametrize(
    ("node", "ours", "status", "text"),
    [
        ("1000", (1000.2, 1000.3), "ok", "within 1 s"),
        ("1000", (1003.0, 1003.5), "ok", "within 4 s"),
        ("1000", (990.0, 990.5), "warning", "10 s ahead of"),
        ("1000", (4600.0, 4600.5), "warning", "3599 s behind"),
        ("", (0.0, 0.0), "skipped", ""),
    ],
)
def test_the_clock(node: str, ours: tuple[float, float], status: str, text: str) -> None:
    asked = told(begin=(node, []))
    asked.clock_s = ours
    found = only(account.clocks(asked))
    assert (found.status, text in found.text) == (status, True), found


@pytest.mark.parametrize(
    ("words", "lines", "status", "text"),
    [
        ("0 /home/train", ["home /home/train", "kib Available", "kib 2097152", "inodes 0"], "ok", "2.0 GiB free"),
        ("0 /home/train", ["kib 102400"], "warning", "0.1 GiB free"),
        ("0 /home/train", ["kib 2097152", "inodes 12"], "warning", "only 12 more files"),
        ("1 /home/train", ["error mkdir: cannot create '/x': Disk quota exceeded"], "failure", ": Disk quota exceeded"),
        ("124 /home/train", ["error "], "failure", ": it hangs"),
    ],
)
def test_the_home(words: str, lines: list[str], status: str, text: str) -> None:
    found = only(account.home(told(home=(words, lines))))
    assert (found.status, text in found.text) == (status, True), found


def test_the_working_directory_of_the_inventory() -> None:
    asked = told(home=("0 /h", ["kib 2097152"]), workdir=("2", ["sh: 1: cd: can't cd to /scratch"]))
    found = list(account.home(asked))[-1]
    assert (found.status, found.check, found.text) == ("failure", "workdir", ": can't cd to /scratch")


def test_an_answer_that_stops_early_is_said() -> None:
    for look in (account.tools, account.home, account.locks, account.logind):
        assert only(look(told())).status == "skipped"
