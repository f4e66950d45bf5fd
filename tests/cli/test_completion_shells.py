"""Completion in the shells themselves, at a terminal: a line is typed, Tab pressed, and the line run. What mgpu is then
given says how the shell has read it."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import REPOSITORY
from tests.client.peer import Peer, job

# All that means something to one of them; each a test of its own, and all at once.
ODD = ["""a 'b' "c" $HOME `touch pwned` $(touch pwned);touch pwned&|<>*?[1]{2,3}^%=:@~\\ zoë""", "~it's", "#$x"]
RECORD = """#!{python}
import json, os, sys
if sys.argv[1] == "completion":
    os.environ["PYTHONPATH"] = {repository!r}
    os.execv({python!r}, [{python!r}, "-m", "mgpu", *sys.argv[1:]])
with open({told!r} + ".new", "w") as file:
    json.dump(sys.argv[1:], file)
os.rename({told!r} + ".new", {told!r})
"""
PATIENCE_S = 60  # until what was typed has been run
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], ". {share}/bash-completion/completions/mgpu"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "fpath=({share}/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -d $HOME/dump",
    ),
    "fish": (["fish", "--private", "-i"], ""),
}


class Shell:
    """At a terminal of its own; `types` gives what mgpu was called with when the line was run."""

    def __init__(self, name: str, home: Path) -> None:
        self.home = home
        self.told = home / "told"
        self.argv, begin = SHELLS[name]
        program = home / "bin/mgpu"
        program.parent.mkdir(exist_ok=True)
        text = RECORD.format(python=sys.executable, repository=str(REPOSITORY), told=str(self.told))
        program.write_text(text)
        program.chmod(0o755)
        self.environ = {
            **{name: value for name, value in os.environ.items() if name.startswith(("XDG_", "MGPU_"))},
            "HOME": str(home),
            "PATH": f"{program.parent}:/usr/bin:/bin",
            "TERM": "xterm",
            "LANG": "C.UTF-8",
        }
        subprocess.run([str(program), "completion", "install", name], env=self.environ, check=True, capture_output=True)
        # else each fish begins to read all manual pages of the machine, for minutes, and outlives its test
        Path(os.environ["XDG_DATA_HOME"], "fish/generated_completions").mkdir(parents=True)
        self.begin = begin.format(share=os.environ["XDG_DATA_HOME"])

    def __enter__(self) -> Shell:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(self.home)
            os.execvpe(self.argv[0], self.argv, self.environ)
        os.write(self.terminal, f"{self.begin}\r".encode())
        return self

    def __exit__(self, *_error: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)

    def types(self, line: str) -> list[str]:
        """What mgpu was called with when the line was run."""
        self.told.unlink(missing_ok=True)
        os.write(self.terminal, f"{line}\r".encode())
        said = b""
        deadline = time.monotonic() + PATIENCE_S
        while not self.told.exists():
            assert time.monotonic() < deadline, said.decode(errors="replace")
            if select.select([self.terminal], [], [], 0.05)[0]:
                said += os.read(self.terminal, 1 << 16)
        read: list[str] = json.loads(self.told.read_text())
        return read


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, peer: Peer, clean_home: Path) -> Iterator[Shell]:
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} here")
    nodes = [{"node_id": name, "state": "UP", "partition": f"{place} {name}"} for place, name in enumerate(ODD)]
    peer.answers["GET", "/v1/nodes"] = {"nodes": [{"node_id": "gpu01", "state": "UP"}, *nodes]}
    peer.answers["GET", "/v1/window"] = {"jobs": [job("PENDING", job_id="17_[3-9]", array_job_id=17)]}
    (clean_home / "sub dir").mkdir()
    (clean_home / "run.sh").touch()
    with Shell(request.param, clean_home) as begun:
        yield begun


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("mgpu que\t--sta\t --me", ["queue", "--sta", "--me"]),
        ("mgpu node drain gp\t", ["node", "drain", "gpu01"]),
        ("mgpu srun -w gpu01,gp\t -- x", ["srun", "-w", "gpu01,gp", "--", "x"]),
        ("mgpu queue --states=RUN\t", ["queue", "--states=RUNNING"]),
        ("mgpu cancel 17_\t", ["cancel", "17_[3-9]"]),
        ("mgpu submit --chdir=sub\t", ["submit", "--chdir=sub dir"]),
        ("mgpu submit -Q run.s\t", ["submit", "-Q", "run.sh"]),
        ("mgpu submit 'run.s\t", ["submit", "run.sh"]),
        ("mgpu srun --launcher to\tmgp\t", ["srun", "--launcher", "torchrun", "mgpu"]),
    ],
)
def test_a_line(shell: Shell, line: str, read: list[str]) -> None:
    # zsh takes away the slash behind a folder again
    assert [word.rstrip("/") for word in shell.types(line)] == read


@pytest.mark.parametrize("before", ["-p ", "--partition=", "-p '", '-p "'])
def test_names_with_odd_letters(shell: Shell, before: str) -> None:
    """Each is read by the shell as it is, in all kinds of quotes, and nothing of it is run."""
    for place, name in enumerate(ODD):
        expected = f"{place} {name}"
        read = shell.types(f"mgpu queue {before}{place}\t")
        assert read == ["queue", "-p", expected] if "-p " in before else ["queue", f"--partition={expected}"]
    assert not (shell.home / "pwned").exists()


@pytest.mark.parametrize(
    "typed", ["$(touch pwned)", "`touch pwned`", "'$(touch pwned)", '"$(touch pwned)', "a;touch pwned;"]
)
def test_nothing_that_was_typed_is_run(shell: Shell, typed: str) -> None:
    """The line is taken back (^U), and another run instead."""
    assert shell.types(f"mgpu node drain {typed}\t\x15mgpu done") == ["done"]
    assert not (shell.home / "pwned").exists()
