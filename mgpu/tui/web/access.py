"""Who may see the monitor in a browser: whoever has the address that the terminal shows, once.

On this machine others can connect, too, and any page that a browser shows can have it ask anything here. So:

- The address holds a token. Its first use gives a cookie, which no page can read, and leads to the monitor; another use
  of it leads to nothing. Nothing at all is served without that cookie.
- Cookies do not know ports: a browser sends them to another user's server on this machine as well. So the monitor lies
  at a place that nobody can guess, and its cookie is for that place.
- Only names of this machine count as Host, or a name that somebody else points here would do; only the page itself may
  open the stream of keys and pictures, as its Origin says.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping

from mgpu.endpoint import is_loopback

COOKIE = "mgpu_top"
_BYTES = 32


class Access:
    """Of one `mgpu top --web`."""

    def __init__(self) -> None:
        self.place = f"/{secrets.token_urlsafe(_BYTES)}/"
        self._token = ""
        self._sessions: list[str] = []

    def new_token(self) -> str:
        """The one that was not used till now is worth nothing any more."""
        self._token = secrets.token_urlsafe(_BYTES)
        return self._token

    def exchange(self, token: str) -> str | None:
        """A session, for the token's first use."""
        if not self._token or not _same(token, self._token):
            return None
        self._token = ""
        self._sessions.append(secrets.token_urlsafe(_BYTES))
        return self._sessions[-1]

    def knows(self, session: str) -> bool:
        return any(_same(session, one) for one in self._sessions)


def _same(told: str, secret: str) -> bool:
    return hmac.compare_digest(told.encode("utf-8", "replace"), secret.encode())


def why_not(headers: Mapping[str, str], opens_stream: bool) -> str:
    """What speaks against a request, whoever sent it; "" = nothing. A tunnel may have given us another port."""
    host = headers.get("Host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if not is_loopback(name.strip("[]")):
        return "it was asked for by another name than this machine's own"
    origin = headers.get("Origin")
    if origin != f"http://{host}" and (origin is not None or opens_stream):
        return "another page asked for it"
    if headers.get("Sec-Fetch-Site") in ("cross-site", "same-site") and headers.get("Sec-Fetch-Mode") != "navigate":
        return "another page asked for it"
    return ""
