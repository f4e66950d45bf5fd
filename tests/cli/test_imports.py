"""What the quick commands load. A deferred import escapes static checks, so they are run and asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mgpu.client import credentials
from mgpu.client.address import Address
from tests.client.peer import Peer, end, job, output, state
from tests.client.tcp_peer import TcpPeer, fingerprint_of, made

REPOSITORY = Path(__file__).parents[2]
HEAVY = {
    "rich", "httpx", "aiohttp", "sqlalchemy", "pydantic", "paramiko", "yaml", "asyncio", "http.client", "logging",
    "importlib.metadata", "ssl", "subprocess", "urllib", "urllib.request", "email", "tempfile", "shutil", "pathlib",
    "hashlib", "dataclasses", "unicodedata", "argparse", "textual", "alembic", "fabric", "click",
    "typing",
}  # fmt: skip
HALF_AS_LONG_AS_PYTHONS_START = {
    "collections", "contextlib", "enum", "functools", "json", "re", "signal", "socket", "types"
}  # fmt: skip
ASK = """
import sys
from mgpu.cli.main import run
status = run(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(status)
"""
LINES = [
    ["queue"],
    ["queue", "--json"],
    ["submit", "--", "prog"],
    ["cancel", "17"],
    ["srun", "-Q", "prog"],
    ["logs", "-f", "17"],
    ["completion", "candidates", "--", "mgpu", "cancel", ""],
    ["completion", "candidates", "--line=mgpu srun -w g", "--replaced=g"],
]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_quick_commands_load_nothing_heavy(peer: Peer, line: list[str]) -> None:
    peer.answers["GET", "/v1/jobs"] = {"jobs": [job("RUNNING"), job("PENDING")]}
    peer.streams = [[state("RUNNING"), output(b"x"), end("COMPLETED", exit_code=0)]]
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    # -S: what site-packages' own start-up files load says nothing about us
    paths = os.pathsep.join([str(REPOSITORY), *(path for path in sys.path if path.endswith("site-packages"))])
    ran = subprocess.run(
        [sys.executable, "-S", "-c", ASK, *line],
        env={**environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    loaded = set(ran.stderr.split())
    assert "mgpu.cli.main" in loaded
    assert loaded & (HEAVY | HALF_AS_LONG_AS_PYTHONS_START) == set()
    ours = {name for name in loaded if name.startswith("mgpu.")}
    allowed = (
        "mgpu.cli",
        "mgpu.client",
        "mgpu.clock",
        "mgpu.endpoint",
        "mgpu.exit_status",
        "mgpu.file_system",
        "mgpu.lean",
        "mgpu.numeral",
        "mgpu.private_file",
        "mgpu.users",
        "mgpu.window",
        "mgpu.wording",
    )
    assert [name for name in ours if not name.startswith(allowed)] == []


def test_over_tls_comes_what_tls_needs_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = made(tmp_path / "tls")
    with TcpPeer(files) as peer:
        address = Address("localhost", peer.port, True)
        credentials.keep(credentials.PINS, address, fingerprint_of(files), os.environ)
        peer.answers["GET", "/v1/jobs"] = {"jobs": []}
        ran = subprocess.run(
            [sys.executable, "-S", "-c", ASK, "--master", address.url, "queue"],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "MGPU_TOKEN": "mgpu_x"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert set(ran.stderr.split()) & HEAVY <= {"ssl", "hashlib"}


def test_the_heads_half_loads_nothing_heavy(peer: Peer) -> None:
    """It is started once a command of a client elsewhere."""
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mgpu", "dial-stdio", "abc"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        input=b"GET /v1/status HTTP/1.0\r\n\r\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout.startswith(b"\nmgpu-abc {"), ran.stderr
    assert b'\r\n\r\n{"pid": ' in ran.stdout
    loaded = {line.rpartition(b"|")[2].strip().decode() for line in ran.stderr.splitlines() if b"|" in line}
    assert {"mgpu.cli.dial_stdio", "mgpu.client.relay"} <= loaded
    assert {name for name in loaded if name.startswith("mgpu.")} & {
        "mgpu.core",
        "mgpu.config",
        "mgpu.client.dial",
    } == set()
    site = {"typing", "pathlib", "importlib.metadata"}  # of start-up files of this Python, not ours
    assert loaded & (HEAVY - site) == set()
