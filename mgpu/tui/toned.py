"""What scrolls and is drawn of cells: how each tone looks, made once for a theme."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from textual.scroll_view import ScrollView

from mgpu.tui.cells import TONES

COMPONENTS = {f"tone--{tone}" for tone in TONES if tone}


class Toned(ScrollView):
    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._looks: dict[tuple[str, str], Style] = {}

    def tone(self, name: str, under: str = "") -> Style:
        """`under`: a component class that what is drawn stands under, as a cursor; "" = none."""
        made = self._looks.get((name, under))
        if made is None:
            made = self.rich_style
            for each in filter(None, (name and f"tone--{name}", under)):
                made += self.get_component_rich_style(each, partial=True)
            self._looks[name, under] = made
        return made

    def notify_style_update(self) -> None:
        self._looks.clear()
        super().notify_style_update()
