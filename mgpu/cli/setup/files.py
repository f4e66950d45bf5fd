"""Where the two files go, and putting them there: whole or not at all, never over what somebody wrote."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mgpu.cli.session import bad_request
from mgpu.client.config_home import config_home
from mgpu.client.locate import CONFIG_NAME
from mgpu.config import writing
from mgpu.core.errors import RequestError

INVENTORY = "inventory/nodes.yaml"
ELSEWHERE = "--output names another place"


class Files:
    """`replace`: a copy of what is there is kept, and the new one takes its place. Raises MasterError at once when
    what is there is in the way."""

    def __init__(self, output: str, replace: bool) -> None:
        self.folder = Path(os.path.abspath(os.path.expanduser(output or config_home(os.environ))))
        self.config = self.folder / CONFIG_NAME
        self.inventory = self.folder / INVENTORY
        self.backups: list[Path] = []
        self._written = ""
        there = [path for path in (self.config, self.inventory) if path.exists() or path.is_symlink()]
        if there and not replace:
            raise bad_request(
                f"{there[0]} is there already: it is not overwritten",
                "edit it (mgpu config check looks it over), or --force keeps a copy and writes anew, "
                "or --output DIR writes elsewhere",
            )

    def others(self) -> list[str]:
        """Further files that the configuration will read."""
        found = sorted(path for path in self.inventory.parent.glob("[!.]*") if path.suffix in (".yaml", ".yml"))
        return [path.name for path in found if path != self.inventory]

    def write(self, config: str, inventory: str) -> None:
        """The inventory first: where there is a configuration, what it names is there too."""
        for folder in (self.folder, self.inventory.parent):
            try:
                folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            except OSError as error:
                raise bad_request(f"{folder}: {error.strerror}", ELSEWHERE) from error
        fresh: list[tuple[Path, Path]] = []
        try:
            for path, text in ((self.inventory, inventory), (self.config, config)):
                fresh.append((beside(path, text, ELSEWHERE), path))
            for _, path in fresh:
                self._keep(path)
            for made, path in fresh:
                made.replace(path)
        except OSError as error:
            raise bad_request(f"{error.filename or self.folder}: {error.strerror}", ELSEWHERE) from error
        finally:
            for made, _ in fresh:
                made.unlink(missing_ok=True)
        self._written = inventory

    def complete(self, inventory: str) -> bool:
        """The inventory once more, knowing more; False, and untouched, where somebody has edited it meanwhile."""
        try:
            if self.inventory.read_text("utf-8") != self._written:
                return False
        except OSError:
            return False
        beside(self.inventory, inventory, ELSEWHERE).replace(self.inventory)
        self._written = inventory
        return True

    def _keep(self, path: Path) -> None:
        if not path.exists():
            return
        number = 1
        while (copy := path.with_name(f"{path.name}.bak{number}")).exists():
            number += 1
        shutil.copy2(path, copy)
        self.backups.append(copy)


def beside(path: Path, text: str, hint: str) -> Path:
    """See there. Raises MasterError with the hint."""
    try:
        return writing.beside(path, text, hint)
    except RequestError as error:
        raise bad_request(error.message, error.hint) from error
