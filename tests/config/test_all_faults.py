# ruff: noqa: E501  (the table reads best with a case a line)
"""One round tells all: no fault of a configuration hides another, and none is told as two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpu.config.load import load
from mgpu.core.errors import ConfigError

MAIN = """\
cluster: {name: lab}
master: {idle_exit: 10m}
inventory: inv
networking: {timeout: 60, login_timeout: 30}
scheduling: {default_policy: spread}
retries: {max: 5}
health: {unhealthy_after: 3}
output: {max_size: 10G}
external: {policy: avoid}
defaults:
  ssh: {user: train, port: 22}
  partition: train
  devices: [0, 1]
  env: {A: "1"}
partitions:
  train: {default_time: 1-0, max_time: 7-0}
  test: {priority: 1, allow_users: [ann]}
nodes:
  - node_id: head
    connection: local
    gpu_count: 2
    env: {B: "1"}
  - node_id: "gpu[001-004]"
    hostname: "gpu[001-004].example.org"
    ip: "10.0.0.[1-4]"
    partition: [train, test]
"""
MORE = """\
defaults: {gpu_type: H100, network: {interface: ib0}}
nodes:
  - node_id: h1
    devices: [0, 1]
    gpu_count: 8
  - node_id: "h[2-3]"
    ip: "10.0.1.[2-3]"
    partition: test
    ssh: {port: 2222, proxy_jump: login}
  - node_id: h4
    workdir: /scratch
    setup: "true"
"""
SEED = """\
nodes:
  - node_id: "node001"
    hostname: "gpu101.example.com"
    ip: "192.168.1.10"
    port: 8081
    gpu_count: 8
    status: idle

  - id: "node002"
    host: "gpu102.example.com"
    ip: "192.168.1.11"
    port: 8081
    gpus: 8
