"""What was around the older system: how it was installed, tried, and what the machines had to have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.rows import row
from tests.compat.site import REPOSITORY, Site


def told(*words: str) -> str:
    ran = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60)
    return ran.stdout + ran.stderr


@row(
    "pip install -r requirements.txt",
    "performance compared, long-running stability, network failures simulated",
)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["scripts/install", "--help"], "scripts/install [--prefix DIR]"),
        (["scripts/lab", "fault", "--help"], "usage: scripts/lab fault"),
        ([sys.executable, "-m", "tests.chaos", "--help"], "usage: "),
        ([sys.executable, "-m", "scripts.benchmarks", "--help"], "usage: "),
    ],
)
def test_scripts(words: list[str], said: str) -> None:
    assert said in told(*words)


@row("Python 3.7+", "test/run_tests.py", "test/test_torch_load.py")
def test_what_it_takes() -> None:
    assert 'requires-python = ">=3.10"' in (REPOSITORY / "pyproject.toml").read_text()
    assert "all checks, all tests: `scripts/test`" in (REPOSITORY / "scripts/test").read_text()
    subprocess.run([sys.executable, "-m", "py_compile", "samples/load_test.py"], cwd=REPOSITORY, check=True)


@row("firewall: allow port 8080 on the master, and each agent's port")
def test_port_22_of_a_node_is_all(site: Site) -> None:
    node = site.lab.nodes[0]
    node.fault("link", "shut", "8000-9000")
    try:
        words = ["--nodelist", "node001", "--gpus", 1, "--interactive", "-Q", "hostname"]
        assert site.ok("mgpu_client", "submit", *words) == "node001\n"
    finally:
        node.fault("link", "ok")


@row("the same virtual environment on all nodes")
def test_an_environment(site: Site) -> None:
    node = site.lab.nodes[0]
    node.run(
        "mkdir -p ~/venv/bin && printf '#!/bin/sh\\necho ours\\n' >~/venv/bin/python && chmod 755 ~/venv/bin/python"
    )
    path = node.run("echo ~/venv").stdout.strip()
    words = ["-Q", "--nodelist", "node001", "--gpus", 1, "--", "python"]
    assert site.ok("mgpu_srun", *words, env={"VIRTUAL_ENV": path}) == "ours\n"


@row("a shared file system for the scripts")
def test_the_tree_goes_along(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("from here\n")
    assert site.ok("mgpu_srun", "-Q", f"--ship={tmp_path}", "--gpus", 1, "--", "cat", "data") == "from here\n"


@row("mgpu_scheduler_server, mgpu_master_server, mgpu_node_agent")
@pytest.mark.parametrize("name", ["scheduler_server", "master_server", "node_agent"])
def test_names_of_drafts(site: Site, name: str) -> None:
    assert f"mgpu_{name}" not in (REPOSITORY / "pyproject.toml").read_text()
    assert site.ok("mgpu_master", "--help").startswith("Usage: ")
