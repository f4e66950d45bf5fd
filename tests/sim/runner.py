"""The runner over a virtual node: what the way there does to requests and answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from mgpu.core.launch import Launch
from mgpu.core.meeting import Door
from mgpu.core.model import DeviceUuid
from mgpu.core.observation import RawProbe
from mgpu.core.reconcile import NodeAnswer
from mgpu.meters import Contact
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.peers import Target
from mgpu.remote.runner import ProbeWanted, Refusal, Source
from tests.sim.node import VirtualNode, answer
from tests.sim.world import Crash

T = TypeVar("T")

READ_LIMIT = 64  # of a turn: small, so that an output takes several
LATEST_S = 300.0  # after which bytes sent before a cut no longer arrive
TIMEOUT_S = 60.0


class VirtualPeers:
    """The way from one node to others: by chance, a wall stands in it."""

    def __init__(self, call: Callable[[str, str, Callable[[], Any]], Any], walled: Callable[[], bool]) -> None:
        self._call = call
        self._walled = walled

    @contextlib.contextmanager
    def listening(self, nonce: str, ports: Sequence[int], limit_s: int) -> Iterator[Door | str]:
        yield self._call("listen", "", lambda: Door("perl", ports[0]))

    def reach(self, targets: Sequence[Target], limit_s: int) -> dict[tuple[str, int], str] | None:
        said = self._call("reach", "", lambda: "Connection timed out" if self._walled() else "ok")
        return {(target.address, target.port): said for target in targets}

    def run(self, text: str, limit_s: int, shell: str = "sh") -> tuple[int, str]:
        return self._call("run", "", lambda: (0, ""))

    def marked(self, nonce: str, directories: Sequence[str]) -> contextlib.AbstractContextManager[tuple[bool, ...]]:
        raise NotImplementedError("nobody looks for shared directories in the simulation")


class VirtualRunner:
    """`crash` is asked before and after each call and may raise Crash."""

    def __init__(self, node: VirtualNode, crash: Callable[[str], None]) -> None:
        self._node = node
        self._world = node.world
        self._crash = crash

    @property
    def address(self) -> str:
        return f"10.0.0.{self._node.name[1:]}"

    @property
    def contact(self) -> Contact:
        return Contact()

    @property
    def peers(self) -> VirtualPeers:
        return VirtualPeers(self._call, lambda: self._world.chance(self._node.weather.walled))

    def start(self, key: str, token: str, uuids: Sequence[DeviceUuid], launch: Launch) -> Refusal | None:
        return self._call("start", key, lambda: self._node.start(key, token, tuple(uuids), launch))

    def look(self, keys: Sequence[str]) -> NodeAnswer:
        found = self._call("look", " ".join(keys), lambda: self._node.look(keys))
        return answer(found, self._world.now())

    def send_tree(self, digest: str, source: Source) -> Refusal | None:
        return self._call("tree", digest, lambda: self._node.take_tree(digest, source))

    def stop(self, key: str, token: str, reason: str) -> str:
        return self._call("stop", key, lambda: self._node.stop(key, token, reason))

    def go(self, key: str, word: str) -> str:
        return self._call("go", key, lambda: self._node.go(key, word))

    def limit(self, key: str, token: str, seconds: int | None) -> None:
        self._call("limit", key, lambda: self._node.limit(key, token, seconds))

    def signal(self, key: str, token: str, word: str) -> str:
        raise NotImplementedError("nobody sends signals in the simulation")

    def clean(self, keys: Sequence[str]) -> None:
        self._call("clean", " ".join(keys), lambda: self._node.clean(keys))

    def read(self, key: str, stream: str, offset: int) -> tuple[bytes, int]:
        return self._call("read", key, lambda: self._node.read(key, stream, offset, READ_LIMIT))

    def probe(self, wanted: ProbeWanted) -> RawProbe:
        return self._call("probe", "", self._node.probe)

    def following(self, key: str, offsets: tuple[int, int], sinks: Any) -> contextlib.AbstractContextManager[Any]:
        raise NotImplementedError("followers are not run: the simulation brings their bytes")

    def events(self) -> Iterator[str]:
        raise NotImplementedError("listeners are not run: the simulation brings their lines")

    def reset(self) -> None:
        """There is no connection."""

    def close(self) -> None:
        """Likewise."""

    def _call(self, what: str, about: str, request: Callable[[], T]) -> T:
        name = f"{self._node.name} {what} {about}".strip()
        try:
            self._crash(f"before {name}")
        except Crash:
            if self._world.chance(0.5):
                self._belated(name, request)  # it was on its way
            raise
        world, weather, node = self._world, self._node.weather, self._node
        if not node.on or not node.reachable:
            world.lag += world.between(0, TIMEOUT_S)
            if node.on and world.chance(weather.belated):
                self._belated(name, request)
            world.note(f"{name}: unreachable")
            raise RemoteError("no answer from the node")
        world.lag += world.pause(0.1, 20, weather.slow)
        for kind in ("refused", "lost", "belated", "unanswered"):
            if world.chance(getattr(weather, kind)):
                world.note(f"{name}: {kind}")
                self._fail(kind, name, request)
        result = request()
        if what not in ("look", "read", "probe"):
            world.note(f"{name}: {result}")
        self._crash(f"after {name}")
        world.lag += world.pause(0.1, 20, weather.slow)
        return result

    def _fail(self, kind: str, name: str, request: Callable[[], object]) -> None:
        if kind == "refused":
            raise RemoteError("no further session", Trouble.REFUSED)
        if kind == "belated":
            self._belated(name, request)
        elif kind == "unanswered":
            with contextlib.suppress(RemoteError):
                request()
        self._world.lag += self._world.between(0, TIMEOUT_S)
        raise RemoteError("the connection was lost")

    def _belated(self, name: str, request: Callable[[], object]) -> None:
        """Bytes sent before a cut arrive later, whatever the master thinks by then; not over a reboot."""

        def arrive() -> None:
            self._world.note(f"{name}: arrives late")
            with contextlib.suppress(RemoteError):
                request()

        delay = self._world.between(0, LATEST_S if self._world.chance(0.3) else 10)
        self._node.later(delay, arrive)
