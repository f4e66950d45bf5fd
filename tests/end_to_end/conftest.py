"""A cluster over the lab that a worker's tests share, and clusters of one test alone."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import pytest

from tests.end_to_end.cluster import Cluster, until
from tests.lab import Lab, Settings, choose_mode

ClusterMaker = Callable[..., Cluster]


@pytest.fixture
def separate_nodes(lab: Lab) -> None:
    """On loopback all nodes are this machine, with its names, accounts, files and processes."""
    if lab.mode != "namespaces":
        pytest.skip("needs nodes in namespaces (root)")


@pytest.fixture(scope="session")
def shared_cluster(lab: Lab) -> Iterator[Cluster]:
    """Two nodes of four GPUs."""
    with closing(Cluster(lab, "shared")) as made:
        made("nodes")
        yield made


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """Free of jobs at the start; what a test leaves is cancelled."""
    yield shared_cluster
    shared_cluster.clear()


@pytest.fixture(scope="session")
def _names() -> Iterator[int]:
    return count(1)


@pytest.fixture
def make_cluster(_names: Iterator[int]) -> Iterator[ClusterMaker]:
    """`make_cluster(lab, config=...)`: another master over the same nodes, with a state of its own."""
    with ExitStack() as stack:

        def make(lab: Lab, **kwargs: str) -> Cluster:
            return stack.enter_context(closing(Cluster(lab, f"own{secrets.token_hex(4)}", **kwargs)))

        yield make


@pytest.fixture(scope="session")
def separate_lab() -> None:
    """As `separate_nodes`, for labs of one's own."""
    if choose_mode() != "namespaces":
        pytest.skip("needs nodes in namespaces (root)")


@pytest.fixture(scope="session")
def sick(swept: None, lab_prefix: Callable[[], str], separate_lab: None) -> Iterator[Cluster]:
    """Two nodes of a worker's own, to be hurt and mended. No master is started for them."""
    with Lab(Settings(ephemeral=True), lab_prefix()) as lab, closing(Cluster(lab, "sick")) as cluster:
        yield cluster


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """The socket of an ssh-agent."""
    path = str(tmp_path / "agent")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until("the agent answers", lambda: Path(path).exists())
    yield path
    process.kill()
    process.wait()
