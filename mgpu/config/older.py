"""Files of the older, agent-based system: what they said that nobody needs now, and words that have changed.

They load, with one warning for each such key that says what became of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mgpu.config.document import Document, Raw
from mgpu.config.faults import KeyPath, dotted

_IGNORED = {
    "cluster.master": "clients now find the master by its socket, or by MGPU_MASTER",
    "nodes.*.port": "it was the port of the former agent; the port for SSH is ssh.port (22 if not given)",
    "defaults.port": "it was the port of the former agent; the port for SSH is ssh.port (22 if not given)",
    "nodes.*.status": "a node's state is now observed; see mgpu nodes",
    "nodes.*.last_heartbeat": "a node's state is now observed; see mgpu nodes",
}
_RENAMED = {
    "nodes.*.id": "node_id",
    "nodes.*.name": "node_id",
    "nodes.*.host": "hostname",
    "nodes.*.gpus": "gpu_count",
    "nodes.*.rack": "switch",
    "scheduling.policy": "default_policy",
}


def modernise(document: Document) -> list[str]:
    """Takes the old keys out of `document.data`, or renames them there. Returns the warnings, one per kind of key.

    Where an old word and the new one stand side by side, nobody knows which is meant: that is a fault.
    """
    warnings = []
    for pattern, why in _IGNORED.items():
        found = [(path, holder.pop(str(path[-1]))) for path, holder in list(_find(document, pattern))]
        if found:
            value = f" {found[0][1]}" if isinstance(found[0][1], str) else ""
            warnings.append(f"{_where(document, [path for path, _ in found], value)} is ignored: {why}")
    for pattern, new in _RENAMED.items():
        paths = []
        for path, holder in list(_find(document, pattern)):
            if new in holder:
                document.blame(path, f"is an older word for {new}, which is given too: remove one", of_key=True)
                document.unread.add((*path[:-1], new))
                del holder[str(path[-1])]
            else:
                document.rename(path, holder, new)
                paths.append(path)
        if paths:
            warnings.append(f"{_where(document, paths)} is read as {new}: please write it so")
    return warnings


def _find(document: Document, pattern: str) -> Iterator[tuple[KeyPath, dict[str, Raw]]]:
    """Paths that fit, each with the mapping that holds its last key. `*` stands for any place in a list."""
    spots: list[tuple[KeyPath, Raw]] = [((), document.data)]
    *above, last = pattern.split(".")
    for word in above:
        spots = [
            ((*path, key), item)
            for path, value in spots
            for key, item in (_items(value) if word == "*" else _entry(value, word))
        ]
    return (((*path, last), value) for path, value in spots if isinstance(value, dict) and last in value)


def _items(value: Raw) -> list[tuple[str | int, Raw]]:
    return list(enumerate(value)) if isinstance(value, list) else []


def _entry(value: Raw, word: str) -> list[tuple[str | int, Raw]]:
    return [(word, value[word])] if isinstance(value, dict) and word in value else []


def _where(document: Document, paths: list[KeyPath], value: str = "") -> str:
    more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
    return f"{document.place(paths[0], of_key=True)}: {dotted(paths[0])}{value}{more}"
