"""The master and the files that were built of it, by their older names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

from tests.api.elsewhere import free_port
from tests.compat.rows import row
from tests.compat.site import REPOSITORY, Site
from tests.end_to_end.cluster import until
from tests.lab import Lab


@pytest.fixture
def alone(old_lab: Lab, tmp_path: Path) -> Iterator[Site]:
    """A master that has not begun, on a machine without any configuration."""
    with closing(Site(old_lab, tmp_path.name, "")) as made:
        yield made


def listens(site: Site) -> str:
    return str(json.loads(site.ok("mgpu", "status", "--json")).get("listens", ""))


@row("mgpu_master --host HOST --port PORT", "mgpu_client --host HOST --port PORT")
def test_master(site: Site) -> None:
    assert listens(site) == f"https://0.0.0.0:{site.port}"
    first = site.log().splitlines()[0]
    assert first.startswith("mgpu: clients elsewhere: mgpu --master https://")
    at = ("--host", "127.0.0.1", "--port", site.port)
    assert site.ok("mgpu_client", *at, "submit", "--interactive", "-Q", "--gpus", 1, "echo here") == "here\n"
    node = site.lab.nodes[0]
    away = ("--host", site.head(node), "--port", site.port)
    assert site.on(node, "mgpu_client", *away, "submit", "--interactive", "-Q", "echo away").stdout == "away\n"
    assert "node002" in site.on(node, "mgpu_queue", *away).stdout
    stranger = site.run("mgpu_client", "--host", site.head(node), "--port", site.port, "queue")
    assert (stranger.code, "there is no token for https://" in stranger.err) == (77, True)


@row("mgpu_master", "mgpu_master --verbose", "mgpu_server.py")
def test_master_on_this_machine_alone(alone: Site) -> None:
    """As nobody else may have port 8080 just now, it is asked for another."""
    help_text = alone.ok("mgpu_server", "--help")
    assert "127.0.0.1:8080" in help_text
    port = free_port()
    alone.begin("--verbose", "--port", port)
    assert listens(alone) == f"http://127.0.0.1:{port}"
    assert "clients on this machine need nothing" in alone.log()
    alone.ok("mgpu_client", "submit", "--gpus", 0, "true")
    until("the log", lambda: "ended: COMPLETED" in alone.log())
    second = alone.run("mgpu_master", "--port", port)
    assert (second.code, "another master holds" in second.err) == (69, True)


@row("Server won't start: is port 8080 available?")
def test_a_port_that_is_taken(alone: Site, site: Site) -> None:
    alone.begin("--host", "0.0.0.0", "--port", site.port)
    assert listens(alone).startswith(f"not at https://0.0.0.0:{site.port}: Address already in use")
    assert alone.ok("mgpu_client", "submit", "--interactive", "-Q", "--gpus", 0, "echo on") == "on\n"


@row(
    "mgpu_simple_master.py, mgpu_simple_client.py, mgpu_simple_node.py",
    "mgpu_client.py, mgpu_node.py, mgpu_queue.py, mgpu_cancel.py, mgpu_srun.py",
    "mgpu_master_new.py, mgpu_node_new.py, mgpu_client_new.py",
)
def test_each_name_is_installed(site: Site) -> None:
    text = (REPOSITORY / "pyproject.toml").read_text()
    scripts = dict(re.findall(r'^(mgpu_\w+) = "([\w.]+:\w+)"$', text, re.M))
    names = ("master", "server", "node", "client", "queue", "cancel", "srun")
    for name in names:
        module, _, function = scripts[f"mgpu_{name}"].partition(":")
        assert callable(getattr(import_module(module), function))
        told = site.ok(f"mgpu_{name}", "--help")
        assert told.startswith("Usage: ") and "xample" in told


@row("dist/mgpu_master, mgpu_node, mgpu_client, mgpu_queue, mgpu_cancel, mgpu_srun")
def test_single_files(tmp_path: Path) -> None:
    """The master's own: tests/packaging."""
    build = [sys.executable, "-m", "scripts.packing", "--clients", "--output", str(tmp_path)]
    subprocess.run(build, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
    for name in ("mgpu_node", "mgpu_client", "mgpu_queue", "mgpu_cancel", "mgpu_srun"):
        ran = subprocess.run([tmp_path / name, "--version"], capture_output=True, text=True, check=True, cwd="/")
        assert ran.stdout.startswith("mgpu ")
