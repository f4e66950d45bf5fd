"""Files that load, and what they come to."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from mgpu.config import Config, PartitionConfig, SshSettings
from mgpu.config.load import load
from mgpu.config.model import Notify
from mgpu.core.errors import ConfigError
from mgpu.core.fairshare import FairShare
from mgpu.core.notices import EVENTS
from mgpu.core.plan import Bounds, ExternalPolicy, Limits, Window
from mgpu.core.usage import IdleRule

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return path


def loaded(text: str) -> Config:
    return load(write("c.yaml", text))


def test_no_file_is_this_machine() -> None:
    config = load(None)
    (node,) = config.nodes
    assert (config.path, node.connection, node.facts.gpu_count) == (None, "local", None)
    assert "." not in node.name


def test_the_shipped_file_is_this_machine(here: Path) -> None:
    config = loaded((REPOSITORY / "cluster_config.yaml").read_text())
    assert config.nodes == load(None).nodes
    assert config.warnings == ()


@pytest.mark.parametrize("name", ["cluster_config.yaml", "inventory/example.yaml"])
def test_what_the_shipped_files_comment_out_is_right(here: Path, name: str) -> None:
    """Without the `# ` before what looks like YAML, the file still loads."""
    lines = []
    for line in (REPOSITORY / name).read_text().splitlines():
        bare = line.removeprefix("# ")
        lines.append(bare if bare.startswith(" ") or bare.split(" ")[0].endswith(":") else line)
    write("inventory/a.yaml", "nodes:\n  - node_id: other\n")
    write(str(Path.home() / ".ssh/id_ed25519"), "-----BEGIN OPENSSH PRIVATE KEY-----\n")
    config = loaded("\n".join(lines))
    assert len(config.nodes) > 4
    assert config.warnings == ()


def test_defaults_and_ranges(here: Path) -> None:
    write(
        "inv/b.yml",
        "defaults: {gpu_type: H100, ssh: {user: eve}, env: {B: 2}}\n"
        "nodes:\n"
        "  - node_id: 'n[08-10]'\n"
        "    hostname: 'n[8-10].example.org'\n"
        "    ip: 10.0.0.[1-3]\n"
        "    network: {address: '10.1.0.[1-3]'}\n"
        "    env: {C: '3'}\n",
    )
    write("inv/a.yaml", "nodes:\n  - {node_id: 001, devices: [0, 1], ssh: {port: 2222}}\n")
    write("inv/notes.txt", "not: [yaml")
    write("keys/id.pub", "ssh-ed25519 AAAA")  # an agent has the other half
    write("inv/.hidden.yaml", "not: [yaml")
    config = loaded(
        "inventory: inv\n"
        "defaults:\n"
        "  ssh: {user: train, port: 22, identity_file: keys/id, known_hosts: ~/kh}\n"
        "  network: {interface: ib0}\n"
        "  env: {A: 1.10, B: no}\n"
        "  workdir: ~/work\n"
        "nodes:\n"
        "  - {node_id: head, connection: local, run_dir: /r, setup: 'a; b', partition: 'x, y'}\n"
    )
    head, first, eighth, ninth, tenth = config.nodes
    assert [node.name for node in config.nodes] == ["head", "001", "n08", "n09", "n10"]
    assert head.ssh.host == "localhost"  # where nobody says, for a name of mgpu's own may be known to nobody else
    assert (head.connection, head.run_dir, head.setup, head.facts.partitions) == ("local", "/r", "a; b", ("x", "y"))
    assert first.ssh == SshSettings("001", 2222, "train", here / "keys/id", Path.home() / "kh", None, "001")
    assert (first.facts.devices, first.env, first.workdir) == ((0, 1), {"A": "1.10", "B": "no"}, "~/work")
    assert (tenth.ssh.host, tenth.ssh.name, tenth.ssh.user) == ("10.0.0.3", "n10.example.org", "eve")
    assert (tenth.network_address, tenth.network_interface) == ("10.1.0.3", "ib0")
    assert tenth.env == {"A": "1.10", "B": "2", "C": "3"}
    assert {node.facts.gpu_type for node in (eighth, ninth, tenth)} == {"H100"}


def test_an_inventory_may_be_one_file_and_its_paths_are_relative_to_it(here: Path) -> None:
    write("sub/nodes.yaml", "nodes: [{node_id: a, ssh: {identity_file: id}}]\n")
    write("sub/id", "-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert loaded("inventory: sub/nodes.yaml\n").nodes[0].ssh.identity_file == here / "sub/id"


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("gone", "gone is not there"),
        (".", "cannot be read: Is a directory"),
        ("notes", "notes is not a private key"),
        ("id.pub", "id.pub is not a private key"),
    ],
)
def test_a_key_that_is_none_is_told_where_it_is_named(here: Path, key: str, fault: str) -> None:
    write("notes", "no key\n")
    write("id.pub", "ssh-ed25519 AAAA\n")
    with pytest.raises(ConfigError) as raised:
        loaded(f"nodes: [{{node_id: a, ssh: {{identity_file: {key}}}}}]\n")
    (line,) = raised.value.faults
    assert "c.yaml:1:" in line
    assert fault in line


def test_all_other_keys(here: Path) -> None:
    config = loaded(
        "cluster: {name: lab}\n"
        "master: {mode: personal, state_dir: state, idle_exit: never}\n"
        "admins: ann, bob\n"
        "partitions:\n"
        "  train: {default_time: none, max_time: 7-0, planning_time: 1:30:00, priority: -10, allow_users: [ann, bob]}\n"
        "  rest:\n"
        "networking: {heartbeat_interval: 1, timeout: 1:30, login_timeout: 2m, probe_timeout: 0.5,\n"
        "  master_ports: 5000-5099, preflight: false}\n"
        "scheduling: {default_policy: my.module:order, backfill: none}\n"
        "retries: {max: 0, requeues: 3, backoff: 1s, backoff_max: 1h}\n"
        "health: {unhealthy_after: 9}\n"
        "output: {max_size: 5M}\n"
        "ship: {max_size: 1G}\n"
        "external: {policy: ignore, ignore: [Xorg], memory_threshold_mib: 600}\n"
        "nodes: [{node_id: a, partition: train, external: {ignore: []}}]\n"
    )
    assert (config.cluster_name, config.state_dir, config.idle_exit_s) == ("lab", here / "state", math.inf)
    assert config.admins == ("ann", "bob")
    assert config.partitions == {
        "train": PartitionConfig("train", None, 604_800, -10, ("ann", "bob"), planning_time_s=5400),
        "rest": PartitionConfig("rest"),
    }
    assert (config.heartbeat_interval_s, config.timeout_s) == (1, 90)
    assert (config.login_timeout_s, config.probe_timeout_s, config.master_ports) == (120, 0.5, (5000, 5099))
    assert not config.preflight
    assert (config.default_policy, config.backfill) == ("my.module:order", "none")
    assert config.requeues_max == 3
    assert (config.retries_max, config.backoff_s, config.backoff_max_s, config.unhealthy_after) == (0, 1, 3600, 9)
    assert (config.output_max, config.ship_max) == (5 << 20, 1 << 30)
    assert config.external == ExternalPolicy("ignore", ("Xorg",), 600)
    assert config.nodes[0].external == ExternalPolicy("ignore", (), 600)


@pytest.mark.parametrize(
    ("text", "size"), [("none", 0), ("0", 0), ("4096", 4096), ("1k", 1024), ("2 GiB", 2 << 30), ("1TB", 1 << 40)]
)
def test_sizes(here: Path, text: str, size: int) -> None:
    assert loaded(f"output: {{max_size: {text}}}\n").output_max == size


@pytest.mark.parametrize("text", ["", "# nothing\n", "nodes:\n", "cluster:\n  name:\n", "nodes: []\n"])
def test_a_file_without_nodes_is_this_machine(here: Path, text: str) -> None:
    config = loaded(text)
    assert config == Config(path=here / "c.yaml", nodes=load(None).nodes)


def test_without_partitions_those_that_nodes_name_exist(here: Path) -> None:
    config = loaded("nodes: [{node_id: a, partition: x}, {node_id: b, partition: [y, x]}]\n")
    assert config.partitions == {"x": PartitionConfig("x"), "y": PartitionConfig("y")}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("1:30", 90),
        ("1:30:00", 5400),
        ("2-0", 172_800),
        ("1-2:30", 95_400),
        ("1-02:30:15", 95_415),
        ("30s", 30),
        ("2 h", 7200),
        ("7d", 604_800),
        ("UNLIMITED", None),
    ],
)
def test_time_limits_are_slurms(here: Path, text: str, seconds: int | None) -> None:
    assert loaded(f"partitions: {{p: {{max_time: {text}}}}}\n").partitions["p"].max_time_s == seconds


OLDER = """\
cluster:
  name: "gpu-cluster"
  master:
    host: "master.example.com"
    port: 8080

