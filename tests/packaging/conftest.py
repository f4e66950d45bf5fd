from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.packing import clients
from tests.end_to_end.conftest import _names, make_cluster
from tests.packaging.built import REPOSITORY, Bare

__all__ = ["_names", "make_cluster"]


@pytest.fixture(scope="session")
def client_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    clients.build(folder)
    return folder


@pytest.fixture
def bare(tmp_path: Path, client_files: Path) -> Bare:
    return Bare(tmp_path, client_files)


@pytest.fixture
def thorough(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("thorough"):
        pytest.skip("minutes of pip: only with --thorough")


@pytest.fixture(scope="session")
def all_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The master too."""
    folder = tmp_path_factory.mktemp("all")
    build = [sys.executable, "-m", "scripts.packing", "--output", str(folder)]
    subprocess.run(build, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL, timeout=900)
    return folder
