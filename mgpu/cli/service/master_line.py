"""How the master of this command line is run by somebody who knows nothing of this shell: by absolute paths, with all
that decides which it is."""

from __future__ import annotations

import os
import sys

from mgpu.cli.session import Session, bad_request
from mgpu.client.locate import Location
from mgpu.lean.typing import NamedTuple
from mgpu.whereabouts import search_path


class MasterLine(NamedTuple):
    """`pythonpath` "" = Python finds mgpu by itself."""

    python: str
    pythonpath: str
    config: str
    state_dir: str

    def words(self, command: str, *options: str) -> list[str]:
        config = ["--config", self.config] if self.config else []
        return [self.python, "-m", "mgpu", command, *options, *config, "--state-dir", self.state_dir]


def master_line(session: Session) -> tuple[MasterLine, Location]:
    """Raises MasterError."""
    location = session.location_here()
    if not location.personal:
        raise bad_request("--master and MGPU_MASTER name a master that runs already", "leave them out here")
    line = MasterLine(sys.executable, search_path(), location.config, location.state_dir)
    require_plain(line)
    return line, location


def require_plain(line: MasterLine) -> None:
    """Raises MasterError for what no line of a unit or a crontab could hold."""
    for text in line:
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
            raise bad_request(f"the path {text!r} holds control characters", "name another (--state-dir, --config)")
        try:
            os.fsencode(text).decode()
        except UnicodeDecodeError as error:
            raise bad_request(f"the path {text!r} is not UTF-8", "name another") from error
