"""A glance and the whole loading agree on every text, or the glance leaves it to the loading."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mgpu.client.glance import state_dir_in
from mgpu.config.load import load
from mgpu.core.errors import ConfigError

UNDERSTOOD = [
    "master: {state_dir: /var/lib/mgpu}\n",
    "cluster: {name: lab}\nmaster: {mode: personal, state_dir: state, idle_exit: 10m}\n",
    'cluster: {name: "my lab"}  # the lab\'s\n\nmaster: { state_dir: "/srv/our state" }\n',
    "# state_dir: elsewhere\nmaster:\n  mode: personal\n\n  # where\n  state_dir: ~/queue   # here\n  idle_exit: 1h\n",
    "master:\n    state_dir: '../state'\nretries: {max: 2}\n",
    "---\nnodes:\n  - {node_id: n1, ip: 10.0.0.1}\nmaster:\n  state_dir: ./a.b-c+d@e\n",
    "master: {state_dir: yes}\n",
    "master: {state_dir: 010}\n",
    "master: {state_dir: /a}\nnodes:\n- {node_id: n1, ip: 10.0.0.1}\n",
]
LEFT_ALONE = [
    "cluster: {name: ' # state_dir'}\n",
    "master: {name: ' # ', state_dir: /a}\n",
    "master: {state_dir: ~}\n",
    "master: {state_dir: null}\n",
    "master: {state_dir: }\n",
    "master:\n  state_dir:\n    /a\n",
    "master:\n  state_dir: /a\n    /b\n",
    "master:\n  state_dir: /a b\n",
    'master: {state_dir: "/a\\tb"}\n',
    "master: {state_dir: '/it''s'}\n",
    "master: {state_dir: /a, state_dir: /b}\n",
    "master: {mode: personal}\ncluster:\n  state_dir: /a\n",
    "cluster:\n  name: lab\n  master: {state_dir: /a}\n",
    "master:\n  mode:\n    state_dir: /a\n",
    "master:\n  other:\n  state_dir: /a\n",
    'cluster: {name: "open\nmaster: {state_dir: /a}\n"}\n',
    "cluster: {name: [\nmaster: {state_dir: /a}\n]}\n",
    "cluster:\n  name: |\n   x\nmaster: {state_dir: /a}\n",
    "base: &base /a\nmaster: {state_dir: *base}\n",
    "? master\n: {state_dir: /a}\n",
    "master: !x {state_dir: /a}\n",
    "master: {state_dir: /a}\nmaster: {mode: personal}\n",
    "{master: {state_dir: /a}}\n",
    "master: {mode: personal, x: state_dir: /a}\n",
    "master:\n\tstate_dir: /a\n",
    "master: {x-state_dir: /a}\n",
    "master:\n  name: a\n   state_dir: /a\n",
]


@pytest.mark.parametrize("text", UNDERSTOOD)
def test_plain_ways_are_understood(text: str, tmp_path: Path) -> None:
    config = tmp_path / "cluster_config.yaml"
    config.write_text(text)
    config.chmod(0o600)
    glanced = state_dir_in(text)
    assert glanced is not None
    loaded = load(config).state_dir
    assert loaded is not None
    assert os.path.normpath(tmp_path / Path(glanced).expanduser()) == os.path.normpath(loaded)


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_all_else_is_left_to_the_parser(text: str) -> None:
    assert state_dir_in(text) is None


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_nothing_is_understood_only_by_the_glance(text: str, tmp_path: Path) -> None:
    """With a plain line after any other: what is understood of it all is what loading says."""
    config = tmp_path / "cluster_config.yaml"
    lines = text.splitlines(keepends=True)
    for cut in range(len(lines) + 1):
        for tail in ("master: {state_dir: /tail}\n", "  state_dir: /tail\n"):
            mixed = "".join(lines[:cut]) + tail + "".join(lines[cut:])
            glanced = state_dir_in(mixed)
            if glanced is None:
                continue
            config.write_text(mixed)
            config.chmod(0o600)
            try:
                loaded = load(config).state_dir
            except ConfigError:
                continue  # refused by the master that is started with it
            assert loaded == (Path(glanced) if glanced else None)


def test_a_comment_says_nothing() -> None:
    assert state_dir_in("# master: {state_dir: /a}\nnodes:\n- {node_id: n1}  # state_dir\n") == ""
