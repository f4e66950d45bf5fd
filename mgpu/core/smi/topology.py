"""`nvidia-smi topo -m` -> which GPUs are linked by NVLink, and how many links each pair has.

    GPU0	GPU1	CPU Affinity
GPU0	 X 	NV18	0-63
"""

from __future__ import annotations

import re

from mgpu.core.smi.text import lines

_MOST_LINES = 256  # GPUs, network cards and a legend
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU(\d{1,4})", re.ASCII)
_LINK = re.compile(r"NV(\d{1,4})", re.ASCII)


def parse_topology(text: str) -> tuple[tuple[int, int, int], ...]:
    """(index, index, links) of each linked pair, the lower index first. Empty where the table cannot be read."""
    columns: list[int] = []
    found: set[tuple[int, int, int]] = set()
    for line in lines(_ESCAPES.sub("", text), shown=None)[:_MOST_LINES]:
        cells = line.split()
        heads = [_GPU.fullmatch(cell) for cell in cells]
        if not columns:
            columns = [int(head[1]) for head in heads[:_MOST_LINES] if head]
        elif heads and heads[0] and len(cells) > len(columns):
            own = int(heads[0][1])
            for other, cell in zip(columns, cells[1:], strict=False):
                if own < other and (link := _LINK.fullmatch(cell)):
                    found.add((own, other, int(link[1])))
    return tuple(sorted(found))
