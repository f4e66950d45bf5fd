"""Whatever is in names, reasons, commands and logs: each line is as wide as the screen, and no sequence of theirs comes
to the terminal."""

from __future__ import annotations

import asyncio
import re
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.driver import Driver
from textual.pilot import Pilot

from mgpu.tui import themes
from mgpu.tui.app import Monitor
from tests.client.peer import output
from tests.clocks import HandClock
from tests.tui import stand_in
from tests.tui.host import Recording
from tests.tui.screen import press, settled, strips_of, until
from tests.tui.stand_in import NOW, StandIn

# All that Textual itself sends: colours, places, that a picture begins and ends, the shape of the mouse's pointer.
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[[0-9]+;[0-9]+H|\x1b\[\?(?:2026|25)[hl]|\x1b\]22;[a-z-]+\x07|\n")
# By these the monitor knows what is what; the master makes them, and no user does.
MADE_BY_THE_MASTER = {
    "state", "mark", "job_id", "event", "barred", "submit_time", "start_time", "end_time", "expected_start",
    "last_seen", "since", "from", "to", "lost_since", "idle_since", "gpus_until", "at",
}  # fmt: skip
SIZES = ((80, 24), (160, 48), (20, 5), (1, 1), (300, 100), (36, 12), (141, 20))

STEERING = (
    "\x1b]0;t\x07",
    "\x1b]52;c;cm0=\x07",
    "\x1b[2J",
    "\x1b[31m",
    "\x1b[?1049l",
    "\x1bP1$q\x1b\\",
    "\x1bc",
    "\x1b",
)
CONTROL = (
    "\r",
    "\n",
    "\t",
    "\b",
    "\a",
    "\0",
    "\x7f",
    "\u009b31m",
    "\u009d0;x\u009c",
    "\u0085",
    "\u2028",
    "\u202e",
    "\u2066",
)
MARKUP = ("[red]", "[/]", "[@click=app.quit]x[/]", "\\[", "{0}", "%s", "word", " ", "x" * 50)
WIDE = (
    "日本語",
    "👩\u200d💻",
    "❤\ufe0f",
    "🇫🇷",
    "e\u0301",
    "\u0301",
    "ก็",
    "नि",
    "한",
    "ﷺ",
    "\u3000",
    "\u200b",
    "\u00ad",
    "\ufeff",
)
NO_LETTERS = ("\ud800", "\udcff", "\U000e0041", "\ue000", "\U0010ffff")
SCRAPS = st.sampled_from([*STEERING, *CONTROL, *MARKUP, *WIDE, *NO_LETTERS])
TEXTS = st.lists(SCRAPS | st.text(max_size=3), max_size=5).map("".join)
LOGS = st.lists(SCRAPS.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=8), max_size=12)


class Recorded(Monitor):
    """Its terminal remembers what it was sent."""

    CSS_PATH = Path(themes.__file__).with_name("monitor.tcss")

    def _build_driver(self, headless: bool, inline: bool, mouse: bool, size: tuple[int, int] | None) -> Driver:
        self._driver = self.recording = Recording(self, mouse=mouse, size=size)
        return self._driver


class Spoilt(StandIn):
    """A master whose users took names as they liked: `texts`, one after the other."""

    def __init__(self, path: Path | str, texts: list[str]) -> None:
        super().__init__(path, total=9, running=4)
        self._texts, self._next = texts, 0

    def answer_to(self, method: str, path: str) -> Any:
        url = urlsplit(path)
        answer = super().answer_to(method, path)
        if url.path == "/v1/jobs/1":
            lost = {
                **stand_in.job(1, 4)["allocation"][0],
                "rank": 1,
                "state": "LOST",
                "lost_since": "2026-01-01T00:00:00Z",
            }
            answer = stand_in.job(1, 4, dependency="afterok:1", account="x", detail="x", reason="x")
            answer["allocation"].append(lost)
        elif url.path == "/v1/nodes/gpu01":
            process = {"pid": 1, "user": "erin", "memory_mib": 1, "command": "python", "age_s": 9, "kind": "C"}
            answer = {**self.nodes[1], "notes": ["x"], "machine": {"driver": "x", "xid": ["x"], "nvlink": ["x"]}}
            answer["gpus"] = [{**gpu, "processes": [process]} for gpu in answer["gpus"]]
        return self._spoilt(answer) if isinstance(answer, dict) else answer

    def _spoilt(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._spoilt(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self._spoilt(each, key) for each in value]
        if not isinstance(value, str) or key in MADE_BY_THE_MASTER or (key == "node_id" and value == "gpu01"):
            return value
        self._next += 1
        return self._texts[self._next % len(self._texts)]


def check(pilot: Pilot[None]) -> None:
    width = pilot.app.size.width
    strips = strips_of(pilot)
    assert len(strips) == pilot.app.size.height
    for strip in strips:
        assert all(segment.text.isprintable() for segment in strip), strip
        assert sum(cell_len(segment.text) for segment in strip) == width, strip


async def walk(master: Spoilt, log: list[bytes], size: tuple[int, int], held: threading.Event) -> str:
    """Through all that there is to see. Returns what the terminal was sent."""
    job = master._spoilt(stand_in.job(1, 4))
    begin = [{"event": "state", "job": job}, {"event": "attempt", "attempt": 1}]
    pieces, at = list[bytes](), 0
    for data in log:
        pieces.append(output(data, offset=at))
        at += len(data)
    stream = [*begin, {"event": "begin", "offsets": [[1, 0, 0], [2, 0, 0]]}, *pieces, held]
    master.streams = [list(stream) for _ in range(9)]
    app = Recorded(master.source(), "dark", master._texts[0], HandClock(NOW))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: bool(app.main.queue.answer) and app.main.nodes.poll.freshness.good_at is not None)
        await settled(pilot)
        check(pilot)
        for keys in (("enter",), ("escape",), ("tab", "enter"), ("escape", "tab"), ("c",), ("escape", "slash", "a")):
            await press(pilot, *keys)
            check(pilot)
        await press(pilot, "escape", "l")
        await pilot.pause(0.25)
        check(pilot)
        return app.recording.written


@pytest.mark.timeout(400)  # a dozen times through all of it
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TEXTS, min_size=1, max_size=4), LOGS, st.sampled_from(SIZES))
@example(
    ["\x1b]0;title\x07[red]日本語\u202e❤\ufe0f\ud800" * 3],
    [b"\x1b]52;c;cm0=\x07\x1b[31mred\r\x1b[?1049l\xff"],
    (80, 24),
)
def test_no_text_breaks_the_screen(texts: list[str], log: list[bytes], size: tuple[int, int]) -> None:
    held = threading.Event()
    with tempfile.TemporaryDirectory() as folder, Spoilt(Path(folder) / "socket", texts) as master:
        try:
            written = asyncio.run(walk(master, log, size, held))
        finally:
            held.set()
    assert OURS.search(written)
    left = OURS.sub("", written)
    assert left.isprintable(), sorted({letter for letter in left if not letter.isprintable()})
