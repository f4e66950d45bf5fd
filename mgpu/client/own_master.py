"""`master:` of the user's own config.yaml, without a YAML parser: every command asks for it.

It is written plainly, on a line of its own at the margin. Who could have written the file would say where our commands
go: it has to be ours.
"""

from __future__ import annotations

import os
import stat

from mgpu.client.http import MasterError

_LINE = r"^master: +(?:\"(?P<double>[^\"\\\n]+)\"|'(?P<single>[^'\n]+)'|(?P<plain>[\w/~.][^\s#]*))[ \t]*(?: #.*)?$"


def own_master(folder: str) -> str | None:
    """None = it is not said. Raises MasterError."""
    path = os.path.join(folder, "config.yaml")
    try:
        with open(path, "rb") as file:
            text = file.read()
            facts = os.fstat(file.fileno())
    except OSError:
        return None  # told where the file is needed
    if b"\nmaster" not in b"\n" + text:
        return None
    if facts.st_uid not in (os.getuid(), 0) or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        what = f"{path} is not used: others could have written it"
        raise MasterError("not_allowed", what, f"chown it to you, and chmod go-w {path}")
    import re  # who works on another machine waits for ssh anyway

    found = re.search(_LINE, text.decode(errors="replace"), re.M)
    if found is None:
        raise MasterError(
            "bad_request", f"{path}: its master: is not plain", "write: master: ssh://user@head, or https://head:port"
        )
    return found["double"] or found["single"] or found["plain"]
