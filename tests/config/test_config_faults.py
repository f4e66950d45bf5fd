# ruff: noqa: E501  (the table reads best with a case a line)
"""Files that do not load: the exact lines that say why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mgpu.config.load import load
from mgpu.core.errors import ConfigError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str | bytes) -> Path:
    path = Path(name)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(0o644)
    return path


def faults(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(write("c.yaml", text))
    return caught.value.faults


NAME_RULE = "letters, digits and . _ - only, at most 63"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        # --- not YAML
        ("a: [1\n", ["2:1: not YAML: while parsing a flow sequence (line 1): did not find expected ',' or ']'"]),
        ("cluster:\n\tname: x\n", ["2:1: not YAML: a tab cannot indent: take blanks"]),
        ("a: *x\n", ["1:4: not YAML: found undefined alias"]),
        ("{}\n---\n{}\n", ["2:1: not YAML: expected a single document in the stream (line 1): but found another document"]),
        (b"cluster:\n  name: \xff\n", ["2:1: not UTF-8 text"]),
        ("- a\n", ["1:1: must be a mapping (key: value)"]),
        # --- YAML's traps
        ("cluster: {name: a}\ncluster: {name: b}\n", ["2:1: cluster: given twice, first in line 1"]),
        ("nodes:\n  - node_id: a\n    node_id: b\n", ["3:5: nodes.0.node_id: given twice, first in line 2"]),
        ("nodes: [{node_id: a, gpu_count: 010}]\n", ["1:33: nodes.0.gpu_count: must be a whole number, without leading zeros, not '010'"]),
        ("nodes: [{node_id: a, gpu_count: yes}]\n", ["1:33: nodes.0.gpu_count: must be a whole number, not 'yes'"]),
        ("nodes: [{node_id: a, gpu_count: 1_0}]\n", ["1:33: nodes.0.gpu_count: must be a whole number, not '1_0'"]),
        ("retries: {max: !!int 3}\n", ["1:16: retries.max: a tag (!!int) has no use here: remove it"]),
        ("cluster: &c {name: *c}\n", ["1:10: cluster.name: an alias inside of what it stands for"]),
        ("? [a]\n: b\n", ["1:3: a key must be a single word"]),
        # --- keys
        ("networking: {master_ports: 29500}\n", ["1:28: networking.master_ports: must be ports like 20000-29999, from 1024 to 65535, not '29500'"]),
        ("networking: {master_ports: 80-90}\n", ["1:28: networking.master_ports: must be ports like 20000-29999, from 1024 to 65535, not '80-90'"]),
        ("networking: {master_ports: 30000-20000}\n", ["1:28: networking.master_ports: must be ports like 20000-29999, from 1024 to 65535, not '30000-20000'"]),
        ("networking: {master_ports: 20000-70000}\n", ["1:28: networking.master_ports: must be ports like 20000-29999, from 1024 to 65535, not '20000-70000'"]),
        ("netwroking: {}\n", ["1:1: netwroking: unknown key 'netwroking' - did you mean 'networking'?"]),
        ("netwroking:\n", ["1:1: netwroking: unknown key 'netwroking' - did you mean 'networking'?"]),
        ("defaults: {ssh: {prot: 1}}\n", ["1:18: defaults.ssh.prot: unknown key 'prot' - did you mean 'port'?"]),
        ("partitions: {p: {maxtime: 1}}\n", ["1:18: partitions.p.maxtime: unknown key 'maxtime' - did you mean 'max_time'?"]),
        ("partitions: {'a b': {}}\n", [f"1:14: partitions.a b: 'a b' is no name: {NAME_RULE}, a letter or digit first"]),
        ("nodes: [{hostname: x}]\n", ["1:9: nodes.0.node_id: is missing"]),
        ("nodes: {a: {}}\n", ["1:8: nodes: must be a list: one '- node_id: ...' for each node"]),
        ("nodes: [a]\n", ["1:9: nodes.0: must be a mapping (key: value)"]),
        ("cluster: lab\n", ["1:10: cluster: must be a mapping (key: value)"]),
        ("cluster: {name: [a]}\n", ["1:17: cluster.name: must be text"]),
        # --- values
        ("master: {mode: shared}\n", ["1:9: master: mode shared needs a state_dir that all can enter, and in no home: /var/lib/mgpu"]),
        ("master: {idle_exit: soon}\n", ["1:21: master.idle_exit: 'soon' is no time: write it like 30, 30s, 10m, 2h, 1d or 1:30:00"]),
        ("networking: {timeout: 0}\n", ["1:23: networking.timeout: must be more than 0, not 0"]),
        ("networking: {timeout: [1]}\n", ["1:23: networking.timeout: must be a time"]),
        ("retries: {max: -1}\n", ["1:16: retries.max: must be at least 0, not -1"]),
        ("health: {unhealthy_after: 0}\n", ["1:27: health.unhealthy_after: must be at least 1, not 0"]),
        ("external: {policy: avod}\n", ["1:20: external.policy: must be 'avoid' or 'ignore', not 'avod' - did you mean 'avoid'?"]),
        ("scheduling: {default_policy: custom}\n", ["1:30: scheduling.default_policy: 'custom' is no policy by itself: name your function as package.module:function"]),
        ("scheduling: {default_policy: fill_frist}\n", ["1:30: scheduling.default_policy: must be fill_first, spread or package.module:function, not 'fill_frist' - did you mean 'fill_first'?"]),
        ("scheduling: {default_policy: os.system}\n", ["1:30: scheduling.default_policy: must be fill_first, spread or package.module:function, not 'os.system'"]),
        ("partitions: {p: {max_time: 1, default_time: 2}}\n", ["1:17: partitions.p: default_time is more than max_time"]),
        ("partitions: {p: {max_time: 0}}\n", ["1:28: partitions.p.max_time: must be more than 0, not '0'; 'none' means no limit"]),
        ("partitions: {p: {planning_time: none}}\n", ["1:33: partitions.p.planning_time: must be a time: jobs without a limit are planned with it"]),
        ("partitions: {p: {allow_users: []}}\n", ["1:31: partitions.p.allow_users: must not be empty: leave it out instead"]),
        ("defaults: {ssh: {port: 70000}}\n", ["1:24: defaults.ssh.port: must be at most 65535, not 70000"]),
        ("defaults: {ssh: {user: -x}}\n", ["1:24: defaults.ssh.user: '-x' is no login name"]),
        ("defaults: {ssh: {proxy_jump: -oX}}\n", ["1:30: defaults.ssh.proxy_jump: '-oX' is no hop: write it like host or user@host:port"]),
        ("defaults: {workdir: data}\n", ["1:21: defaults.workdir: must be a path on the node that starts with / or ~/, not 'data'"]),
        ("defaults: {nvidia_smi: nvidia-smi}\n", ["1:24: defaults.nvidia_smi: must be the full path of a program on the node, not 'nvidia-smi'"]),
        ("defaults: {env: {A-B: 1}}\n", ["1:18: defaults.env.A-B: 'A-B' is no name of an environment variable"]),
        ("defaults: {env: {A: }}\n", ['1:21: defaults.env.A: has no value: write "" for an empty one']),
        # --- nodes
        ("nodes: [{node_id: 'n[1-'}]\n", ["1:19: nodes.0.node_id: hostlist 'n[1-': a bracket without its partner; write it like gpu[001-004,007]"]),
        ("nodes: [{node_id: ../x}]\n", [f"1:19: nodes.0.node_id: '../x' is no name: {NAME_RULE}"]),
        ("nodes: [{node_id: ''}]\n", ["1:19: nodes.0.node_id: is empty: a node needs a name"]),
        ("nodes: [{node_id: 'n[1-2]', hostname: h}]\n", ["1:39: nodes.0.hostname: 'h' stands for 1 name, the node_id beside it for 2 names"]),
        ("nodes: [{node_id: 'n[1-2]', ip: '10.0.0.[255-256]'}]\n", ["1:33: nodes.0.ip: '10.0.0.256' is no IP address: a name belongs into hostname"]),
        ("nodes: [{node_id: a, network: {address: gpu01-ib}}]\n", ["1:41: nodes.0.network.address: 'gpu01-ib' is no IP address: a name may mean another one to each node"]),
        ("nodes: [{node_id: a, hostname: -v}]\n", ["1:32: nodes.0.hostname: '-v' starts with a dash"]),
        (
            "nodes: [{node_id: a, hostname: $(id)}]\n",
            ["1:32: nodes.0.hostname: '$(id)' is no host's name: ssh takes none that means something to a shell"],
        ),
        ("nodes: [{node_id: a, devices: [1, 1]}]\n", ["1:31: nodes.0.devices: device 1 is given twice"]),
        ("nodes: [{node_id: a, devices: [0, 2], gpu_count: 2}]\n", ["1:31: nodes.0.devices: device 2 is not there: gpu_count 2, and they start at 0"]),
        ("nodes: [{node_id: a}, {node_id: 'a,b'}]\n", ["1:33: nodes.1.node_id: 'a' is given twice, first at c.yaml:1:19"]),
        ("nodes: [{node_id: 'n[1-2]', partition: trian}]\npartitions: {train: {}}\n", ["1:40: nodes.0.partition: 'trian' is not among the partitions of c.yaml - did you mean 'train'?"]),
        ("nodes: [{node_id: a, partition: x}]\npartitions: {}\n", ["1:33: nodes.0.partition: 'x' is not among the partitions of c.yaml"]),
        ("inventory: nowhere\n", ["1:12: inventory: nowhere: cannot be read: No such file or directory"]),
    ],
)  # fmt: skip
def test_a_fault_has_its_line(text: str | bytes, lines: list[str]) -> None:
    assert faults(text) == [f"c.yaml:{line}" for line in lines]


def test_all_faults_of_all_files_at_once_in_order() -> None:
    write("inv/a.yaml", "nodes:\n  - node_id: n1\n    gpus_count: 1\n  - node_id: n2\n    partition: y\n")
    write("inv/b.yaml", "nodes: [{node_id: n0}, {node_id: n2}]\nx: [")
    write("inv/c.yaml", "nodes: [{node_id: n2}]\npartitions: {}\n")
    assert faults(
        "inventory: inv/\nretries: 5\nnodes:\n  - node_id: n2\npartitions: {x: {}}\ncluster: {nmae: x}\n"
    ) == [
        "c.yaml:2:10: retries: must be a mapping (key: value)",
        "c.yaml:6:11: cluster.nmae: unknown key 'nmae' - did you mean 'name'?",
        "inv/a.yaml:3:5: nodes.0.gpus_count: unknown key 'gpus_count' - did you mean 'gpu_count'?",
        "inv/a.yaml:4:14: nodes.1.node_id: 'n2' is given twice, first at c.yaml:4:14",
        "inv/a.yaml:5:16: nodes.1.partition: 'y' is not among the partitions of c.yaml",
        "inv/b.yaml:1:34: nodes.1.node_id: 'n2' is given twice, first at c.yaml:4:14",
        "inv/b.yaml:3:1: not YAML: while parsing a flow node: did not find expected node content",
        "inv/c.yaml:1:19: nodes.0.node_id: 'n2' is given twice, first at c.yaml:4:14",
        "inv/c.yaml:2:1: partitions: unknown key 'partitions'",
    ]


def test_a_fault_in_the_defaults_is_told_once() -> None:
    write("inv/a.yaml", "nodes: [{node_id: 'n[1-3]'}]\n")
    assert faults("inventory: inv\ndefaults: {gpu_count: x}\nnodes: [{node_id: a}]\n") == [
        "c.yaml:2:23: defaults.gpu_count: must be a whole number, not 'x'"
    ]


def test_an_alias_stands_for_what_it_names() -> None:
    text = (
        "defaults: {env: &e {A: '1'}}\nnodes: [{node_id: a, env: *e}, {node_id: b, gpu_type: &t H100}, {node_id: *t}]\n"
    )
    assert [node.name for node in load(write("c.yaml", text)).nodes] == ["a", "b", "H100"]


def test_aliases_cannot_grow_without_bound() -> None:
    rows = ["l0: &l0 [a, a, a, a, a, a, a, a, a, a]"]
    rows += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 6)]
    assert "more than 100000 values: too many aliases?" in "\n".join(faults("\n".join(rows)))


def test_no_such_file() -> None:
    with pytest.raises(ConfigError) as caught:
        load(Path("none.yaml"))
    assert caught.value.faults == ["none.yaml: cannot be read: No such file or directory"]


def test_a_folder_is_no_configuration(here: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(here)
    assert caught.value.faults == [f"{here}: is a folder, not a file"]


def test_files_that_others_can_write_are_refused(here: Path) -> None:
    path = write("c.yaml", "inventory: inv\n")
    write("inv/a.yaml", "nodes: [{node_id: a}]\n").chmod(0o664)
    with pytest.raises(ConfigError) as caught:
        load(path)
    inner = here.resolve() / "inv/a.yaml"
    assert caught.value.faults == [
        f"c.yaml:1:12: inventory: inv/a.yaml: not trusted: others can write {inner}: chmod go-w {inner}"
    ]
    path.chmod(0o646)
    with pytest.raises(ConfigError) as caught:
        load(path)
    outer = here.resolve() / "c.yaml"
    assert caught.value.faults == [f"c.yaml: not trusted: others can write {outer}: chmod go-w {outer}"]


def test_what_is_no_file_is_not_read() -> None:
    Path("inv/folder.yaml").mkdir(mode=0o755, parents=True)
    os.mkfifo("pipe")
    os.mkfifo("inv/pipe.yaml")
    assert faults("inventory: inv\n") == [
        "c.yaml:1:12: inventory: inv/folder.yaml: is a folder, not a file",
        "c.yaml:1:12: inventory: inv/pipe.yaml: is no file",
    ]
    assert faults("inventory: pipe\n") == ["c.yaml:1:12: inventory: pipe: is no file"]
    (fault,) = faults("nodes: [{node_id: a, ssh: {identity_file: pipe}}]\n")
    assert fault.endswith("pipe is not a private key")


def test_an_empty_inventory_folder_is_a_fault() -> None:
    Path("inv").mkdir(mode=0o755)
    os.mkfifo("inv/pipe.txt")
    assert faults("inventory: inv\n") == [
        "c.yaml:1:12: inventory: inv holds no .yaml file: write one there, like nodes: [{node_id: gpu01}]"
    ]


@pytest.mark.parametrize(
    ("window", "what"),
    [
        ("x", "must be like {from: 2026-12-01 08:00, to: 2026-12-01 12:00, reason: ...}"),
        ("{from: 2026-12-01 08:00}", "must be like {from: 2026-12-01 08:00, to: 2026-12-01 12:00, reason: ...}"),
        ("{from: 2026-12-01 08:00, to: 2026-12-01 12:00, raeson: x}", "unknown key 'raeson' - did you mean 'reason'?"),
        ("{from: 2026-12-01 08:00, to: 2026-12-01 08:00}", "ends at 2026-12-01 08:00, before it begins"),
        ("{from: [1], to: 2026-12-01 08:00}", "from must be text, without control characters"),
        (
            '{from: 2026-12-01 08:00, to: 2026-12-01 09:00, reason: "a\\eb"}',
            "reason must be text, without control characters",
        ),
        (
            "{from: tomorrow, to: 2026-12-01 08:00}",
            "'tomorrow' is no day and time: write it like 2026-12-01 08:00 (local time of the head node)",
        ),
        (
            "{from: 2026-12-01 08:00, to: 2026-12-32 08:00}",
            "'2026-12-32 08:00' is no day and time: write it like 2026-12-01 08:00 (local time of the head node)",
        ),
    ],
)
def test_a_window_that_cannot_be_read(window: str, what: str) -> None:
    good = "{from: 2026-12-01 08:00, to: 2026-12-01 12:00}"
    assert faults(f"maintenance: [{good}, {window}]\n") == [f"c.yaml:1:63: maintenance.1: {what}"]
    told = faults(f"nodes:\n- node_id: a\n  maintenance:\n  - {window}\n")
    assert told == [f"c.yaml:4:5: nodes.0.maintenance.0: {what}"]


def test_a_cluster_has_a_most(here: Path) -> None:
    (here / "c.yaml").write_text("nodes:\n  - node_id: n[1-100000]\n")
    with pytest.raises(ConfigError) as caught:
        load(Path("c.yaml"))
    said = "nodes.0.node_id: stands for 100000 nodes, a cluster has 4096 at most"
    assert caught.value.faults == [f"c.yaml:2:14: {said}"]
    (here / "c.yaml").write_text("nodes:\n  - node_id: a[1-4096]\n  - node_id: b\n")
    with pytest.raises(ConfigError) as caught:
        load(Path("c.yaml"))
    said = "nodes.1.node_id: these are 4097 nodes with those before, a cluster has 4096 at most"
    assert caught.value.faults == [f"c.yaml:3:14: {said}"]
