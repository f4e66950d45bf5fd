"""What is built here, and a bare machine to try it on: a folder outside of the tree, no variables of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
NETWORK = ("PIP_", "SSL_", "REQUESTS_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy")


def bare_python() -> str:
    """One without any package of ours: the system's, or that which ours was made of."""
    found = shutil.which("python3", path="/usr/bin:/bin")
    new_enough = "import sys; sys.exit(sys.version_info < (3, 10))"
    if found and subprocess.run([found, "-c", new_enough], check=False).returncode == 0:
        return found
    return str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())


def python_of(version: str) -> str:
    """In PATH, or one of pyenv's; "" = there is none."""
    there = [shutil.which(f"python{version}"), *sorted(map(str, PYENV.glob(f"versions/{version}.*/bin/python3")))]
    works = [
        each
        for each in there
        if each and not subprocess.run([each, "-c", ""], stderr=subprocess.DEVNULL, check=False).returncode
    ]
    return next(iter(works), "")


class Bare:
    """Where a single file lies, and nothing else."""

    def __init__(self, folder: Path, files: Path) -> None:
        self.home = folder / "bare"
        self.files = files
        self.environ = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        self.home.mkdir(mode=0o700)

    def run(self, name: str, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
        argv = [bare_python(), "-I", str(self.files / name), *map(str, words)]
        return subprocess.run(
            argv, env={**self.environ, **env}, cwd=self.home, capture_output=True, text=True, timeout=120, check=False
        )


def network() -> dict[str, str]:
    """What pip needs to find its index."""
    return {name: value for name, value in os.environ.items() if name.startswith(NETWORK)}
