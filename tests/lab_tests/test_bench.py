"""scripts/bench: that it measures, says what is met, and leaves nothing behind. What it measures is in no test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.benchmarks import beside, soak
from scripts.benchmarks.measure import NEW_SSH, Row
from tests.lab.lab import all_labs

ROOT = Path(__file__).parents[2]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "scripts.benchmarks", *words]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=110, check=False)


@pytest.mark.lab
def test_one_measure_and_its_goal() -> None:
    done = bench("--quick", "submit")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| start of `mgpu submit`")]
    in_full, beside_others = rows
    assert in_full[1].endswith(" ms") and in_full[4].startswith("150: ")
    assert beside_others[1] == in_full[1]
    assert "of 1 goals are met." in done.stdout
    assert not [name for name in all_labs() if name.startswith("bench-") and not _held(name)]


def _held(name: str) -> bool:
    """By a benchmark that still runs: its number stands in the name."""
    return Path(f"/proc/{name.split('-')[1]}").exists()


def test_a_measure_that_is_not_there_is_told() -> None:
    done = bench("speed")
    assert done.returncode == 2
    assert "no measure 'speed'; there are planner, " in done.stderr


def test_what_a_goal_is_met_by() -> None:
    assert Row("", [0.05, 0.2, 0.06], goal=100.0).verdict == "100: met"
    assert Row("", [0.2], goal=100.0).verdict == "100: missed"
    assert Row("", [47.0], "jobs/s", 1.0, 100.0, least=True).verdict == "at least 100: missed"
    assert Row("", [0.2]).verdict == ""


def test_goals_stand_beside_what_others_need() -> None:
    rows = [
        Row("srun", [0.06], goal=100.0, topic="true"),
        Row("ssh", [0.25], topic="true", who=NEW_SSH),
        Row("a pass", [0.002], goal=1.0),
        Row("no goal", [1.0]),
    ]
    assert beside.table(rows)[1:] == [
        f"| what | mgpu | goal | {NEW_SSH} |",
        "| --- | --- | --- | --- |",
        "| srun | 60.0 ms | 100: met | 250 ms |",
        "| a pass | 2.00 ms | 1: missed |  |",
        "",
        "1 of 2 goals are met.",
    ]
    assert beside.table(rows[-1:]) == []


def test_what_grows_in_an_hour_counts_from_the_second_quarter() -> None:
    samples = [
        soak.Sample(minute, 100.0 + minute / 10 * (minute <= 30), 16, 13, 1.0 + minute, 30 * minute, 0.03)
        for minute in range(1, 61)
    ]
    rows = {row.what: row for row in soak.summary(samples, 1.0)}
    assert rows["memory of the master"].values[29] == 103.0
    assert rows["growth of the master's memory, in an hour"].verdict == "2: met"  # it has come down since
    assert soak.summary([sample for sample in samples if sample.minute <= 30], 0.5)[1].verdict == "2: missed"
    assert round(rows["the database, for each job"].middle) == 34  # KiB
