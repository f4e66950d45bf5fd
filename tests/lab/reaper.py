"""The first process of a loopback node: adopts every orphan of its node, so that none escapes, and starts sshd.

Run as a script: reaper.py INIT_FILE SSHD CONFIGURATION LOG. SIGUSR1 starts sshd again.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

SET_CHILD_SUBREAPER = 36


def main() -> None:
    init_file, sshd, configuration, log = sys.argv[1:]
    ctypes.CDLL(None, use_errno=True).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    heeded = {signal.SIGUSR1, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, heeded)
    Path(init_file).write_text(Path("/proc/self/stat").read_text())
    wanted = True
    while True:
        if wanted:
            subprocess.run([sshd, "-f", configuration, "-E", log], check=False, preexec_fn=unblock)
        reap()
        wanted = signal.sigwait(heeded) == signal.SIGUSR1


def unblock() -> None:
    """Signals blocked here would stay blocked in every job of the node."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main()
