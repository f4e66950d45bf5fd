"""The master: all of mgpu with all that it depends on, as shiv packs it. At its first start it unpacks itself below
~/.shiv (SHIV_ROOT names another place)."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from scripts.packing.beginning import main_of

REPOSITORY = Path(__file__).parents[2]
ENTRY = "mgpu.cli.older.program:program"
UNPACKS = """\
import os
place = os.path.expanduser(os.environ.get("SHIV_ROOT") or "~/.shiv")
try:
    os.makedirs(place, exist_ok=True)
except OSError as error:
    sys.exit("%s: it cannot unpack itself to %s (%s): SHIV_ROOT names another place"
             % (sys.argv[0].rpartition("/")[2], place, error.strerror))

import _bootstrap
_bootstrap.bootstrap()"""
WHEN = "315532800"  # 1980-01-01: a zip knows nothing earlier


def build(folder: Path) -> list[Path]:
    """Raises CalledProcessError; pip has said why."""
    made = folder / "mgpu_master"
    environ = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", WHEN)}
    with tempfile.TemporaryDirectory() as place:
        packages = _installed(_wheel(Path(place), environ), Path(place, "packages"), environ)
        beside = folder / ".mgpu_master"
        command = ["--reproducible", "--entry-point", ENTRY, "--python", "/usr/bin/env python3", "--output-file"]
        command += [str(beside), "--site-packages", str(packages)]
        subprocess.run([sys.executable, "-m", "shiv", *command], env=environ, check=True)
        beside.write_bytes(told_apart(beside.read_bytes()))
        beside.replace(made)
    return [made]


def told_apart(packed: bytes) -> bytes:
    """Some of what is in it is compiled: another Python is told that this one is not for it, as is who has no place
    for it."""
    ours = ".".join(map(str, sys.version_info[:2]))
    begins = main_of(f"sys.version_info[:2] == {sys.version_info[:2]}", f"Python {ours}", f"python{ours}", UNPACKS)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive, zipfile.ZipFile(made, "w") as again:
        prefix = packed[: min(entry.header_offset for entry in archive.infolist())]  # the line that names Python
        for entry in archive.infolist():
            data = begins.encode() if entry.filename == "__main__.py" else archive.read(entry)
            again.writestr(entry, data)
    return prefix + made.getvalue()


def _installed(wheel: Path, packages: Path, environ: dict[str, str]) -> Path:
    """With all that it depends on, and without word of where it was built: that is another place each time."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([*pip, "--target", str(packages), str(wheel)], env=environ, check=True)
    for told in packages.glob("mgpu_scheduler-*.dist-info/direct_url.json"):
        told.unlink()
        record = told.with_name("RECORD")
        lines = record.read_text("utf-8").splitlines(keepends=True)
        record.write_text("".join(line for line in lines if "direct_url.json" not in line), "utf-8")
    return packages


def _wheel(place: Path, environ: dict[str, str]) -> Path:
    """Of a copy of the tree, which stays as it is."""
    tree = place / "tree"
    tree.mkdir()
    names = ["mgpu", "pyproject.toml", "README.md", "LICENSE"]
    subprocess.run(["cp", "-R", *(str(REPOSITORY / name) for name in names), str(tree)], check=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", str(place), str(tree)], env=environ, check=True)
    return next(place.glob("*.whl"))
