"""The area for details of what is selected: beside the lists, below them, or in their place on a small terminal."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message

from mgpu.clock import Clock
from mgpu.tui.job_pane import JobPane
from mgpu.tui.keys import bindings
from mgpu.tui.node_pane import NodePane
from mgpu.tui.source import Source

OF_JOBS = ("act", "log")
OF_NODES = ("drain", "resume")


class Details(Vertical):
    """Of a job or of a node, or closed. What can be done to it with a key in its list can be done here too."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("queue", *OF_JOBS),
        *bindings("nodes", *OF_NODES),
        *bindings("rows", "screen.pane"),
    ]

    def __init__(self, source: Source, clock: Clock, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._job = JobPane(source, clock, id="job-details")
        self._node = NodePane(source, clock, id="node-details")
        self._shown: str | None = None

    def compose(self) -> ComposeResult:
        yield self._job
        yield self._node

    def on_mount(self) -> None:
        self.close()

    @property
    def open(self) -> bool:
        return bool(self.display)

    @property
    def shows_node(self) -> bool:
        return bool(self._node.display)

    def focus_it(self) -> None:
        """The first thing in it that takes keys."""
        first = next((widget for widget in self.query("*") if widget.focusable), None)
        if first is not None:
            first.focus()

    class Act(Message):
        """`verb` is to be done to `about`, the job or node that is shown: the cursor may be elsewhere by now."""

        def __init__(self, verb: str, about: str) -> None:
            super().__init__()
            self.verb = verb
            self.about = about

    @property
    def job(self) -> dict[str, Any] | None:
        """As it was told last."""
        return self._job.job

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what can be done to what is shown is a key here."""
        if action in OF_NODES or action in OF_JOBS:
            return self.shows_node == (action in OF_NODES)
        return True

    def action_act(self, verb: str) -> None:
        if self._shown is not None:
            self.post_message(self.Act(verb, self._shown))

    def action_log(self) -> None:
        self.action_act("log")

    def action_drain(self) -> None:
        self.action_act("drain")

    def action_resume(self) -> None:
        self.action_act("resume")

    def show_job(self, job_id: str) -> None:
        self._show(job_id, None)

    def show_node(self, node: str) -> None:
        self._show(None, node)

    def close(self) -> None:
        self._show(None, None)

    @property
    def shown(self) -> str | None:
        """The job's number or the node's name."""
        return self._shown

    def _show(self, job_id: str | None, node: str | None) -> None:
        self._shown = node if job_id is None else job_id
        self._job.display, self._node.display = job_id is not None, node is not None
        self.display = job_id is not None or node is not None
        self._job.show(job_id)
        self._node.show(node)
        self.refresh_bindings()
