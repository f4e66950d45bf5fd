"""The lab is what it says: hosts that ssh reaches, faults that bite, and nothing left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab import Lab, LabError, Node, Unsupported, choose_mode
from tests.lab.faults import IS_SLEEP
from tests.lab.lab import all_labs, root, sweep
from tests.lab.processes import Process, everything

pytestmark = pytest.mark.lab
needs_namespaces = pytest.mark.skipif(choose_mode() != "namespaces", reason="needs the lab in namespaces (root)")
LabMaker = Callable[..., Lab]
REPOSITORY = Path(__file__).parent.parent.parent


def ssh(lab: Lab, node: Node, command: str, user: str = "", timeout_s: float = 20) -> subprocess.CompletedProcess[str]:
    words = ["ssh", "-F", str(lab.ssh_config), "-o", f"ConnectTimeout={timeout_s:g}", "-l", user or node.user]
    return subprocess.run(
        [*words, node.name, command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.fixture(params=["namespaces", "loopback"])
def one(request: pytest.FixtureRequest, make_lab: LabMaker) -> Lab:
    """A one-node lab of each kind that can be made here."""
    if request.param == "namespaces" and choose_mode() != "namespaces":
        pytest.skip("needs root")
    return make_lab(nodes=1, gpus=2, mode=request.param)


@pytest.fixture
def node(lab: Lab) -> Iterator[Node]:
    yield lab.nodes[0]
    lab.nodes[0].gpus.clear()


def test_ssh_reaches_every_node_in_a_home_of_its_own(lab: Lab) -> None:
    for node in lab.nodes:
        done = ssh(lab, node, f'echo "$HOME $(pwd)"; touch seen-{node.name}; ls -d seen-*')
        (home, cwd), *seen = [line.split() for line in done.stdout.splitlines()]
        assert home == cwd
        assert seen == [[f"seen-{node.name}"]], "a file of the other node is here"
    for node in lab.nodes:
        node.run("rm seen-*")


@needs_namespaces
def test_nodes_differ_as_machines_do(lab: Lab) -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp") as here:
        question = f"hostname; cat /proc/sys/kernel/random/boot_id; ls {here.name} 2>/dev/null; cat /proc/1/stat"
        answers = [node.run(question) for node in lab.nodes]
    assert [answer.stdout.splitlines()[0] for answer in answers] == ["node001", "node002"]
    assert len({answer.stdout.splitlines()[1] for answer in answers}) == 2
    assert all(len(answer.stdout.splitlines()) == 3 for answer in answers), "/tmp is not the node's own"
    assert ssh(lab, lab.nodes[0], "id -un; umask", user="bob").stdout.split()[0] == "bob"


def test_a_host_key_that_is_not_on_file_is_refused(lab: Lab, tmp_path: Path) -> None:
    node = lab.nodes[0]
    words = ["ssh", "-F", str(lab.ssh_config), "-o", f"UserKnownHostsFile={tmp_path}/none", node.name, "true"]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 255


def test_configuration_names_every_node(lab: Lab) -> None:
    text = lab.config_path.read_text()
    assert all(f"node_id: {node.name}" in text and f"ip: {node.address}" in text for node in lab.nodes)
    assert lab.config_path.stat().st_mode & 0o077 == 0
    assert lab.folder.stat().st_mode & 0o077 == 0


def test_smi_prints_exactly_the_fields_asked_for(node: Node) -> None:
    node.gpus.set(1, name="NVIDIA H100", **{"memory.total": "81559"})
    rows = node.run("nvidia-smi --query-gpu=index,name,memory.total --format=csv,noheader").stdout.splitlines()
    assert len(rows) == 4
    assert rows[1] == "1, NVIDIA H100, 81559 MiB"
    text = node.run("nvidia-smi --query-gpu=uuid,memory.used,utilization.gpu --format=csv").stdout.splitlines()
    assert text[:2] == ["uuid, memory.used [MiB], utilization.gpu [%]", f"{node.gpus.uuid(0)}, 3 MiB, 0 %"]
    assert node.run("nvidia-smi -L").stdout.splitlines()[1] == f"GPU 1: NVIDIA H100 (UUID: {node.gpus.uuid(1)})"
    node.gpus.set(1, name="NVIDIA A100-SXM4-80GB", **{"memory.total": "81920"})


def test_smi_refuses_a_field_it_does_not_know(node: Node) -> None:
    done = node.run("nvidia-smi --query-gpu=index,gpu_recovery_action --format=csv", check=False)
    assert (done.returncode, done.stdout) == (2, 'Field "gpu_recovery_action" is not a valid field to query.\n\n')


def test_gpu_faults(one: Lab) -> None:
    node = one.nodes[0]
    query = "nvidia-smi --query-gpu=index,memory.used --format=csv,noheader,nounits"
    node.fault("gpu", "lost", 0)
    done = node.run(query, check=False)
    assert (done.returncode, done.stdout.splitlines()[1]) == (15, "1, 3")
    assert "GPU is lost" in done.stdout.splitlines()[0]
    node.fault("gpu", "hidden", 0)
    assert node.run(query).stdout == "1, 3\n"
    node.fault("gpu", "fail", 9, "no driver")
    done = node.run(query, check=False)
    assert (done.returncode, done.stdout) == (9, "no driver\n")
    node.fault("gpu", "hang")
    assert node.run(f"timeout -k 0.1 0.1 {query}", check=False).returncode in (124, 137)
    node.fault("gpu", "missing")
    assert node.run(query, check=False).returncode == 127
    node.fault("gpu", "ok")
    assert node.run(query).stdout == "0, 3\n1, 3\n"


def test_an_outsider_is_a_real_process(one: Lab) -> None:
    node = one.nodes[0]
    apps = "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader,nounits"
    pid = node.fault("outsider", 1)
    assert node.run(apps).stdout == f"{node.gpus.uuid(1)}, {pid}, 4096\n"
    assert node.run("nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits").stdout == "3\n4099\n"
    assert node.run(f"ps -o args= -p {pid}").stdout.split() == ["sleep", "infinity"]
    node.fault("outsider", "stop")
    assert node.run(apps).stdout == ""


@needs_namespaces
def test_every_user_sees_the_processes_of_all(lab: Lab) -> None:
    node = lab.nodes[0]
    pid = node.fault("outsider", 2, "alice")
    seen = ssh(lab, node, "nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader", user="bob")
    assert seen.stdout == f"{pid}, sleep\n"
    assert node.run(f"ps -o user= -p {pid}", user="bob").stdout.strip() == "alice"
    assert node.run(f"cat /proc/{pid}/environ", user="bob", check=False).returncode != 0
    node.fault("outsider", "stop")


def test_a_process_is_placed_by_uuid_too_and_shells_do_not_count(node: Node) -> None:
    line = (
        f"{IS_SLEEP} export CUDA_VISIBLE_DEVICES={node.gpus.uuid(3)},0 LAB_GPU_MIB=100;"
        " sleep infinity >/dev/null 2>&1 & echo $!; until is_sleep $!; do :; done;"
    )
    line += " nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader; kill $!"
    pid, *rows = node.run(line).stdout.splitlines()
    assert rows == [f"{node.gpus.uuid(gpu)}, {pid}, 100 MiB" for gpu in (0, 3)]


def test_kill_jobs_spares_sessions(one: Lab) -> None:
    node = one.nodes[0]
    assert ssh(one, node, "setsid -f env -i sleep 7777 >/dev/null 2>&1 </dev/null").returncode == 0
    words = ["ssh", "-F", str(one.ssh_config), node.name, "echo ready; read line; echo $line"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        assert session.stdout.readline() == "ready\n"
        assert [process.command for process in node.jobs() if process.command == "sleep"]
        node.fault("kill-jobs")
        assert [process for process in node.jobs() if process.command == "sleep"] == []
        assert session.communicate("alive\n")[0] == "alive\n"


def test_sshd_faults(one: Lab) -> None:
    node = one.nodes[0]
    node.fault("sshd", "kill")
    assert not node.answers()
    node.fault("sshd", "start")
    assert ssh(one, node, "echo back").stdout == "back\n"
    node.fault("sshd", "freeze")
    assert not node.answers(timeout_s=0.2)
    node.fault("sshd", "thaw")
    node.fault("sshd", "restart")
    assert ssh(one, node, "echo again").stdout == "again\n"


@needs_namespaces
def test_reboot_changes_the_boot_id_and_keeps_the_disk(make_lab: LabMaker) -> None:
    lab = make_lab(nodes=1, gpus=1)
    node = lab.nodes[0]
    look = "cat /proc/sys/kernel/random/boot_id; ls ~ /tmp"
    before = node.run(f"touch ~/kept /tmp/lost; {look}").stdout
    node.run("setsid -f sleep infinity >/dev/null 2>&1")
    uuid = node.gpus.uuid(0)
    node.fault("reboot")
    after = ssh(lab, node, look).stdout
    assert before.split("\n")[0] != after.split("\n")[0]
    assert "kept" in after
    assert "lost" not in after
    assert node.jobs() == []
    assert node.gpus.uuid(0) == uuid


@needs_namespaces
def test_link_faults(make_lab: LabMaker) -> None:
    lab = make_lab(nodes=2, gpus=1)
    node, other = lab.nodes
    for words in (("down",), ("drop",)):
        node.fault("link", *words)
        assert not node.answers(timeout_s=0.2)
        assert other.answers()
        node.fault("link", "ok")
        assert node.answers(timeout_s=5)
    node.fault("link", "rate", 50)
    assert len(ssh(lab, node, "head -c 100000 /dev/zero | tr '\\0' x").stdout) == 100000


@needs_namespaces
def test_a_full_home_takes_no_byte_but_a_link(make_lab: LabMaker) -> None:
    node = make_lab(nodes=1, gpus=1).nodes[0]
    node.fault("home", "full")
    assert node.run("echo text > file", check=False).returncode != 0
    node.run("ln -s 0 exit && readlink exit")
    node.fault("home", "ok")
    assert node.run("echo text > file && cat file").stdout == "text\n"


@needs_namespaces
def test_a_shared_home_is_one(make_lab: LabMaker) -> None:
    first, second = make_lab(nodes=2, gpus=1, shared_home=True).nodes
    first.run("echo hello > note")
    assert second.run("cat note").stdout == "hello\n"


@pytest.mark.parametrize("mode", ["namespaces", "loopback"])
def test_two_labs_side_by_side_and_nothing_left(mode: str, make_lab: LabMaker) -> None:
    if mode == "namespaces" and choose_mode() != mode:
        pytest.skip("needs root")
    first, second = make_lab(nodes=1, gpus=1, mode=mode), make_lab(nodes=1, gpus=1, mode=mode)
    places = {(lab.nodes[0].address, lab.nodes[0].port) for lab in (first, second)}
    assert len(places) == 2
    first.nodes[0].run("setsid -f sleep infinity >/dev/null 2>&1")
    ssh(first, first.nodes[0], "setsid -f env -i sleep infinity </dev/null >/dev/null 2>&1")
    own: set[Process] = set()
    while [process.command for process in own].count("sleep") < 2:  # until both have become it
        own = set(first.nodes[0].pids())
    first.down()
    assert not own & set(everything())
    assert ssh(second, second.nodes[0], "echo there").stdout == "there\n"
    assert not first.folder.exists()
    assert str(first.folder) not in Path("/proc/self/mountinfo").read_text()
    if mode == "namespaces":
        from tests.lab.network import Links

        names = [device.name for device in Path("/sys/class/net").iterdir()]
        assert not [name for name in names if name.startswith(Links(first.folder).prefix)]


def test_what_a_killed_run_left_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_DIR", str(tmp_path / "labs"))  # so that no other run sweeps it first
    prefix = "killed"
    program = (
        "import os, signal, sys; from tests.lab import Lab, Settings\n"
        f"Lab(Settings(nodes=1, gpus=1, ephemeral=True), {prefix!r}).__enter__(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, check=False)
    assert done.returncode == -9
    left = Lab.load(prefix)
    assert left.nodes[0].answers()
    left.state_dir.mkdir()
    log = left.state_dir / "log"
    master = subprocess.Popen(["sh", "-c", f"exec 5>{log}; echo >&5; sleep infinity & wait"])
    while not log.exists() or not log.read_text():
        pass
    own = set(left.nodes[0].pids())
    assert sweep() == [prefix]
    assert master.wait() == -signal.SIGTERM
    assert all_labs() == []
    assert not own & set(everything())
    assert not (root() / prefix).exists()


def test_a_lab_that_is_taken_down_meanwhile_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_DIR", str(tmp_path / "labs"))
    monkeypatch.setattr("tests.lab.lab.all_labs", lambda: ["gone"])
    assert sweep() == []


def test_the_command_line(make_lab: LabMaker, lab_prefix: Callable[[], str]) -> None:
    def lab(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([REPOSITORY / "scripts" / "lab", *words], capture_output=True, text=True, check=False)

    prefix = lab_prefix()
    try:
        made = lab("up", "1", "--gpus", "2", "--prefix", prefix)
        assert made.returncode == 0, made.stderr
        assert f"export MGPU_CONFIG={root() / prefix}/cluster_config.yaml" in made.stdout
        again = lab("up", "1", "--gpus", "2", "--prefix", prefix)
        assert again.returncode == 0, again.stderr
        assert lab("ssh", "--prefix", prefix, "node001", "--", "echo", "$((6 * 7))").stdout == "42\n"
        wrong = lab("fault", "--prefix", prefix, "node001", "gpu", "lost", "7")
        assert (wrong.returncode, wrong.stderr) == (1, "lab: no GPU 7 there; the indices are 0, 1\n")
        assert "node001" in lab("status").stdout
    finally:
        assert lab("down", "--prefix", prefix).returncode == 0
    assert lab("down", "--prefix", prefix).returncode == 1


def test_a_lab_in_use_is_not_taken(lab: Lab) -> None:
    with pytest.raises(LabError, match="in use"), Lab(lab.settings, lab.prefix):
        pass
    assert lab.nodes[0].answers()


def test_loopback_says_what_it_cannot(make_lab: LabMaker) -> None:
    node = make_lab(nodes=1, gpus=1, mode="loopback").nodes[0]
    for words in (("reboot",), ("link", "down"), ("home", "full")):
        with pytest.raises(Unsupported, match="root"):
            node.fault(*words)
