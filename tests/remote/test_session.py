"""Requests on a session: how long an answer may take is the configuration's to say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mgpu.remote.channel import LocalConnection
from mgpu.remote.errors import RemoteError
from mgpu.remote.session import NodeSession


def test_an_answer_is_waited_for_as_long_as_was_said(tmp_path: Path) -> None:
    slow = tmp_path / "nvidia-smi"
    slow.write_text("#!/bin/sh\nsleep 1\necho done\n")
    slow.chmod(0o755)
    root = ("db", "node001", str(tmp_path))
    for timeout_s in (0.2, 60.0):
        session = NodeSession(lambda: LocalConnection(os.environ), root, 30.0, timeout_s)
        try:
            assert session.control("ping").status == "ok"
            if timeout_s < 1:
                with pytest.raises(RemoteError, match="did not answer in time"):
                    session.control("probe", str(slow), "20", "a", "b")
            else:
                assert "done" in session.control("probe", str(slow), "20", "a", "b").text
        finally:
            session.close()
