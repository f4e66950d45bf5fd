"""A user on another machine: the first node of a loopback lab is the head, with a home, a configuration and a master of
its own; who asks has nothing but an ssh that knows it."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from tests.end_to_end.cluster import QUICK, Cluster
from tests.lab import Lab
from tests.lab.loopback import LoopbackNode

SSH = shutil.which("ssh") or "ssh"


class Elsewhere(Cluster):
    """Commands are run as that user. `logins`: the processes of ssh so far, one a login."""

    def __init__(self, lab: Lab, name: str) -> None:
        super().__init__(lab, name)
        head = lab.nodes[0]
        assert isinstance(head, LoopbackNode)
        self.head = head
        on_head = head.home / ".config/mgpu"
        on_head.mkdir(parents=True, mode=0o700)
        listed = [line for line in lab.cluster_config().splitlines() if f"node_id: {head.name}," not in line]
        text = "\n".join(listed).replace(str(lab.state_dir), str(self.state_dir))
        self.config_path = on_head / "cluster_config.yaml"
        self.config_path.write_text(text.partition("networking:")[0] + QUICK)
        self.record = self.home / "logins"
        self.record.touch()
        ssh = self.home / "bin" / "ssh"
        ssh.parent.mkdir()
        note = f'case " $* " in *" -G "*) ;; *) echo $$ >>{self.record} ;; esac'
        # OpenSSH reads the account's own home, whatever HOME says
        ssh.write_text(f'#!/bin/sh\n{note}\nexec {SSH} -F {lab.ssh_config} "$@"\n')
        ssh.chmod(0o755)
        for variable in ("MGPU_CONFIG", "MGPU_STATE_DIR"):
            del self.environ[variable]
        self.environ["PATH"] = f"{ssh.parent}:{os.environ['PATH']}"
        self.environ["MGPU_MASTER"] = f"ssh://{head.name}"

    def on_head(self) -> dict[str, str]:
        """What is different for the same user there, at a terminal."""
        return {"HOME": str(self.head.home), "MGPU_MASTER": ""}

    def logins(self) -> list[int]:
        return [int(line) for line in self.record.read_text().split()]

    def cut(self) -> None:
        """The latest of them."""
        os.kill(self.logins()[-1], signal.SIGKILL)


def lives(pid: int) -> bool:
    """One that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(") ")[2][:1] not in ("Z", "X")
    except OSError:
        return False
