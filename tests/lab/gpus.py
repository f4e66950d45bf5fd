"""The GPUs of a node, as its stand-in nvidia-smi reports them: one table and one fault, files that the script reads."""

from __future__ import annotations

import os
import shutil
import struct
import uuid
from pathlib import Path

from tests.lab.node import LabError

SCRIPT = Path(__file__).with_name("nvidia-smi.sh")
COLUMNS = (
    "index", "uuid", "pci.bus_id", "name", "memory.total", "memory.used", "utilization.gpu", "driver_version",
    "mig.mode.current", "compute_mode", "temperature.gpu", "status",
)  # fmt: skip
STATUSES = ("ok", "lost", "hidden")
READ_ANY_ENVIRONMENT = (1 << 2) | (1 << 19)  # CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE


class Gpus:
    """The table of one node. Values are text; memory in MiB, utilisation in percent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = folder / "gpus"
        self.fault_file = folder / "fault"
        self.sound = folder / "gpus.sound"

    def create(self, count: int, name: str, memory_mib: int) -> None:
        """Fresh GPUs; the UUIDs follow from the folder's name, so that they survive a reboot and no lab shares one."""
        rows = []
        for index in range(count):
            unique = uuid.uuid5(uuid.NAMESPACE_URL, f"{self.folder}/{index}")
            values = (index, f"GPU-{unique}", f"00000000:{index + 1:02X}:00.0", name, memory_mib, 3, 0, "550.90.07")
            rows.append(dict(zip(COLUMNS, map(str, (*values, "Disabled", "Default", 35, "ok")), strict=True)))
        self._write(rows)
        _replace(self.sound, self.table.read_text())
        self.clear()

    def rows(self) -> list[dict[str, str]]:
        return [dict(zip(COLUMNS, line.split("|"), strict=True)) for line in self.table.read_text().splitlines()]

    def set(self, index: int, /, **values: str) -> None:
        """Changes columns of one GPU; `pci.bus_id` and the like go through `set(0, **{"pci.bus_id": ...})`."""
        rows = self.rows()
        row = next((row for row in rows if row["index"] == str(index)), None)
        if row is None:
            raise LabError(f"no GPU {index} there; the indices are {', '.join(row['index'] for row in rows)}")
        for column, value in values.items():
            if column not in COLUMNS:
                raise LabError(f"no such column: {column}; use one of {', '.join(COLUMNS)}")
            if "|" in value or "\n" in value:
                raise LabError("a GPU's value holds neither | nor a line end")
            if column == "status" and value not in STATUSES:
                raise LabError(f"a GPU is {', '.join(STATUSES)}, not {value}")
            row[column] = value
        self._write(rows)

    def uuid(self, index: int) -> str:
        return self.rows()[index]["uuid"]

    def fault(self, text: str) -> None:
        """`hang`, `slow SECONDS` or `fail STATUS TEXT`, for every call from now on."""
        _replace(self.fault_file, f"{text}\n")

    def clear(self) -> None:
        """No fault, and every GPU there again, as it was at first."""
        self.fault_file.unlink(missing_ok=True)
        _replace(self.table, self.sound.read_text())

    def _write(self, rows: list[dict[str, str]]) -> None:
        _replace(self.table, "".join("|".join(row[column] for column in COLUMNS) + "\n" for row in rows))


def install(path: Path, state: str, grep: str, node: str) -> None:
    """Writes the stand-in. `state` and `grep` are paths as the node sees them, `node` marks its processes."""
    text = SCRIPT.read_text().replace("@STATE@", state).replace("@GREP@", grep).replace("@NODE@", node)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def install_grep(path: Path) -> None:
    """A grep that may read the environment of every process of its node: nvidia-smi too sees those of all users.

    File capabilities, since a set-user-id bit does nothing for a script and would make the whole grep root.
    """
    source = shutil.which("grep")
    if source is None:
        raise LabError("grep is missing")
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, path)
    path.chmod(0o755)
    revision_2_effective = 0x02000001
    os.setxattr(path, "security.capability", struct.pack("<5I", revision_2_effective, READ_ANY_ENVIRONMENT, 0, 0, 0))


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text)
    fresh.chmod(0o644)
    fresh.replace(path)
