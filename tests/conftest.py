"""What every test starts from: a home of its own, none of the person's MGPU_ settings, a lab when it asks for one."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.lab import Lab, Settings
from tests.lab.lab import sweep

XDG = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
}
LabMaker = Callable[..., Lab]
OF_THE_TESTS = {"MGPU_TORCH"}  # what scripts/test says of this machine

# Hypothesis measures time too: on a machine under load a right answer would come too late.
settings.register_profile("ours", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ours")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="more of the same: seeds, shells, minutes (as CI does)")


def pytest_configure(config: pytest.Config) -> None:
    """Before any module of ours is loaded, since some may read the environment once."""
    for name in [name for name in os.environ if name.startswith(("MGPU_", "SLURM_")) and name not in OF_THE_TESTS]:
        del os.environ[name]
    for name in ("XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "CONDA_PREFIX", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES"):
        os.environ.pop(name, None)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):  # begun with & or nohup, we would hand that on
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # our own mgpu, also when not activated


@pytest.fixture(autouse=True)
def clean_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME and the XDG folders point into the test's own folder; returns that home."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    for name, below in XDG.items():
        monkeypatch.setenv(name, str(home / below))
    return home


@pytest.fixture(scope="session")
def lab_prefix() -> Callable[[], str]:
    """Fresh prefixes, different in each worker of a parallel run."""
    numbers = count(1)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return lambda: f"test-{os.getpid()}-{worker}-{next(numbers)}"


@pytest.fixture(scope="session")
def swept() -> None:
    """Labs of test runs that were killed are gone."""
    sweep()


@pytest.fixture(scope="session")
def lab(swept: None, lab_prefix: Callable[[], str]) -> Iterator[Lab]:
    """Two nodes of four GPUs, shared by all tests of a worker: leave it as you found it."""
    with Lab(Settings(ephemeral=True), lab_prefix()) as made:
        yield made


@pytest.fixture
def make_lab(swept: None, lab_prefix: Callable[[], str]) -> Iterator[LabMaker]:
    """`make_lab(nodes=1, gpus=8, mode="loopback")`: a lab of this test alone, with any field of Settings."""
    with ExitStack() as stack:

        def make(*, mode: str = "", **settings: Any) -> Lab:
            wanted = replace(Settings(ephemeral=True), **settings)
            return stack.enter_context(Lab(wanted, lab_prefix(), mode))

        yield make
