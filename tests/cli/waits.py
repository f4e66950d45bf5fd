"""What a test waits for: words on stderr, a request."""

from __future__ import annotations

import os
import select
import subprocess
import threading

from tests.client.peer import Peer


def stderr_until(process: subprocess.Popen[bytes], words: bytes) -> bytes:
    assert process.stderr is not None
    seen = b""
    while words not in seen:
        assert select.select([process.stderr], [], [], 30)[0], f"only {seen!r} came"
        seen += os.read(process.stderr.fileno(), 65536)
        assert process.poll() is None or words in seen, seen
    return seen


def after(peer: Peer, method: str, path: str) -> threading.Event:
    """Set once such a request has come."""
    come = threading.Event()
    threading.Thread(target=lambda: (peer.wait_for(method, path), come.set()), daemon=True).start()
    return come
