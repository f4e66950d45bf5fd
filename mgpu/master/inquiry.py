"""`mgpu preflight`: all that is looked at on several nodes at once for somebody who asks, one inquiry at a time."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Sequence

from mgpu.clock import Clock
from mgpu.core.errors import MgpuError
from mgpu.core.launch import NodeWorld
from mgpu.core.meeting import Call, Side, settle
from mgpu.core.model import NodeName
from mgpu.core.nodefacts import CLOCK, Wanted, parse_facts, question
from mgpu.core.observation import Observation
from mgpu.core.preflight import NodeTold, Together
from mgpu.master.calling import SILENT
from mgpu.master.link import NodeLink
from mgpu.master.links import Links
from mgpu.master.preflight import Preflight
from mgpu.master.worker import Threads
from mgpu.remote.errors import RemoteError

CLOCK_LIMIT_S = 5
FACTS_LIMIT_S = 20  # a `setup` may take its time
ANSWERS_S = CLOCK_LIMIT_S + FACTS_LIMIT_S + 10.0
MUTE_S = 2.0  # for one that did not say a word while the others called it
HOME = "~"


def _mute(names: Sequence[NodeName], calls: Sequence[Call]) -> set[NodeName]:
    """Those that answered nothing that they were asked in the look."""
    heard = {name for call in calls if call.said for name in (call.source, call.target)}
    doubts = {call.doubt for call in calls}
    return {name for name in names if name not in heard and f"{name}: {SILENT}" in doubts}


class Inquiry:
    def __init__(
        self,
        links: Links,
        preflight: Preflight,
        threads: Threads,
        clock: Clock,
        seen: Callable[[NodeName], Observation | None],
    ) -> None:
        self._links = links
        self._preflight = preflight
        self._threads = threads
        self._clock = clock
        self._seen = seen
        self._busy = threading.Lock()

    def ask(self, names: Sequence[NodeName], directory: str, virtual_env: str, account: str = "") -> Together:
        """`directory`, `virtual_env`: where the user stands, and in which environment; `account`: who looks there."""
        if not self._busy.acquire(blocking=False):
            raise MgpuError("another preflight is under way", "ask again in a moment")
        try:
            return self._ask(names, directory, virtual_env, account)
        finally:
            self._busy.release()

    def _ask(self, names: Sequence[NodeName], directory: str, virtual_env: str, account: str) -> Together:
        calls = self._preflight.look(names, fresh=True)
        sides = [self._preflight.side(name) for name in names]
        addresses = dict(zip(names, settle(names, calls).addresses, strict=True))
        places = self._places(names, directory)
        nonce = secrets.token_hex(8)
        mute = _mute(names, calls)

        def task(side: Side) -> Callable[[], NodeTold | None]:
            peers = [address for name, address in addresses.items() if name != side.name and address]
            wanted = Wanted(peers, [path for _, path in places], nonce, virtual_env)
            if side.name in mute:
                return lambda: self._threads.together([lambda: self._told(side, account, wanted)], MUTE_S)[0]
            return lambda: self._told(side, account, wanted)

        made: tuple[bool, ...] = (False,) * len(places)
        with contextlib.ExitStack() as stack:
            if names[0] not in mute:
                with contextlib.suppress(RemoteError):
                    marks = self._under(names[0], account).runner.peers.marked(nonce, [path for _, path in places])
                    made = stack.enter_context(marks)
            answers = self._threads.together([task(side) for side in sides], ANSWERS_S)
        told = [answer or NodeTold(side, trouble=SILENT) for side, answer in zip(sides, answers, strict=True)]
        directories = [(what, path, is_made) for (what, path), is_made in zip(places, made, strict=True)]
        return Together(told, calls, self._preflight.ports, directories)

    def _under(self, name: NodeName, account: str) -> NodeLink:
        return (account and self._links.under(name, account)) or self._links[name]

    def _places(self, names: Sequence[NodeName], directory: str) -> list[tuple[str, str]]:
        """What it is, and its path; each once."""
        workdirs = {self._links[name].config.workdir for name in names} - {""}
        found = {HOME: "home", directory: "this directory", **dict.fromkeys(sorted(workdirs), "workdir")}
        return [(what, path) for path, what in found.items() if path]

    def _told(self, side: Side, account: str, wanted: Wanted) -> NodeTold:
        config, seen = self._links[side.name].config, self._seen(side.name)
        peers = self._under(side.name, account).runner.peers
        machine = seen.machine if seen else None
        driver, cuda = (machine.driver, machine.cuda) if machine else ("", "")
        world = NodeWorld(config.workdir, config.setup, config.env, login_shell=config.login_shell)
        try:
            clock_s = self._offset(lambda: peers.run(CLOCK, CLOCK_LIMIT_S)[1])
            text, shell = question(world, wanted)
            facts = parse_facts(peers.run(text, FACTS_LIMIT_S, shell)[1], wanted.addresses)
        except RemoteError as error:
            return NodeTold(side, config.network_interface, driver, cuda, None, error.message)
        return NodeTold(side, config.network_interface, driver, cuda, facts, "", clock_s)

    def _offset(self, ask: Callable[[], str]) -> tuple[float, float] | None:
        """The node's clock minus ours, and by how much that may be wrong."""
        before = self._clock.now()
        said = ask().strip()
        after = self._clock.now()
        whole, _, part = said.partition(".")
        if not whole.isdecimal() or len(whole) > 12:
            return None
        exact = part.isdecimal() and len(part) <= 9
        theirs = float(f"{whole}.{part}") if exact else float(whole) + 0.5  # a `date` that knows no %N
        return theirs - (before + after) / 2, (after - before) / 2 + (0.0 if exact else 0.5)
