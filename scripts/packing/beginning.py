"""What a single file says first: which Python it needs. Read by any, however old, before all that it would stumble
over."""

from __future__ import annotations

MAIN = """\
import sys

if not (%(suits)s):
    name = sys.argv[0].rpartition("/")[2]
    version = ".".join(map(str, sys.version_info[:3]))
    sys.exit("%%s: it needs %(needs)s, and this is %%s (%%s): run it by another, as in: %(example)s %%s"
             %% (name, version, sys.executable, sys.argv[0]))

%(then)s
"""


def main_of(suits: str, needs: str, example: str, then: str) -> str:
    return MAIN % {"suits": suits, "needs": needs, "example": example, "then": then}
