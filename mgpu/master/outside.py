"""A program of the site's own, run on this machine: it gets a text on its stdin, has so long, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress

from mgpu import clock
from mgpu.remote.ready import ready

GRACE_S = 2.0
MOST_SAID = 2000  # bytes of its stderr
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR")


def run(argv: Sequence[str], text: bytes, timeout_s: float, stopping: Callable[[], bool]) -> str:
    """Why it failed, one line; "" = it ended with 0. In a process group of its own, in /, with little of our
    environment. Never raises."""
    try:
        with os.fdopen(os.memfd_create("notify", os.MFD_CLOEXEC), "wb") as given:
            given.write(text)
            given.seek(0)
            process = subprocess.Popen(
                argv,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                cwd="/",
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
            )
    except (OSError, ValueError) as error:
        return f"{argv[0]} cannot be run: {getattr(error, 'strerror', None) or error}"
    assert process.stderr is not None
    with process.stderr:
        said = _await(process, process.stderr.fileno(), clock.monotonic() + timeout_s, stopping)
    if process.returncode is None:
        _end(process)
        return "the master ended" if stopping() else f"{argv[0]} took longer than {timeout_s:g} s and was ended"
    lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
    why = f": {lines[-1].strip()}" if lines else ""
    return f"{argv[0]} ended with exit status {process.returncode}{why}" if process.returncode else ""


def _await(process: subprocess.Popen[bytes], pipe: int, deadline: float, stopping: Callable[[], bool]) -> bytes:
    """What it said, the beginning of it: what is more is read all the same, so that it need not wait for us."""
    said, is_open = b"", True
    while process.poll() is None and clock.monotonic() < deadline and not stopping():
        if not is_open:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        elif ready(pipe, 0.1):
            data = os.read(pipe, 1 << 16)
            is_open = bool(data)
            said += data[: MOST_SAID - len(said)]
    while is_open and process.returncode is not None and ready(pipe, 0.0):
        data = os.read(pipe, 1 << 16)  # its last words; what it left behind may keep the pipe open
        is_open = bool(data) and len(said) < MOST_SAID
        said += data[: MOST_SAID - len(said)]
    return said


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started and that did not leave its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
