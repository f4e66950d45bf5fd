"""A directory on a file server that has gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.hanging import can_hang, hanging
from tests.remote.conftest import Workbench, wait_until


@pytest.mark.skipif(not can_hang(), reason="needs root and /dev/fuse")
@pytest.mark.parametrize("sure", [True, False])
def test_a_working_directory_that_hangs_is_the_nodes_trouble(
    quick_bench: Workbench, tmp_path: Path, sure: bool
) -> None:
    """Neither the shell that takes orders nor another job waits for it, and the job never runs elsewhere instead."""
    bench = quick_bench
    place = tmp_path / "gone"
    place.mkdir()
    with hanging(place):
        assert bench.start("1.1", "echo ran", directory=str(place), directory_must_exist=sure) is None
        assert bench.run("2.1", "exit 3") == "3"
        wait_until(lambda: bench.look("1.1").step != "", "what it hangs in")
        assert bench.stop("1.1", grace_s=1) == ("ok", "stopping")
        assert bench.exit_of("1.1") == f"fail:node:it hung while entering the working directory {place}"
        assert bench.record("1.1", "started") is None
        assert bench.output("1.1") == b""
