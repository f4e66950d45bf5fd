"""What is asked of the nodes once the files are written: who they are, to take a key, what they have.

Host keys and probes go through the master. A node on which one of these fails is told in a line and left out of what
follows.
"""

from __future__ import annotations

import shlex
import sys
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from mgpu import clock
from mgpu.cli.node import changed, trust_one
from mgpu.cli.session import Session, node_path
from mgpu.cli.setup.draft import Seen, seen_of
from mgpu.cli.setup.hosts import Host
from mgpu.cli.setup.key import IDENTITY_FILE, install
from mgpu.cli.text import say
from mgpu.client.http import MasterError, NoMaster
from mgpu.lean.typing import Callable, Iterator, Sequence
from mgpu.wording.figures import count, epoch
from mgpu.wording.letters import clean

AT_ONCE = 16  # as many as the master asks at the same time


class Look:
    """`seen`: what was found on those that answered; `troubles`: why not on the others; `free`: GPUs without work."""

    def __init__(self, session: Session, hosts: Sequence[Host]) -> None:
        self._session = session
        self._hosts = hosts
        self.seen: dict[str, Seen] = {}
        self.troubles: dict[str, str] = {}
        self.untrusted: list[str] = []
        self.shut_out = 0  # nodes that let nobody in
        self.free = 0

    def trust(self, yes: bool) -> None:
        """Shows the fingerprints of those that nobody knows yet, and asks one after the other. The way to some may lead
        through others."""
        straight = [host for host in self._hosts if host.reach and not host.reach.via]
        self._trust(straight, yes)
        self._trust([host for host in self._hosts if host.reach and host.reach.via], yes)

    def _trust(self, hosts: Sequence[Host], yes: bool) -> None:
        for host, answer in self._each(hosts, lambda host: self._call("GET", host, "hostkeys"), in_order=True):
            try:
                shown = answer.result()
                if shown["status"] == "changed":
                    raise changed(host.name, shown)
                if shown["status"] == "new" and trust_one(self._session, host.name, None, yes, [], []):
                    self.untrusted.append(host.name)
                    self.troubles[host.name] = "its host keys are not trusted"
            except MasterError as error:
                self._trouble(host, error)

    def install(self, key: Path, own_known_hosts: Path, terminal: bool) -> None:
        """One login by OpenSSH to each."""
        for host in self._hosts:
            if host.local or host.name in self.troubles:
                continue
            print(f"{host.name}: installing the key ...", file=sys.stderr)
            trouble = install(host, key, own_known_hosts, terminal)
            if trouble:
                say(f"{host.name}: {trouble}: ssh-copy-id -i {IDENTITY_FILE}.pub {host.login} does it later")
                self.troubles[host.name] = trouble

    def probe(self) -> None:
        """All at once; a line for each as soon as it is known."""
        began = int(clock.now())
        rest = [host for host in self._hosts if host.name not in self.troubles]
        if rest:
            print(f"Asking {count(len(rest), 'node')} for GPUs ...", file=sys.stderr)
        for host, answer in self._each(rest, lambda host: self._call("POST", host, "probe", {}), in_order=False):
            try:
                self._found(host, answer.result(), began)
            except MasterError as error:
                self._trouble(host, error)

    def _call(self, method: str, host: Host, what: str, body: Any = None) -> Any:
        return self._session.call(method, f"{node_path(host.name)}/{what}", body)

    def _each(
        self, hosts: Sequence[Host], ask: Callable[[Host], Any], in_order: bool
    ) -> Iterator[tuple[Host, Future[Any]]]:
        """Asks all; ^C waits for no answer."""
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            asked = {pool.submit(ask, host): host for host in hosts}
            for answer in asked if in_order else as_completed(asked):
                yield asked[answer], answer
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _found(self, host: Host, node: dict[str, Any], began: int) -> None:
        """What is shown of a node that does not answer now may be what it had some time ago."""
        seen = seen_of(node)
        free = sum(gpu["state"] == "free" for gpu in node["gpus"])
        if (epoch(node["last_seen"]) or 0) < began:
            reason = str(node.get("reason") or "does not answer")
            self.troubles[host.name] = reason.removeprefix(f"node is {node['state'].lower()}: ")
            self.shut_out += "login as" in reason
            say(f"{host.name}: {self.troubles[host.name]}")
        elif seen.total:
            self.seen[host.name] = seen
            self.free += free
            doubt = f"; {clean(seen.doubt)}" if seen.doubt else ""
            print(f"{host.name}: {seen.words()}, {free} free{doubt}")
        else:
            self.seen[host.name] = seen
            print(f"{host.name}: no GPUs: {clean(seen.doubt)}")

    def _trouble(self, host: Host, error: MasterError) -> None:
        if isinstance(error, NoMaster) or error.code in ("other_config", "store"):
            raise error
        said, hint = error.message, error.hint
        if host.reach and host.reach.via and "host key unknown" in said:  # a jump host's: that is no node to trust
            said = said.partition("; run: ")[0]
            hint = f"log in once by hand, where ssh asks: ssh {shlex.quote(host.login)}"
        self.troubles[host.name] = said
        say(f"{host.name}: {said}" + (f": {hint}" if hint else ""))
