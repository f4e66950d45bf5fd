"""Folders of ours alone in places that all can write."""

from __future__ import annotations

import os
import stat

from mgpu.client.http import MasterError


def private_folder(path: str) -> str:
    """Makes the folder if need be. In a place that all can write, it must be ours alone, and not a link."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise MasterError("bad_request", f"{path}: {error.strerror}", "name another place with --state-dir") from error
    facts = os.lstat(path)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise MasterError(
            "not_allowed",
            f"{path} is not a folder that uid {os.getuid()} alone can enter",
            "remove it, or name another place with --state-dir",
        )
    return path
