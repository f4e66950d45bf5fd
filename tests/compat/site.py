"""A site as the older system had it: mgpu_master on one machine, mgpu_node once on each of the others, the commands
under their old names. Nothing of it is mocked: the nodes are those of a lab."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from scripts.packing import clients
from tests.api.elsewhere import free_port
from tests.end_to_end.cluster import Command, until
from tests.lab import Lab
from tests.lab.namespaces import NamespacedNode

REPOSITORY = Path(__file__).parents[2]
PROGRAM = "import sys; sys.argv[0] = sys.argv.pop(1); from mgpu.cli.older.program import program; program()"
CONFIG = """\
inventory: inventory/
defaults:
  ssh: {{user: {user}, identity_file: {key}, known_hosts: {known_hosts}}}
networking: {{heartbeat_interval: 1, timeout: 4, login_timeout: 3, probe_timeout: 5}}
retries: {{max: 3, backoff: 0.2, backoff_max: 1}}
"""


class Site:
    """`config` "" = none at all, so that the master's machine is the only node until another registers."""

    def __init__(self, lab: Lab, name: str, config: str = CONFIG) -> None:
        self.lab = lab
        self.home = lab.folder / f"old-{name}"
        self.home.mkdir()
        self.state_dir = self.home / ".local/state/mgpu"
        self.port = free_port("0.0.0.0")
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "USER": "root", "LANG": "C.UTF-8"}
        self.environ |= {"PYTHONPATH": str(REPOSITORY), "TERM": "xterm"}
        self.folder = self.home / ".config/mgpu"
        self.known_hosts = self.home / "known_hosts"
        if config:
            (self.folder / "inventory").mkdir(parents=True, mode=0o755)
            facts = {"user": lab.nodes[0].user, "key": lab.key, "known_hosts": self.known_hosts}
            (self.folder / "cluster_config.yaml").write_text(config.format(**facts))
            (self.folder / "inventory/added.yaml").write_text("nodes:\n")
        self.log_path = self.home / "master.log"
        self.master: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        if self.master is not None:
            with suppress(OSError, AssertionError):
                self.run("mgpu_cancel", "--me")
            self.master.kill()
            self.master.wait()

    # --- commands ---

    def argv(self, name: str, *words: object) -> list[str | bytes]:
        return [sys.executable, "-c", PROGRAM, name, *map(str, words)]

    def start(self, name: str, *words: object, env: dict[str, str] | None = None) -> Command:
        return Command(self.argv(name, *words), {**self.environ, **(env or {})}, Path("/"), subprocess.DEVNULL)

    def run(self, name: str, *words: object, env: dict[str, str] | None = None) -> Any:
        command = self.start(name, *words, env=env)
        try:
            return command.finish(60)
        finally:
            command.abandon()

    def ok(self, name: str, *words: object, **more: Any) -> str:
        """What it prints; it has to end well."""
        done = self.run(name, *words, **more)
        assert done.code == 0, (name, words, done.code, done.err)
        return str(done.out)

    def begin(self, *words: object) -> None:
        """mgpu_master; as in the README of the older system where nothing else is said."""
        given = words or ("--host", "0.0.0.0", "--port", self.port)
        with self.log_path.open("ab") as log:
            argv = self.argv("mgpu_master", *given)
            self.master = subprocess.Popen(
                argv, env=self.environ, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        until("the master serves", lambda: "master of " in self.log() or self.master.poll() is not None)

    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def submitted(self, text: str) -> int:
        match = re.fullmatch(r"Submitted job (\d+)\n", text)
        assert match, text
        return int(match[1])

    def await_job(self, job_id: int | str, *states: str) -> dict[str, Any]:
        wanted = states or ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")

        def there() -> dict[str, Any] | None:
            job: dict[str, Any] = json.loads(self.ok("mgpu", "show", "job", job_id, "--json"))
            return job if job["state"] in wanted else None

        found: dict[str, Any] = until(f"job {job_id} in {wanted}", there)
        return found

    def await_running(self, job_id: int) -> dict[str, Any]:
        """Once its command runs."""
        until(f"job {job_id} runs", lambda: self.await_job(job_id, "RUNNING")["start_time"])
        return self.await_job(job_id, "RUNNING")

    def clear(self) -> None:
        self.run("mgpu_cancel", "--me")
        until("nothing runs", lambda: json.loads(self.ok("mgpu", "queue", "--json")) == {"jobs": []})

    # --- nodes ---

    def pass_for(self, node: NamespacedNode) -> None:
        """A token, the master's certificate and the clients in one file: in that node's home. And its sshd shows a key
        that lies there as everywhere."""
        token = self.ok("mgpu", "token", "create").strip()
        home = node.homes / node.user
        kept = self.token_of(node)
        clients.build(home)
        public = (node.folder / "host_key.pub").read_text()
        node.run(["sh", "-c", 'printf %s "$1" >/etc/ssh/ssh_host_ed25519_key.pub', "sh", public], user="root")
        kept.write_text(f"{token}\n")
        kept.chmod(0o600)
        owner = (node.homes / node.user).stat()
        os.chown(kept, owner.st_uid, owner.st_gid)
        fingerprint = self.ok("mgpu", "token", "fingerprint").strip()
        self.on(node, "mgpu_client", "token", "trust", self.url(node), "--fingerprint", fingerprint)

    def token_of(self, node: NamespacedNode) -> Path:
        """Several sites may use one node."""
        return node.homes / node.user / f"token-{self.port}"

    def head(self, node: NamespacedNode) -> str:
        """This machine's address, as that node sees it."""
        return node.address.rpartition(".")[0] + ".254"

    def url(self, node: NamespacedNode) -> str:
        return f"https://{self.head(node)}:{self.port}"

    def on(self, node: NamespacedNode, name: str, *words: object, check: bool = True) -> Any:
        """What `name` does there: the single file of that name, run by the node's bare Python."""
        line = f'MGPU_TOKEN_FILE=~/{self.token_of(node).name} exec /usr/bin/python3 -I ~/"$0" "$@"'
        return node.run(["sh", "-c", line, name, *map(str, words)], check=check, timeout_s=60)

    def register(self, node: NamespacedNode, *words: object, check: bool = True) -> Any:
        at = ("--master-host", self.head(node), "--master-port", self.port)
        return self.on(node, "mgpu_node", "--node-id", node.name, *at, *words, check=check)
