"""Findings as lines: what is so, and what to do about it."""

from __future__ import annotations

from mgpu.cli.text import colourful, painted
from mgpu.lean.typing import TYPE_CHECKING
from mgpu.wording.letters import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mgpu.core.finding import Finding


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """`  failure  tcp  what is so -> what to do`"""
    colour = colourful()
    for finding in findings:
        word = f"{finding.status:7}"
        hint = f" -> {clean(finding.hint)}" if finding.hint else ""
        yield f"  {painted(word, finding.status) if colour else word}  {finding.check:11}  {clean(finding.text)}{hint}"


def counted(findings: Sequence[Finding]) -> str:
    """`12 ok, 1 warning, 2 failures`; what there is none of is left out, but for ok."""
    words = (("ok", "ok"), ("warning", "warnings"), ("failure", "failures"), ("skipped", "skipped"))
    numbers = [(sum(finding.status == one for finding in findings), one, many) for one, many in words]
    return ", ".join(
        f"{number} {one if number == 1 else many}" for number, one, many in numbers if number or one == "ok"
    )
