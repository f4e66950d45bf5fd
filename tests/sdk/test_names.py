"""What `import mgpu` offers, and that it costs nothing until it is asked for."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mgpu
from mgpu.sdk.aio import AsyncClient
from mgpu.sdk.client import Client

REPOSITORY = Path(__file__).parents[2]


def test_every_name_is_there() -> None:
    assert {name for name in mgpu.__all__ if not hasattr(mgpu, name)} == set()
    assert set(mgpu.__all__) <= set(dir(mgpu))
    with pytest.raises(AttributeError, match="no attribute 'Clint'"):
        mgpu.Clint  # type: ignore[attr-defined]  # noqa: B018


def test_importing_it_loads_nothing_more() -> None:
    said = "import sys; before = set(sys.modules); import mgpu; print(*sorted(set(sys.modules) - before))"
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run([sys.executable, "-S", "-c", said], env=environ, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["mgpu"]


def test_the_client_loads_no_master() -> None:
    said = "import sys; from mgpu import Client, AsyncClient; print(*sys.modules)"
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run([sys.executable, "-c", said], env=environ, capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    heavy = {"aiohttp", "sqlalchemy", "pydantic", "paramiko", "click", "textual", "yaml"}
    assert loaded & (heavy | {"mgpu.cli", "mgpu.api", "mgpu.master", "mgpu.ops", "mgpu.store", "mgpu.remote"}) == set()


def methods(kind: type) -> dict[str, set[str]]:
    return {
        name: set(inspect.signature(value).parameters)
        for name, value in vars(kind).items()
        if callable(value) and not name.startswith("_") and value.__doc__
    }


def test_both_clients_offer_the_same() -> None:
    one, other = methods(Client), methods(AsyncClient)
    of_the_inside = {"begin", "follow", "waiting"}
    assert set(one) - set(other) == {"close", *of_the_inside}
    assert set(other) - set(one) == {"aclose"}
    for name in ("submit", "run", "wait", "stream", "lines", "cancel"):
        assert other[name] <= one[name] | {"options", "how"}, name
