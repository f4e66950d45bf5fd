"""Who a uid is on this machine."""

from __future__ import annotations

import pwd


def user_name(uid: int) -> str:
    """The login name, "" = it has none here, as in some containers."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""
