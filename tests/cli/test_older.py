"""The older names, and the defaults that went with them."""

from __future__ import annotations

import pytest

from mgpu.cli.older.defaults import with_defaults

ALL = ["--session-timeout=7200", "--connection-timeout=30", "--max-wait-time=300", "--max-consecutive-timeouts=30"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["srun", "-G", "1", "python"], ["srun", *ALL, "-G", "1", "python"]),
        (["submit", "--interactive", "x"], ["submit", *ALL, "--interactive", "x"]),
        (["--config", "submit", "--json", "sbatch", "x"], ["--config", "submit", "--json", "sbatch", *ALL, "x"]),
        (["--host", "head", "--port", "80", "srun", "x"], ["--host", "head", "--port", "80", "srun", *ALL, "x"]),
        (["queue"], ["queue"]),
        (["cancel", "srun"], ["cancel", "srun"]),
        (["--help"], ["--help"]),
        ([], []),
    ],
)
def test_where_they_hold(typed: list[str], meant: list[str]) -> None:
    assert with_defaults(typed, {}, {}) == meant


def test_what_the_user_says_elsewhere_counts_more() -> None:
    variables = {"MGPU_SESSION_TIMEOUT": "60"}
    assert with_defaults(["srun", "x"], variables, {"max_wait_time": "1"}) == ["srun", ALL[1], ALL[3], "x"]
