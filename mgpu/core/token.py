"""Tokens: what a client elsewhere shows instead of a login. `mgpu_<id>_<secret>`, the secret 256 random bits in hex.

Kept is only the SHA-256 of the secret: that many random bits cannot be tried, so nothing slower is needed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

ID_LETTERS = 8
SECRET_LETTERS = 64
_FORM = re.compile(rf"mgpu_([0-9a-f]{{{ID_LETTERS}}})_([0-9a-f]{{{SECRET_LETTERS}}})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Token:
    """Of the head login (uid, user). `name` is a label; `expires` None = never."""

    token_id: str
    digest: str
    uid: int
    user: str
    name: str
    created: float
    expires: float | None = None
    last_used: float | None = None
    revoked: float | None = None

    def why_not(self, now: float) -> str:
        """ "" = it holds."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else ""


def render_token(token_id: str, secret: str) -> str:
    return f"mgpu_{token_id}_{secret}"


def parse_token(text: str) -> tuple[str, str] | None:
    """(id, secret); None = it is none."""
    found = _FORM.fullmatch(text)
    return (found[1], found[2]) if found else None


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


def opens(secret: str, digest: str) -> bool:
    """Takes the same time wherever they differ."""
    return hmac.compare_digest(digest_of(secret), digest)