"""
FILES = {"c.yaml": MAIN, "inv/a.yaml": MORE, "inv/b.yaml": SEED}
ALL_NAMES = "letters, digits and . _ - only, at most 63"


class Wrong(NamedTuple):
    """A line that stands in place of line `number`, and the one fault that this makes; `at` if it is told elsewhere."""

    file: str
    number: int
    line: str
    column: int
    fault: str
    at: str = ""

    def told(self) -> str:
        return f"{self.at or f'{self.file}:{self.number}:{self.column}'}: {self.fault}"


# Each in a line of its own, so that any of them can be there together.
WRONG = [
    Wrong("c.yaml", 1, "cluster: {nmae: lab}", 11, "cluster.nmae: unknown key 'nmae' - did you mean 'name'?"),
    Wrong("c.yaml", 2, "master: 10m", 9, "master: must be a mapping (key: value)"),
    Wrong("c.yaml", 4, "networking: {timeout: 60, timeout: 30}", 27, "networking.timeout: given twice, first in line 4"),
    Wrong("c.yaml", 5, "scheduling: {default_policy: sperad}", 30, "scheduling.default_policy: must be fill_first, spread or package.module:function, not 'sperad' - did you mean 'spread'?"),
    Wrong("c.yaml", 6, "retries: {max: 05}", 16, "retries.max: must be a whole number, without leading zeros, not '05'"),
    Wrong("c.yaml", 7, "health: {unhealthy_after: 0}", 27, "health.unhealthy_after: must be at least 1, not 0"),
    Wrong("c.yaml", 8, "ouput: {max_size: 10G}", 1, "ouput: unknown key 'ouput' - did you mean 'output'?"),
    Wrong("c.yaml", 9, "external: {memory_threshold_mib: !!int 3}", 34, "external.memory_threshold_mib: a tag (!!int) has no use here: remove it"),
    Wrong("c.yaml", 11, "  ssh: {user: train, port: 0}", 28, "defaults.ssh.port: must be at least 1, not 0"),
    Wrong("c.yaml", 12, "  partition: tarin", 14, "defaults.partition: 'tarin' is not among the partitions of c.yaml - did you mean 'train'?"),
    Wrong("c.yaml", 13, "  devices: [0, 0]", 12, "defaults.devices: device 0 is given twice"),
    Wrong("c.yaml", 14, "  env: {A-B: x}", 9, "defaults.env.A-B: 'A-B' is no name of an environment variable"),
    Wrong("c.yaml", 16, "  train: {default_time: 8-0, max_time: 7-0}", 10, "partitions.train: default_time is more than max_time"),
    Wrong("c.yaml", 17, "  test: {priority: 1, allow_users: []}", 36, "partitions.test.allow_users: must not be empty: leave it out instead"),
    Wrong("c.yaml", 19, "  - node_id: h4", 14, "nodes.2.node_id: 'h4' is given twice, first at c.yaml:19:14", "inv/a.yaml:10:14"),
    Wrong("c.yaml", 20, "    connection: locale", 17, "nodes.0.connection: must be 'ssh' or 'local', not 'locale' - did you mean 'local'?"),
    Wrong("c.yaml", 22, "    env: {B: }", 14, 'nodes.0.env.B: has no value: write "" for an empty one'),
    Wrong("c.yaml", 24,
        '    hostname: "gpu[001-003].example.org"', 15, "nodes.1.hostname: 'gpu[001-003].example.org' stands for 3 names, the node_id beside it for 4 names"),
    Wrong("c.yaml", 25, '    ip: "10.0.0.[254-257]"', 9, "nodes.1.ip: '10.0.0.256' (and 1 more) is no IP address: a name belongs into hostname"),
    Wrong("c.yaml", 26, "    partition: [train, tets]", 16, "nodes.1.partition: 'tets' is not among the partitions of c.yaml - did you mean 'test'?"),
    Wrong("inv/a.yaml", 1, "defaults: {gpu_type: [H100], network: {interface: ib0}}", 22, "defaults.gpu_type: must be text"),
    Wrong("inv/a.yaml", 3, "  - hostname: h1", 5, "nodes.0.node_id: is missing"),
    Wrong("inv/a.yaml", 4, "    devices: [0, 9]", 14, "nodes.0.devices: device 9 is not there: gpu_count 8, and they start at 0"),
    Wrong("inv/a.yaml", 6, "  - node_id: h2,-y", 14, f"nodes.1.node_id: '-y' is no name: {ALL_NAMES}"),
    Wrong("inv/a.yaml", 8, "    partiton: test", 5, "nodes.1.partiton: unknown key 'partiton' - did you mean 'partition'?"),
    Wrong("inv/a.yaml", 9, "    ssh: {port: 2222, proxy_jump: -oX}", 35, "nodes.1.ssh.proxy_jump: '-oX' is no hop: write it like host or user@host:port"),
    Wrong("inv/a.yaml", 11, "    workdir: scratch", 14, "nodes.2.workdir: must be a path on the node that starts with / or ~/, not 'scratch'"),
    Wrong("inv/a.yaml", 12, '    user: "true"', 5, "nodes.2.user: unknown key 'user' - did you mean 'ssh.user'?"),
    Wrong("inv/b.yaml", 3, '    hostname: "-v"', 15, "nodes.0.hostname: '-v' starts with a dash"),
    Wrong("inv/b.yaml", 6, "    gpus: eight", 11, "nodes.0.gpu_count: must be a whole number, not 'eight'"),
    Wrong("inv/b.yaml", 9, '  - id: "node001"', 9, "nodes.1.node_id: 'node001' is given twice, first at inv/b.yaml:2:14"),
    Wrong("inv/b.yaml", 12, "    memory: 80G", 5, "nodes.1.memory: unknown key 'memory' - did you mean 'gpu_memory'?"),
]  # fmt: skip


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(mode=0o755, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)


def faults(files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        write(name, text)
    try:
        load(Path("c.yaml"))
    except ConfigError as error:
        return error.faults
    return []


def with_wrong(wrong: tuple[Wrong, ...]) -> list[str]:
    lines = {name: text.splitlines() for name, text in FILES.items()}
    for one in wrong:
        lines[one.file][one.number - 1] = one.line
    return faults({name: "\n".join(text) + "\n" for name, text in lines.items()})


def place(fault: str) -> tuple[str, int, int]:
    file, line, column, _ = fault.split(":", 3)
    return file, int(line), int(column)


def in_order(wrong: tuple[Wrong, ...]) -> list[str]:
    return sorted((one.told() for one in wrong), key=place)


@pytest.fixture(scope="module", autouse=True)
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("faults"))
        yield


def test_without_them_it_loads() -> None:
    assert with_wrong(()) == []


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.file}:{wrong.number}")
def test_each_alone_is_one_line(wrong: Wrong) -> None:
    assert with_wrong((wrong,)) == [wrong.told()]


def test_all_together_are_all_their_lines() -> None:
    assert with_wrong(tuple(WRONG)) == in_order(tuple(WRONG))


@pytest.mark.parametrize("first", WRONG, ids=lambda wrong: f"{wrong.file}:{wrong.number}")
def test_any_two_are_both_told(first: Wrong) -> None:
    for second in WRONG[WRONG.index(first) + 1 :]:
        assert with_wrong((first, second)) == in_order((first, second))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from(WRONG), unique=True).map(tuple))
def test_any_of_them_make_the_union(wrong: tuple[Wrong, ...]) -> None:
    assert with_wrong(wrong) == in_order(wrong)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        # --- what was read well is checked
        ("nodes: [{node_id: a}, {node_id: a, gpu_count: x}]\n", ["1:33: nodes.1.node_id: 'a' is given twice, first at c.yaml:1:19", "1:47: nodes.1.gpu_count: must be a whole number, not 'x'"]),
        ("nodes: [{node_id: a}, {nodeid: a}]\n", ["1:24: nodes.1.nodeid: unknown key 'nodeid' - did you mean 'node_id'?", "1:32: nodes.1.node_id: 'a' is given twice, first at c.yaml:1:19"]),
        ("nodes: [{node_id: 'a,-,b'}, {node_id: b}]\n", [f"1:19: nodes.0.node_id: '-' is no name: {ALL_NAMES}", "1:39: nodes.1.node_id: 'b' is given twice, first at c.yaml:1:19"]),
        ("netwroking: {timeout: x}\n", ["1:1: netwroking: unknown key 'netwroking' - did you mean 'networking'?", "1:23: networking.timeout: 'x' is no time: write it like 30, 30s, 10m, 2h, 1d or 1:30:00"]),
        ("partitions: {p: {defualt_time: 2, max_time: 1, x: 1}}\n", ["1:17: partitions.p: default_time is more than max_time", "1:18: partitions.p.defualt_time: unknown key 'defualt_time' - did you mean 'default_time'?", "1:48: partitions.p.x: unknown key 'x'"]),
        ("nodes: [{node_id: a, partition: 'x y, tarin'}]\npartitions: {train: {priority: z}}\n", ["1:33: nodes.0.partition: 'tarin' is not among the partitions of c.yaml - did you mean 'train'?", f"1:33: nodes.0.partition.0: 'x y' is no name: {ALL_NAMES}, a letter or digit first", "2:32: partitions.train.priority: must be a whole number, not 'z'"]),
        ("nodes: [{node_id: a, devices: [x, 1, 1, 7, y], gpu_count: 4}]\n", ["1:31: nodes.0.devices: device 1 is given twice", "1:31: nodes.0.devices: device 7 is not there: gpu_count 4, and they start at 0", "1:32: nodes.0.devices.0: must be a whole number, not 'x'", "1:44: nodes.0.devices.4: must be a whole number, not 'y'"]),
        ("nodes: [{node_id: a, env: {1: x, 2: , A: [b]}}]\n", ["1:28: nodes.0.env.1: '1' is no name of an environment variable", "1:34: nodes.0.env.2: '2' is no name of an environment variable", '1:37: nodes.0.env.2: has no value: write "" for an empty one', "1:42: nodes.0.env.A: must be text"]),
        ("nodes: [{node_id: a}]\nnodes: [{node_id: a, gpus: x}]\n", ["2:1: nodes: given twice, first in line 1", "2:19: nodes.1.node_id: 'a' is given twice, first at c.yaml:1:19", "2:28: nodes.1.gpu_count: must be a whole number, not 'x'"]),
        ("retries:\nretries: {max: x}\n", ["2:1: retries: given twice, first in line 1", "2:16: retries.max: must be a whole number, not 'x'"]),
        ("master: {idle_exit: 1}\nmaster: {idle_exit: 2, mdoe: personal}\n", ["2:1: master: given twice, first in line 1", "2:24: master.mdoe: unknown key 'mdoe' - did you mean 'mode'?"]),
        ("inventory: ~nobody-of-that-name/x\ncluster: {nmae: x}\n", ["1:12: inventory: '~nobody-of-that-name/x': there is no such user", "2:11: cluster.nmae: unknown key 'nmae' - did you mean 'name'?"]),
        ('inventory: "a\\0b"\n', ["1:12: inventory: must be a path: a NUL byte cannot be part of one"]),
        # --- not YAML: what stands above is checked, as far as it is whole
        ("cluster: {nmae: x}\nnodes:\n  - node_id: -a\n  - hostname: b\n    devices: [0\n  - node_id: c\nretries: {max: x}\n", ["1:11: cluster.nmae: unknown key 'nmae' - did you mean 'name'?", f"3:14: nodes.0.node_id: '-a' is no name: {ALL_NAMES}", "6:12: not YAML: while parsing a flow sequence (line 5): did not find expected ',' or ']'"]),
        ('retries: {max: x}\nnodes:\n- devices:\n  - 0\n   bad: 1\n- node_id: "a\n', ["1:16: retries.max: must be a whole number, not 'x'", "5:7: not YAML: mapping values are not allowed in this context"]),
        ('retries: {max: x}\ncluster:\n  name: "lab\nmaster:\n  mode: "personal"\n', ["1:16: retries.max: must be a whole number, not 'x'", "5:10: not YAML: while parsing a block mapping (line 3): did not find expected key"]),
        ('retries: {max: x}\ncluster:\n  name: "lab\nmaster:\n  x: 1\n', ["1:16: retries.max: must be a whole number, not 'x'", "6:1: not YAML: while scanning a quoted scalar (line 3): found unexpected end of stream"]),
        ("nodes: [{node_id: a, partition: b}]\npartitions:\n  b: {}\n  c: {\n", ["5:1: not YAML: while parsing a flow node: did not find expected node content"]),
        # --- a fault of the defaults is one, however many nodes they serve
        ("defaults: {devices: [0, 5], gpu_count: 4}\nnodes: [{node_id: 'n[1-3]'}, {node_id: b}]\n", ["1:21: defaults.devices: device 5 is not there: gpu_count 4, and they start at 0"]),
        ("defaults: {devices: [0, 5]}\nnodes: [{node_id: a}, {node_id: b, gpu_count: 4}]\n", ["2:47: nodes.1.gpu_count: device 5 is not there: gpu_count 4, and they start at 0"]),
        ("defaults: {network: {address: '10.0.0.[1-2]'}}\nnodes: [{node_id: a}, {node_id: 'n[1-2]'}, {node_id: b}]\n", ["1:31: defaults.network.address: '10.0.0.[1-2]' stands for 2 names, the node_id beside it for 1 name"]),
        ("nodes: [{node_id: 'n[1-100]'}, {node_id: 'n[08-10,20]'}, {node_id: 'n[90-101]'}]\n", ["1:42: nodes.1.node_id: 'n[10,20]' are given twice, first at c.yaml:1:19", "1:68: nodes.2.node_id: 'n[90-100]' are given twice, first at c.yaml:1:19"]),
        # --- nothing that merely follows
        ("defaults: {gpu_count: x}\nnodes: [{node_id: a, devices: [9]}]\n", ["1:23: defaults.gpu_count: must be a whole number, not 'x'"]),
        ("defaults: {gpu_count: 4}\nnodes: [{node_id: a, devices: [9], gpu_count: x}]\n", ["2:47: nodes.0.gpu_count: must be a whole number, not 'x'"]),
        ("defaults: {devices: [9]}\nnodes: [{node_id: a, devices: [x], gpu_count: 2}]\n", ["2:32: nodes.0.devices.0: must be a whole number, not 'x'"]),
        ("nodes: [{node_id: a, node_id: b, ip: 10.0.0.1}, {node_id: a}]\n", ["1:22: nodes.0.node_id: given twice, first in line 1"]),
        ("nodes: [{node_id: a, devices: [1], devices: [1], gpu_count: 1}]\n", ["1:36: nodes.0.devices: given twice, first in line 1"]),
        ("nodes: [{node_id: 'n[1-', hostname: 'h[1-2]', ip: x}]\n", ["1:19: nodes.0.node_id: hostlist 'n[1-': a bracket without its partner; write it like gpu[001-004,007]", "1:51: nodes.0.ip: 'x' is no IP address: a name belongs into hostname"]),
        ("nodes: [{node_id: [a], hostname: 'h[1-2]'}]\n", ["1:19: nodes.0.node_id: must be text"]),
        ("nodes: [{node_id: a, partition: x}]\npartitions: [x]\n", ["2:13: partitions: must be a mapping (key: value)"]),
        ("nodes: [{name: a, node_id: b, hostname: 'h[1-2]'}]\n", ["1:10: nodes.0.name: is an older word for node_id, which is given too: remove one"]),
        ("partitions: {p: {default_time: 2, max_time: x}}\n", ["1:45: partitions.p.max_time: 'x' is no time: write it like 30 (minutes), 1:30:00, 7-0, 2h or none"]),
        ("partitions: {p: {allow_users: ['a b', ' ']}}\n", ["1:32: partitions.p.allow_users.0: 'a b' is no login name", "1:39: partitions.p.allow_users.1: ' ' is no login name"]),
        ("partitions: {'a b': {priority: x}}\n", [f"1:14: partitions.a b: 'a b' is no name: {ALL_NAMES}, a letter or digit first", "1:32: partitions.a b.priority: must be a whole number, not 'x'"]),
    ],
)  # fmt: skip
def test_what_is_told_beside_a_fault(text: str, lines: list[str]) -> None:
    assert faults({"c.yaml": text}) == [f"c.yaml:{line}" for line in lines]


def test_a_broken_defaults_of_a_file_leaves_the_question_open() -> None:
    """The count of the main file does not hold for nodes whose own file says something that could not be read."""
    write("inv/a.yaml", "defaults: 4\nnodes: [{node_id: a, devices: [9]}]\n")
    write("inv/b.yaml", "nodes: [{node_id: b, devices: [9]}]\n")
    assert faults({"c.yaml": "inventory: inv\ndefaults: {gpu_count: 2}\n"}) == [
        "inv/a.yaml:1:11: defaults: must be a mapping (key: value)",
        "inv/b.yaml:1:31: nodes.0.devices: device 9 is not there: gpu_count 2, and they start at 0",
    ]


def test_a_main_file_that_breaks_off_still_names_its_inventory() -> None:
    write("inv/a.yaml", "nodes: [{node_id: a, gpus: x}]\n")
    write("inv/b.yaml", "nodes: [{node_id: a}]\n")
    assert faults({"c.yaml": "inventory: inv\nnodes: [\n"}) == [
        "c.yaml:3:1: not YAML: while parsing a flow node: did not find expected node content",
        "inv/a.yaml:1:28: nodes.0.gpu_count: must be a whole number, not 'x'",
        "inv/b.yaml:1:19: nodes.0.node_id: 'a' is given twice, first at inv/a.yaml:1:19",
    ]


def test_the_main_file_in_its_own_inventory_is_not_read_twice() -> None:
    write("more.yaml", "nodes: [{node_id: b}]\n")
    write("c.yaml", "inventory: .\nnodes: [{node_id: a}]\n")
    assert [node.name for node in load(Path("c.yaml")).nodes] == ["a", "b"]
