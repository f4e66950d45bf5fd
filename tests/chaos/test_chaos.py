"""A quarter of a minute of it, a whole one when thorough, with a seed of its own: every promise holds on real nodes
while they, the network and the master break. `scripts/chaos` runs it for as long as wanted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.campaign import Campaign
from tests.chaos.plans import Settings
from tests.chaos.report import table
from tests.conftest import LabMaker
from tests.lab import choose_mode

SETTINGS = Settings(seconds=15, seed=272, nodes=2, gpus=4, jobs_per_s=0.9, faults_per_s=0.5)
THOROUGH_S = 60
PATIENCE_S = 120  # generous: the machine may be busy with other tests


@pytest.mark.timeout(300)
def test_every_promise_holds_under_random_trouble(
    make_lab: LabMaker, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    if choose_mode() != "namespaces":
        pytest.skip("needs nodes in namespaces (root)")
    settings = replace(SETTINGS, seconds=THOROUGH_S) if pytestconfig.getoption("thorough") else SETTINGS
    lab = make_lab(nodes=settings.nodes, gpus=settings.gpus)
    result = Campaign(lab, settings, tmp_path, print).run(PATIENCE_S)
    print(table(settings, result, result.settled_s))  # shown when it fails
    assert not result.violations, "\n".join(map(str, result.violations))
    assert len(result.jobs) >= 10
    assert len(result.runs) >= 5
    assert sum(result.faults.values()) >= 5
