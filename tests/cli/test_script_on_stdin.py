"""A script that comes on stdin, as sbatch takes one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.cli.conftest import REPOSITORY
from tests.client.peer import Peer


@pytest.mark.parametrize("words", [[], ["-"], ["-", "-x", "a b"], ["-G", "1", "-"]], ids=" ".join)
def test_a_script_on_stdin(peer: Peer, words: list[str]) -> None:
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}

    def given(text: bytes) -> subprocess.CompletedProcess[bytes]:
        argv = [sys.executable, "-m", "mgpu", "submit", *words]
        return subprocess.run(argv, input=text, env=environ, capture_output=True, check=False)

    assert given(b"#!/bin/sh\n#SBATCH -J piped\n\xe9\n").stdout == b"Submitted job 17\n"
    (body,) = peer.bodies("POST", "/v1/jobs")
    text = "#!/bin/sh\n#SBATCH -J piped\n\udce9\n"
    arguments = words[1:] if words[:1] == ["-"] else []
    assert body["command"] == {"form": "script", "words": arguments, "script": text, "script_name": "stdin"}
    assert body["options"]["job_name"] == "piped"
    assert given(b"\n").stderr == b"mgpu: no command, and no script on stdin: mgpu submit --help\n"


def test_what_is_no_pipe_holds_no_script(peer: Peer, mgpu: Callable) -> None:
    told = "mgpu: no command: what should submit run? mgpu submit --help\n"
    assert mgpu("submit", "-G", "1") == (2, "", told)
    assert mgpu("submit", "--", "-").status == 0
    assert peer.bodies("POST", "/v1/jobs")[0]["command"] == {"form": "argv", "words": ["-"]}
