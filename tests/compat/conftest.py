"""A site that a worker's tests share: two nodes that registered themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.cli.conftest import mgpu
from tests.compat.site import Site
from tests.lab import Lab, Settings, choose_mode

__all__ = ["mgpu"]


@pytest.fixture(scope="session")
def old_lab(swept: None, lab_prefix: Callable[[], str]) -> Iterator[Lab]:
    """Its nodes are others' machines: with addresses, host keys and names of their own."""
    if choose_mode() != "namespaces":
        pytest.skip("needs nodes in namespaces (root)")
    with Lab(Settings(ephemeral=True, gpus=(2, 4)), lab_prefix()) as made:
        yield made


@pytest.fixture(scope="session")
def shared_site(old_lab: Lab) -> Iterator[Site]:
    with closing(Site(old_lab, "shared")) as made:
        made.begin()
        for node in old_lab.nodes:
            made.pass_for(node)
            made.register(node)
        yield made


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """Free of jobs at the start; what a test leaves is cancelled."""
    yield shared_site
    shared_site.clear()
