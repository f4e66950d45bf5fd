"""The master: all of mgpu with all that it depends on, as shiv packs it. At its first start it unpacks itself below
~/.shiv (SHIV_ROOT names another place)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
ENTRY = "mgpu.cli.older.program:program"
WHEN = "315532800"  # 1980-01-01: a zip knows nothing earlier


def build(folder: Path) -> list[Path]:
    """Raises CalledProcessError; pip has said why."""
    made = folder / "mgpu_master"
    environ = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", WHEN)}
    with tempfile.TemporaryDirectory() as place:
        wheel = _wheel(Path(place), environ)
        beside = folder / ".mgpu_master"
        command = ["--reproducible", "--entry-point", ENTRY, "--python", "/usr/bin/env python3", "--output-file"]
        subprocess.run([sys.executable, "-m", "shiv", *command, str(beside), str(wheel)], env=environ, check=True)
        beside.replace(made)
    return [made]


def _wheel(place: Path, environ: dict[str, str]) -> Path:
    """Of a copy of the tree, which stays as it is."""
    tree = place / "tree"
    tree.mkdir()
    names = ["mgpu", "pyproject.toml", "README.md", "LICENSE"]
    subprocess.run(["cp", "-R", *(str(REPOSITORY / name) for name in names), str(tree)], check=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", str(place), str(tree)], env=environ, check=True)
    return next(place.glob("*.whl"))
