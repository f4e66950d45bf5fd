"""States of jobs as somebody names them."""

from __future__ import annotations

# as Slurm's commands take them too
SHORT = {
    "PD": "PENDING", "R": "RUNNING", "CD": "COMPLETED", "F": "FAILED", "CA": "CANCELLED", "TO": "TIMEOUT",
    "NF": "NODE_FAIL",
}  # fmt: skip


def written_out(states: str) -> str:
    """With commas between, as the master takes them."""
    return ",".join(SHORT.get(word, word) for word in (word.strip() for word in states.upper().split(",")))
