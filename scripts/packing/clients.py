"""The clients: one zip that Python runs, under five names. In it: what a client needs of mgpu, click, and PyYAML for
the user's own file."""

from __future__ import annotations

import importlib.metadata
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from scripts.packing.beginning import main_of

REPOSITORY = Path(__file__).parents[2]
NAMES = ("mgpu_client", "mgpu_node", "mgpu_queue", "mgpu_cancel", "mgpu_srun")
OF_THE_MASTER = {"api", "care.py", "config", "daemon.py", "doctor", "master", "ops", "remote", "store", "tui"}
SUFFIXES = (".py", ".bash", ".zsh", ".fish")
DEPENDENCIES = ("click", "PyYAML")
WHEN = (1980, 1, 1, 0, 0, 0)  # the same for each file: what is built depends on what is in it alone
SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = main_of(
    "sys.version_info >= (3, 10)",
    "Python 3.10 or newer",
    "python3.11",
    "from mgpu.cli.older.program import program\n\nprogram()",
)


def build(folder: Path) -> list[Path]:
    content = SHEBANG + _zipped()
    made = [folder / name for name in NAMES]
    for path in made:
        beside = path.with_name(f".{path.name}")
        beside.write_bytes(content)
        beside.chmod(0o755)
        beside.replace(path)
    return made


def _zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in sorted({"__main__.py": MAIN.encode(), **dict(_ours()), **dict(_theirs())}.items()):
            entry = zipfile.ZipInfo(name, WHEN)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=9)
    return buffer.getvalue()


def _ours() -> Iterator[tuple[str, bytes]]:
    package = REPOSITORY / "mgpu"
    for path in package.rglob("*.*"):
        if path.suffix in SUFFIXES and path.relative_to(package).parts[0] not in OF_THE_MASTER:
            yield path.relative_to(REPOSITORY).as_posix(), path.read_bytes()


def _theirs() -> Iterator[tuple[str, bytes]]:
    """Code and licence of each."""
    for name in DEPENDENCIES:
        for file in importlib.metadata.files(name) or ():
            if file.suffix == ".py" or "LICENSE" in file.name.upper():
                yield file.as_posix(), file.read_binary()
