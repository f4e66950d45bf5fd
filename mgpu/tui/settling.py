"""Screens that come to rest when the terminal changes its size twice in short order.

A screen of Textual that is laid out anew in another size tells that to itself, too. With two sizes in its queue it goes
from one to the other for ever: it must follow none but the terminal's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.events import Resize

if TYPE_CHECKING:
    from textual.dom import DOMNode
else:  # a second one among the bases would come between a screen and the styles that it inherits
    DOMNode = object


class Settling(DOMNode):
    """Stands before Screen among the bases of a screen."""

    def on_resize(self, event: Resize) -> None:
        if event.size != self.app.size:
            event.prevent_default().stop()
