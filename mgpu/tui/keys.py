"""Every key of the monitor, in one table: bindings, footer, help and command palette are made of it."""

from __future__ import annotations

from typing import NamedTuple

from textual.binding import Binding, BindingType


class Key(NamedTuple):
    """`keys` as Textual calls them; `where`: one of PLACES. `label` stands in the footer, "" = it is left out there;
    `entry` in the command palette, likewise."""

    where: str
    keys: str
    shown: str
    action: str
    label: str
    help: str
    entry: str = ""


KEYS = (
    Key("rows", "enter", "Enter", "pick", "Details", "details of the job or node; again: its own keys"),
    Key("rows", "down,j", "j ↓", "move('down')", "", "one down"),
    Key("rows", "up,k", "k ↑", "move('up')", "", "one up"),
    Key("rows", "pagedown,ctrl+f", "PgDn ^f", "move('page_down')", "", "a page down"),
    Key("rows", "pageup,ctrl+b", "PgUp ^b", "move('page_up')", "", "a page up"),
    Key("rows", "g,home", "g Home", "move('first')", "", "to the first"),
    Key("rows", "G,end", "G End", "move('last')", "", "to the last"),
    Key("rows", "tab", "Tab", "screen.pane(1)", "Pane", "to the next pane"),
    Key("rows", "shift+tab", "Shift+Tab", "screen.pane(-1)", "", "to the pane before"),
    Key("queue", "slash", "/", "search", "Find", "show only what holds these words, as you type", "Search the queue"),
    Key("queue", "c", "c", "act('cancel')", "Cancel", "cancel the job (asks first)", "Cancel the job"),
    Key("queue", "h", "h", "act('hold')", "", "hold the job: it is not to start", "Hold the job"),
    Key("queue", "r", "r", "act('release')", "", "release the job that is held", "Release the job"),
    Key("queue", "R", "R", "act('requeue')", "", "run the job once more from its start", "Requeue the job"),
    Key("queue", "l", "l", "log", "Log", "follow what the job writes", "Follow the job's log"),
    Key("queue", "s", "s", "sort", "Sort", "sort by the next column (or click on its head)", "Sort by the next column"),
    Key("queue", "S", "S", "turn", "", "turn the order round", "Turn the order round"),
    Key("queue", "m", "m", "mine", "Mine", "only my own jobs, or all again", "Only my own jobs"),
    Key("queue", "u", "u", "user", "", "only jobs of a user (asks whom)", "Only jobs of a user"),
    Key("queue", "e", "e", "ended", "Ended", "jobs that ended, or the queue again", "Jobs that ended, or the queue"),
    Key("nodes", "slash", "/", "search", "Find", "show only what holds these words, as you type", "Search the nodes"),
    Key("nodes", "d", "d", "drain", "Drain", "drain the node: nothing new starts there (asks why)", "Drain the node"),
    Key("nodes", "D", "D", "resume", "Resume", "use the node again that was drained", "Resume the node"),
    Key("lines", "down,j", "j ↓", "scroll('down')", "", "one line down"),
    Key("lines", "up,k", "k ↑", "scroll('up')", "", "one line up"),
    Key("lines", "pagedown,space,ctrl+f", "PgDn", "scroll('page_down')", "", "a page down"),
    Key("lines", "pageup,ctrl+b", "PgUp", "scroll('page_up')", "", "a page up"),
    Key("lines", "g,home", "g Home", "scroll('first')", "", "to the first line"),
    Key("lines", "G,end", "G End", "scroll('last')", "", "to the last line"),
    Key("lines", "left", "←", "scroll('left')", "", "half a width to the left"),
    Key("lines", "right", "→", "scroll('right')", "", "half a width to the right"),
    Key("log", "f", "f", "follow", "Follow", "show what comes, as it comes"),
    Key("log", "slash", "/", "search", "Search", "search, from where one is back"),
    Key("log", "n", "n", "next(True)", "", "the one before it that is sought"),
    Key("log", "N", "N", "next(False)", "", "the next one that is sought"),
    Key("log", "w", "w", "fold", "Fold", "fold long lines, or scroll to the side"),
    Key("log", "right_square_bracket", "]", "rank(1)", "Rank", "the next rank alone, then all of them"),
    Key("log", "left_square_bracket", "[", "rank(-1)", "", "the rank before"),
    Key("app", "b", "b", "bars", "Bars", "of nodes a bar per GPU, or a line per node", "Nodes: bars per GPU, or lines"),
    Key("app", "y", "y", "copy", "", "copy the job's number or the node's name", "Copy the number or name"),
    Key("app", "escape", "Esc", "close", "", "close the details; then drop the filters"),
    Key("app", "ctrl+p", "^p", "app.command_palette", "", "all that can be done, and the themes, to choose from"),
    Key("app", "question_mark", "?", "help", "Help", "this list", "Help: every key"),
    Key("app", "ctrl+z", "^z", "app.suspend_process", "", "stop the monitor; fg in the shell goes on with it"),
    Key("app", "q,ctrl+c", "q ^c", "app.quit", "Quit", "quit; jobs run on"),
)
PLACES = {
    "queue": "In the queue",
    "nodes": "Among the nodes",
    "app": "Everywhere",
    "rows": "In a list",
    "lines": "In details and logs",
    "log": "In a log",
}


def bindings(where: str, *actions: str) -> list[BindingType]:
    """Those of a place; with `actions` only theirs."""
    return [
        Binding(key.keys, key.action, key.label or key.help, show=bool(key.label), key_display=key.shown.split()[0])
        for key in KEYS
        if key.where == where and (not actions or key.action.startswith(actions))
    ]