nodes:
  - node_id: "node001"
    hostname: "gpu001.example.com"
    ip: "192.168.1.10"
    port: 8081
    gpu_count: 8
    gpu_type: "A100"

  - node_id: "node002"
    hostname: "gpu002.example.com"
    ip: "192.168.1.11"
    port: 8081
    gpu_count: 8
    gpu_type: "A100"

networking:
  heartbeat_interval: 30
  timeout: 60

scheduling:
  default_policy: "fill_first"  # fill_first, spread, custom
"""


def test_a_file_of_the_older_system_loads(here: Path) -> None:
    config = loaded(OLDER)
    assert [(node.name, node.ssh.host, node.ssh.port) for node in config.nodes] == [
        ("node001", "192.168.1.10", None),
        ("node002", "192.168.1.11", None),
    ]
    assert {(node.facts.gpu_count, node.facts.gpu_type) for node in config.nodes} == {(8, "A100")}
    master, port = config.warnings
    assert master == (
        "c.yaml:3:3: cluster.master is ignored: clients now find the master by its socket, or by MGPU_MASTER"
    )
    assert port == (
        "c.yaml:11:5: nodes.0.port 8081 (and 1 more) is ignored: it was the port of the former agent; "
        "the port for SSH is ssh.port (22 if not given)"
    )


@pytest.mark.parametrize(
    ("second", "count"),
    [
        ("{node_id: b, ip: 10.0.0.1}", 1),
        ("{node_id: b, ip: 10.0.0.1, devices: [1, 2]}", 1),
        ("{node_id: b, ip: 10.0.0.1, devices: [2]}", 0),
        ("{node_id: b, ip: 10.0.0.1, ssh: {port: 23}}", 0),
        ("{node_id: b, ip: 10.0.0.2}", 0),
        ("{node_id: b, hostname: 10.0.0.1}", 1),
        ("{node_id: b, hostname: B.example}, {node_id: c, hostname: b.Example.}", 1),
        ("{node_id: b, ip: '2001:db8::1'}, {node_id: c, ip: '2001:0DB8:0::1'}", 1),
        ("{node_id: b, connection: local}", 0),
        ("{node_id: b, connection: local}, {node_id: c, connection: local}", 1),
    ],
)
def test_one_machine_under_two_names_is_told(here: Path, second: str, count: int) -> None:
    config = loaded(f"nodes: [{{node_id: a, ip: 10.0.0.1, devices: [0, 1]}}, {second}]\n")
    assert ["count twice" in warning for warning in config.warnings] == [True] * count


def test_old_words_are_read_and_told(here: Path) -> None:
    config = loaded("nodes: [{name: a, host: h, gpus: 4, rack: r1}]\nscheduling: {policy: spread}\n")
    facts = config.nodes[0].facts
    assert (facts.name, facts.hostname, facts.gpu_count, facts.switch) == ("a", "h", 4, "r1")
    assert config.default_policy == "spread"
    assert "c.yaml:1:10: nodes.0.name is read as node_id: please write it so" in config.warnings
    assert len(config.warnings) == 5


def test_maintenance_of_a_node_and_of_all(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    config = loaded(
        "maintenance:\n- {from: '2026-12-01 08:00', to: 2026-12-01T12:00:30, reason: power}\n"
        "defaults: {maintenance: [{from: 2026-07-01 08:00, to: 2026-07-02 08:00}]}\n"
        "nodes: [{node_id: a}, {node_id: b, maintenance: []}]\n"
    )
    power = Window(1796108400.0, 1796122830.0, "2026-12-01 08:00 to 2026-12-01T12:00:30", "power")
    summer = Window(1782885600.0, 1782972000.0, "2026-07-01 08:00 to 2026-07-02 08:00")
    assert [node.facts.maintenance for node in config.nodes] == [(summer, power), (power,)]
    monkeypatch.undo()
    time.tzset()


def test_fair_share_accounts_and_limits(here: Path) -> None:
    config = loaded(
        "scheduling: {fair_share: {half_life: 2d, longest_wait: 0}, user_limits: {gpus: 8, gpu_hours: 12.5}}\n"
        "accounts: {vision: {shares: 2, users: 'ann, bob', limits: {jobs: 3}}}\n"
        "partitions: {p: {limits: {gpus: 4}, user_limits: {queued: 9}}, q: {}}\n"
    )
    assert config.fair_share == FairShare(2 * 86400.0, 0.0, {"vision": 2})
    assert config.accounts["vision"].users == ("ann", "bob")
    assert config.bounds == Bounds(
        Limits(gpus=8, gpu_hours=12.5), {"vision": Limits(jobs=3)}, {"p": (Limits(gpus=4), Limits(queued=9))}
    )
    plain = loaded("scheduling: {fair_share: {half_life: none}}")
    assert plain.fair_share == FairShare(None)
    assert plain.bounds is None
    with pytest.raises(ConfigError, match=r"accounts\.v: has no users"):
        loaded("accounts: {v: {shares: 2}}")


def test_notify(tmp_path):
    def read(text: str) -> Config:
        path = tmp_path / "cluster_config.yaml"
        path.write_text(text)
        return load(path)

    assert read("cluster: {name: x}\n").notify is None
    told = read("notify: {command: 'cat > /dev/null'}\n")
    assert told.notify == Notify(("/bin/sh", "-c", "cat > /dev/null"))
    assert told.warnings == ()
    asked = read("notify: {command: [/bin/cat, -u], events: 'queued, failed', timeout: 5s, retries: 0}\n").notify
    assert asked == Notify(("/bin/cat", "-u"), ("queued", "failed"), 5.0, 0)
    assert read("notify: {command: [/bin/cat], events: none}\n").notify.events == ()
    assert read("notify: {command: [/bin/cat], events: all}\n").notify.events == EVENTS
    (warning,) = read("notify: {command: [/no/such]}\n").warnings
    assert "/no/such is not there, or cannot be run" in warning
    for text, fault in (
        ("{events: all}", "has no command"),
        ("{command: []}", "must be a command"),
        ("{command: [/bin/cat], events: [failure]}", "there is no event 'failure' - did you mean 'failed'"),
        ("{command: [/bin/cat], retries: -1}", "retries"),
    ):
        with pytest.raises(ConfigError) as told:
            read(f"notify: {text}\n")
        assert fault in str(told.value.faults)


def test_retention_and_log(tmp_path):
    path = tmp_path / "cluster_config.yaml"
    path.write_text("retention: {jobs: 90d, output: none}\nlog: {format: json}\n")
    found = load(path)
    assert (found.keep_jobs_s, found.keep_output_s, found.log_format) == (90 * 86400, math.inf, "json")
    path.write_text("log: {format: jsn}\n")
    with pytest.raises(ConfigError, match="json"):
        load(path)


def test_when_a_job_is_idle_and_how_long_samples_are_kept(tmp_path):
    path = tmp_path / "cluster_config.yaml"
    path.write_text("idle: {after: 2h, below: 10}\nretention: {samples: 90d}\n")
    found = load(path)
    assert (found.idle, found.keep_samples_s) == (IdleRule(7200.0, 10), 90 * 86_400)
    path.write_text("idle: {after: never}\n")
    found = load(path)
    assert (found.idle, found.keep_samples_s) == (IdleRule(math.inf, 5), 35 * 86_400)
    path.write_text("idle: {after: 0, below: 101}\nretention: {samples: never}\n")
    with pytest.raises(ConfigError) as refused:
        load(path)
    assert len(refused.value.faults) == 3
