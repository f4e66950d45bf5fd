"""MGPU_MASTER=https://head:port: the main job for a client that has a token and no login, through cuts and restarts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.api.elsewhere import free_port
from tests.client.tcp_peer import TcpPeer, made
from tests.conftest import LabMaker
from tests.end_to_end import afar
from tests.end_to_end.cluster import QUICK, Cluster, Result, until
from tests.lab import Lab, Settings


class Wire:
    """Between client and master: every connection can be cut at once."""

    def __init__(self, port: int) -> None:
        self._there = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._spawn(self._accept)

    def cut(self) -> int:
        """How many there were."""
        cut, self._open = self._open, []
        for connection in cut:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        return len(cut) // 2

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def _spawn(self, function: Callable[..., None], *arguments: socket.socket) -> threading.Thread:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._spawn(self._serve, self._listener.accept()[0])

    def _serve(self, here: socket.socket) -> None:
        with here, suppress(OSError), socket.create_connection(("127.0.0.1", self._there)) as there:
            self._open += [here, there]
            back = self._spawn(self._copy, there, here)
            self._copy(here, there)
            back.join()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class ByToken(Cluster):
    """Commands are those of the client; `head` runs them where the master is."""

    def __init__(self, lab: Lab, name: str) -> None:
        super().__init__(lab, name)
        self.port = free_port()
        text = self.config_path.read_text()
        line = next(line for line in text.splitlines() if line.startswith("master: {"))
        more = f"host: 127.0.0.1, port: {self.port}, tls: true"
        self.config_path.write_text(text.replace(line, f"{line[:-1]}, {more}}}"))
        self.on_head = {**self.environ, "MGPU_MASTER": ""}
        self.wire = Wire(self.port)
        self.url = f"https://localhost:{self.wire.port}"
        away = lab.folder / f"away-{name}"
        away.mkdir()
        self.environ |= {"HOME": str(away), "MGPU_MASTER": self.url, "MGPU_CONFIG": "", "MGPU_STATE_DIR": ""}
        self.away = away

    def head(self, *words: Any, **more: Any) -> Result:
        return self(*words, env=self.on_head, **more)

    def give_token(self) -> str:
        token = self.head("token", "create", "--name", "away").out
        subprocess.run(self.argv(["token", "save"]), env=self.environ, input=token.encode(), check=True)
        return token.strip()

    def trust(self) -> None:
        self("token", "trust", self.url, "--fingerprint", self.head("token", "fingerprint").out.strip())

    def cut(self) -> None:
        assert self.wire.cut()

    def close(self) -> None:
        super().close()
        self.wire.close()


@pytest.fixture(scope="module")
def shared(swept: None, lab_prefix: object) -> Iterator[ByToken]:
    assert callable(lab_prefix)
    with (
        Lab(Settings(ephemeral=True), lab_prefix(), "loopback") as lab,
        closing(ByToken(lab, "tokens")) as made_,
    ):
        made_.head("nodes")
        made_.token = made_.give_token()  # type: ignore[attr-defined]
        made_.trust()
        yield made_


@pytest.fixture
def away(shared: ByToken) -> Iterator[ByToken]:
    yield shared
    shared.clear()


def test_the_main_job(away: ByToken) -> None:
    result = away("srun", "-G", 1, "--", "sh", "-c", "printf 'a\\0\\377'; echo b >&2; exit 7", check=False)
    assert (result.code, result.raw) == (7, b"a\0\xff")
    assert "FAILED, exit 7" in result.told[-1]
    job_id = away.submit("--", "sh", "-c", "echo from afar; sleep 300")
    away.await_output(job_id, "from afar")
    assert away("queue", "--me").out.count("RUNNING") == 1
    assert away("cancel", job_id).out == f"Cancelled job {job_id}\n"
    assert away.await_job(job_id)["state"] == "CANCELLED"
    assert "node002" in away("nodes").out
    assert away("show", job_id).out.count("ssh ") == 0


def test_from_python(away: ByToken) -> None:
    afar.python_asks(away)


def test_the_audit_tells_whence_it_came_and_nothing_of_the_token(away: ByToken) -> None:
    job_id = away.submit("--", "true")
    rows = away.head("--json", "audit", "--job", job_id).out
    assert "tcp 127.0.0.1" in rows
    kept = b"".join(path.read_bytes() for path in away.state_dir.rglob("*") if path.is_file())
    secret = away.token.split("_")[2]  # type: ignore[attr-defined]
    assert secret.encode() not in kept


def test_the_token_stands_on_no_command_line(away: ByToken) -> None:
    command = away.start("srun", "--", "sh", "-c", "echo here; sleep 300")
    command.read_until("here")
    secret = away.token.split("_")[2].encode()  # type: ignore[attr-defined]
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(path.read_bytes())
    assert lines
    assert not any(secret in line for line in lines)


def test_a_cut_connection_is_made_again_and_no_byte_is_lost_or_doubled(away: ByToken) -> None:
    afar.no_byte_is_lost_or_doubled(away, away.cut)


def test_the_master_may_be_restarted_meanwhile(away: ByToken) -> None:
    command = afar.follow(away)
    away.head("restart")
    afar.every_line_comes_once(command)


def test_stdin_goes_along(away: ByToken) -> None:
    afar.stdin_goes_along(away, 5 << 20)


def test_a_terminal_there_outlives_a_cut(away: ByToken) -> None:
    afar.a_terminal_outlives(away, away.cut)


def test_interrupts_mean_what_they_mean_anywhere(away: ByToken) -> None:
    terminal = away.terminal("srun", "--", "sh", "-c", "echo here; sleep 300")
    terminal.read_until("here")
    [job_id] = away.active_jobs()
    terminal.type("\x03")
    terminal.read_until("^C again within 1 s")
    terminal.type("\x03\x03")
    assert terminal.finish() == 130
    assert away.await_job(job_id)["state"] == "CANCELLED"


def test_a_job_is_joined_and_its_output_followed(away: ByToken) -> None:
    afar.several_are_followed_at_once(away)


def test_the_tree_goes_along(away: ByToken, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "data").write_bytes(os.urandom(3 << 20))
    result = away("srun", "-Q", "--ship", "-G", 1, "sh", "-c", "wc -c <data", cwd=tree)
    assert result.lines == [str(3 << 20)]


def test_the_older_words_name_it_too(away: ByToken) -> None:
    env = {"MGPU_MASTER": ""}
    assert "node002" in away("--host", "localhost", "--port", away.wire.port, "nodes", env=env).out
    assert "node002" in away("nodes", "--host", "localhost", "--port", away.wire.port, env=env).out
    line = away.refused("daemon", "--host", "0.0.0.0", "--port", "8080", env=env)
    assert "master: {host: ..., port: ...}" in line


def test_the_doctor_looks_at_the_way(away: ByToken) -> None:
    def checks(code: int = 0, **env: str) -> dict[str, str]:

        result = away("--json", "doctor", check=False, env=env)
        assert result.code == code, result.err
        return {found["check"]: found["status"] for found in json.loads(result.raw)["master"]}

    assert checks() == {"connection": "ok", "master": "ok", "nodes": "skipped"}
    assert checks(1, MGPU_MASTER=f"https://127.0.0.1:{away.wire.port}") == {"token": "failure"}
    assert checks(1, MGPU_MASTER=f"https://localhost:{free_port()}", MGPU_TOKEN="x") == {"connection": "failure"}


def test_somebody_in_between_hears_nothing(away: ByToken, tmp_path: Path) -> None:
    """With a certificate of his own, at the address that was trusted."""
    files = made(tmp_path / "theirs")
    with TcpPeer(files) as between:
        pins = away.away / ".config/mgpu/pins"
        pin = (pins / f"localhost_{away.wire.port}").read_text()
        (pins / f"localhost_{between.port}").write_text(pin)
        env = {"MGPU_MASTER": f"https://localhost:{between.port}", "MGPU_TOKEN": "mgpu_secret"}
        for line in (["queue"], ["srun", "true"], ["logs", "-f", "1"], ["attach", "1"]):
            told = away.refused(*line, code=69, env=env)
            assert "shows another certificate than the one trusted here: SHA256:" in told
            assert pin.strip() in told
        assert between.requests == []


def test_nothing_is_trusted_without_a_word(away: ByToken) -> None:
    told = away.refused("queue", code=69, env={"MGPU_MASTER": f"https://127.0.0.1:{away.port}", "MGPU_TOKEN": "x"})
    assert told.endswith(f"mgpu token trust https://127.0.0.1:{away.port}")
    told = away.refused("token", "trust", f"https://127.0.0.1:{away.port}")
    assert "nobody is there to compare it" in told
    wrong = f"SHA256:{'A' * 43}"
    told = away.refused("token", "trust", away.url, "--fingerprint", wrong, code=77)
    assert wrong in told
    asking = away.terminal("token", "trust", f"https://127.0.0.1:{away.port}")
    asking.read_until("[y/N]")
    assert away.head("token", "fingerprint").out.strip() in asking.text
    asking.type("n\r")
    assert asking.finish() == 1


def test_tokens_are_made_at_the_head_alone(away: ByToken) -> None:
    assert "a token may not make a token" in away.refused("token", "create", code=77)


def test_a_revoked_token_ends_what_was_opened_with_it(make_lab: LabMaker) -> None:
    lab = make_lab(nodes=1, mode="loopback")
    with closing(ByToken(lab, "revoked")) as away:
        away.head("nodes")
        token = away.give_token()
        away.trust()
        command = away.start("srun", "--", "sh", "-c", "echo here; sleep 300")
        command.read_until("here")
        away.head("token", "revoke", token.split("_")[1])
        result = command.finish()
        assert result.code == 77
        assert "no token that holds was shown" in result.err
        assert "no token that holds was shown" in away.refused("queue", code=77)
        [job_id] = away.active_jobs()
        assert away.job(job_id)["state"] == "RUNNING"


def test_plain_http_on_this_machine(make_lab: LabMaker) -> None:
    """As the older system's `--host 127.0.0.1 --port 8080`, but with a token."""
    lab = make_lab(nodes=1, mode="loopback")
    with closing(Cluster(lab, "plain", config=QUICK)) as cluster:
        port = free_port()
        made_before = cluster("token", "create")
        assert "does not listen on TCP yet" in made_before.err
        token = made_before.out.strip()
        text = cluster.config_path.read_text()
        line = next(line for line in text.splitlines() if line.startswith("master: {"))
        cluster.config_path.write_text(text.replace(line, f"{line[:-1]}, host: 127.0.0.1, port: {port}}}"))
        cluster("config", "reload")
        until("it listens", lambda: listens(port))
        env = {"MGPU_CONFIG": "", "MGPU_STATE_DIR": "", "MGPU_TOKEN": token}
        words = ["--host", "127.0.0.1", "--port", port]
        assert cluster(*words, "srun", "-Q", "echo", "x", env=env).out == "x\n"
        assert "there is no token" in cluster.refused(*words, "queue", code=77, env={**env, "MGPU_TOKEN": ""})
        os.kill(cluster.master_pid(), signal.SIGTERM)
        until("it has ended", lambda: not listens(port))


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
