"""The last line: the keys that are of use where the focus is, as many as there is room for, `?` and `q` always."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from rich.segment import Segment
from textual import events
from textual.binding import Binding
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from mgpu.tui.cells import Cell, line_of, width_of

ALWAYS = ("help", "app.quit")


class Entry(NamedTuple):
    key: str
    shown: str
    label: str
    always: bool

    @property
    def width(self) -> int:
        return width_of(self.shown) + width_of(self.label) + 3


def fitting(entries: list[Entry], width: int) -> list[Entry]:
    """Those that fit: what is always shown, and of the others the first ones."""
    room = width - sum(entry.width for entry in entries if entry.always)
    kept = []
    for entry in entries:
        if not entry.always:
            room -= entry.width
        if entry.always or room >= 0:
            kept.append(entry)
    return kept


class KeyLine(Widget):
    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-line--key"}

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh())

    def _entries(self) -> list[Entry]:
        found: dict[str, Entry] = {}
        typing = self.screen.focused if isinstance(self.screen.focused, Input) else None
        for each in self.screen.active_bindings.values():
            binding: Binding = each.binding
            if typing is not None and each.node is not typing:
                continue  # a letter there, and no key
            if binding.show and binding.action not in found:
                shown = binding.key_display or self.app.get_key_display(binding)
                found[binding.action] = Entry(binding.key, shown, binding.description, binding.action in ALWAYS)
        entries = sorted(found.values(), key=lambda entry: entry.always)
        return fitting(entries, self.size.width)

    def render_line(self, y: int) -> Strip:
        if y:
            return Strip.blank(self.size.width, self.rich_style)
        cells: list[Cell] = []
        for entry in self._entries():
            cells += [Cell(f" {entry.shown}", "key"), Cell(f" {entry.label} ")]
        key = self.rich_style + self.get_component_rich_style("key-line--key", partial=True)
        line = line_of(cells, self.size.width)
        return Strip([Segment(text, key if tone else self.rich_style) for text, tone in line])

    def on_click(self, event: events.Click) -> None:
        x = event.x
        for entry in self._entries():
            if x < entry.width:
                self.app.simulate_key(entry.key)
                return
            x -= entry.width
