"""Memory in words; all in MiB."""

from __future__ import annotations


def gib(mib: int) -> str:
    return f"{mib / 1024:.3g} GiB" if mib >= 1024 else f"{mib} MiB"


def typed(mib: int) -> str:
    """As --gpu-mem and --mem take it."""
    return f"{mib // 1024}G" if mib % 1024 == 0 and mib else f"{mib}M"


def typed_at_most(mib: int) -> str:
    """In whole GiB, where it has so many."""
    return f"{mib // 1024}G" if mib >= 1024 else f"{mib}M"
