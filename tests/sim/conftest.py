"""`pytest tests/sim --sim-seed 4711` runs that seed alone, at its full size."""

from __future__ import annotations

import pytest

A_BLOCK = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sim-seed", type=int, default=None, help="run this seed of the simulation alone")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" in metafunc.fixturenames:
        count = 320 if metafunc.config.getoption("thorough") else 48
        metafunc.parametrize("seeds", [range(first, first + A_BLOCK) for first in range(0, count, A_BLOCK)], ids=str)
    if "only_seed" in metafunc.fixturenames:
        seed = metafunc.config.getoption("sim_seed", default=None)
        metafunc.parametrize("only_seed", [] if seed is None else [seed])
