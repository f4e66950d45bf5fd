"""--mail-type and --mail-user, in Slurm's words. mgpu writes no mail: the site's command is told what was asked for."""

from __future__ import annotations

import re

from mgpu.core.errors import RequestError

SHARES = (50, 80, 90)  # of the time limit, in percent
_ALL = ("BEGIN", "END", "FAIL", "INVALID_DEPEND", "REQUEUE", "STAGE_OUT")
_TYPES = (*_ALL, "TIME_LIMIT", *(f"TIME_LIMIT_{share}" for share in reversed(SHARES)), "ARRAY_TASKS")
# An address or a login, of which no program makes an option, a header or another word.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+%=/-]{0,127}(@[A-Za-z0-9][A-Za-z0-9.-]{0,251})?", re.ASCII)


def parse_mail_type(text: str) -> str:
    """As it is stored: the types with commas between, `ALL` written out; "" for NONE. Raises RequestError."""
    words = [word.strip().upper() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in (*_TYPES, "ALL", "NONE")]
    if unknown:
        known = ", ".join(("NONE", "ALL", *_TYPES))
        raise RequestError(f"--mail-type: there is no '{unknown[0][:40]}': one or more of {known}")
    if "NONE" in words and len(words) > 1:
        raise RequestError("--mail-type: NONE goes with no other: leave one out")
    found = {*words, *(_ALL if "ALL" in words else ())}
    return ",".join(word for word in _TYPES if word in found)


def parse_mail_user(text: str) -> str:
    """Raises RequestError."""
    if text and not _USER.fullmatch(text):
        raise RequestError(f"--mail-user '{text[:60]}' is neither a login nor an address: write ann or ann@example.org")
    return text
