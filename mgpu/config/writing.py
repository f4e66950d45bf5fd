"""Text of ours in the configuration's files: quoted as YAML wants it, whole or not at all."""

from __future__ import annotations

import json
import os
import re
import secrets
from pathlib import Path

from mgpu.config.trust import trusted
from mgpu.core.errors import RequestError


def yaml_text(value: str) -> str:
    """As YAML, whatever is in it."""
    return value if re.fullmatch(r"[A-Za-z~/][A-Za-z0-9_./~-]*", value) else json.dumps(value, ensure_ascii=False)


def beside(path: Path, text: str, hint: str) -> Path:
    """A file that only has to be renamed to `path`, and that mgpu would trust. Raises RequestError with the hint, and
    OSError."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o644)  # read by all who may enter, as mgpu wants it under any umask
            file.write(text)
        if distrust := trusted(made):
            raise RequestError(f"mgpu would not trust what is written there: {distrust}", hint)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    return made
