"""mgpu restart: the program anew in the place of the master, under jobs that run and clients that follow them."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from pathlib import Path
from time import sleep

from tests.end_to_end.cluster import Cluster, Command, until
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab

COUNT = "for i in $(seq 1 2000); do echo $i; sleep 0.01; done"


def test_a_job_and_its_client_ride_it_out(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab)
    follower = cluster.start("srun", "-Q", "-G", 1, "sh", "-c", COUNT)
    follower.read_until("\n20\n")
    before = cluster.json("status")
    told = cluster("restart").out
    assert told == f"The master was restarted: mgpu {before['version']}, pid {before['pid']}. Jobs run on.\n"
    after = cluster.json("status")
    assert after["pid"] == before["pid"]  # in its place: whoever watches over it notices nothing
    assert after["instance"] != before["instance"]
    assert after["queue"]["RUNNING"] == 1
    assert cluster.json("restart").keys() == {"restarting", "from", "to", "pid"}
    result = follower.finish(60)
    assert result.code == 0
    assert result.out == "".join(f"{number}\n" for number in range(1, 2001))
    assert [job["attempt"] for job in cluster.json("history")["jobs"]] == [1]


def test_nobody_else_becomes_the_master_meanwhile(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab)
    cluster("nodes")
    pid = cluster.master_pid()
    restarts = [cluster.start("restart") for _ in range(2)]
    queues = [cluster.start("queue") for _ in range(4)]
    assert [each.finish().code for each in queues] == [0] * 4
    assert 0 in [each.finish(60).code for each in restarts]
    assert cluster.master_pid() == pid
    assert "another master" not in (cluster.state_dir / "master.log").read_text()


def test_without_a_master_none_is_started(lab: Lab, make_cluster: ClusterMaker) -> None:
    assert "no master runs" in make_cluster(lab).refused("restart", code=69)


def test_code_that_does_not_begin_replaces_none(lab: Lab, make_cluster: ClusterMaker, tmp_path: Path) -> None:
    """The master's code is a copy, and is broken under it."""
    cluster = make_cluster(lab)
    copy = copy_of_mgpu(tmp_path)
    cluster("nodes", env={"PYTHONPATH": str(copy)})
    before = cluster.json("status")
    daemon = copy / "mgpu" / "daemon.py"
    sound = daemon.read_text()
    daemon.write_text("import nothing_of_that_name\n")
    line = cluster.refused("restart", code=1)
    assert "does not begin" in line
    assert "nothing_of_that_name" in line
    assert cluster.json("status")["instance"] == before["instance"]
    # older than its database
    tables = copy / "mgpu" / "store" / "tables.py"
    text = tables.read_text()
    daemon.write_text(sound)
    tables.write_text(text.replace('REVISION = "0', 'REVISION = "-'))
    assert "docs/upgrading.md" in cluster.refused("restart", code=1)
    # and newer
    tables.write_text(text)
    first = copy / "mgpu" / "__init__.py"
    first.write_text(first.read_text().replace(f'"{before["version"]}"', '"99.1"'))
    assert cluster("restart").out.startswith(f"The master was restarted: mgpu 99.1, before {before['version']}, pid ")
    assert cluster.json("status")["version"] == "99.1"


def test_faults_of_the_configuration_are_told_first(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab)
    cluster("nodes")
    text = cluster.config_path.read_text()
    cluster.config_path.write_text(f"{text}\nnonsense: 1\n")
    assert "nonsense" in cluster.refused("restart", code=1)
    cluster.config_path.write_text(text)
    assert cluster("queue").code == 0


def copy_of_mgpu(folder: Path) -> Path:
    made = folder / "code"
    ours = Path(__file__).parents[2] / "mgpu"
    for path in ours.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            copied = made / "mgpu" / path.relative_to(ours)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(path.read_bytes())
    return made


class Service(Command):
    """A master as systemd runs one: it notifies, and its stderr is the journal."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.listener.bind(str(folder / "notify"))
        self._heard: list[str] = []
        # read all the time: it holds but few
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()
        environ = {**cluster.environ, "NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "2000000"}
        # a pipe for stderr is made only when it begins: a shell finds out which
        script = 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"'
        argv = ["sh", "-c", script, "sh", sys.executable, "-m", "mgpu", "daemon"]
        super().__init__(argv, environ, Path("/"), 0)

    def _listen(self) -> None:
        while said := self.listener.recv(1000):
            self._heard += said.decode().splitlines()

    def hears(self, wanted: str) -> None:
        """Of what it has not been asked for yet; what came before is passed over."""
        until(wanted, lambda: wanted in self._heard)
        del self._heard[: self._heard.index(wanted) + 1]

    def hears_nothing(self) -> None:
        """From now on; it has been stopped."""
        until("it stands still", lambda: " T " in Path(f"/proc/{self.pid}/stat").read_text())
        sleep(0.2)  # what was said before is read
        self._heard.clear()
        sleep(2)  # the watchdog's whole period
        assert self._heard == []

    def abandon(self) -> None:
        super().abandon()
        self.listener.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self.listener.close()


def test_as_a_service(lab: Lab, make_cluster: ClusterMaker, tmp_path: Path) -> None:
    here = "nodes:\n  - {node_id: here, connection: local, nvidia_smi: /nonexistent}\n"
    cluster = make_cluster(lab, nodes=here)
    service = Service(cluster, tmp_path)
    cluster._begun.append(service)
    service.hears("READY=1")
    service.hears("WATCHDOG=1")
    service.hears("WATCHDOG=1")
    told = cluster("srun", "-Q", "-G", 0, "sh", "-c", "env | grep -E 'NOTIFY|WATCHDOG|JOURNAL' || echo none").out
    assert told == "none\n"
    job_id = cluster.submit("-G", 0, "--", "sh", "-c", "sleep 3; echo done")
    cluster.await_running(job_id)
    assert cluster("restart").code == 0
    service.hears("RELOADING=1")
    service.hears("READY=1")  # it knows still whom to tell
    assert cluster.await_job(job_id)["state"] == "COMPLETED"
    assert cluster.output(job_id) == "done\n"
    service.send(signal.SIGTERM)
    service.hears("STOPPING=1")
    result = service.finish()
    assert result.code == 0
    began = [line for line in result.told if "master of" in line and "pid" in line]
    assert [line.partition("mgpu")[0] for line in began] == ["<6>", "<6>"]  # the journal knows the time itself


def test_jobs_that_are_confined_are_a_line_in_the_log(lab: Lab, make_cluster: ClusterMaker) -> None:
    here = "nodes:\n  - {node_id: here, connection: local, nvidia_smi: /nonexistent}\n"
    for nodes in (here, ""):
        cluster = make_cluster(lab, nodes=nodes)
        argv = ["setpriv", "--no-new-privs", sys.executable, "-m", "mgpu", "daemon"]
        master = Command(argv, cluster.environ, Path("/"), 0)
        cluster._begun.append(master)
        master.read_until("master of")
        assert ("may gain no privileges" in master.err) is bool(nodes)


def test_a_tick_that_hangs_is_not_said_to_live(lab: Lab, make_cluster: ClusterMaker, tmp_path: Path) -> None:
    cluster = make_cluster(lab)
    service = Service(cluster, tmp_path)
    cluster._begun.append(service)
    service.hears("WATCHDOG=1")
    os.kill(service.pid, signal.SIGSTOP)
    service.hears_nothing()
    os.kill(service.pid, signal.SIGABRT)  # as the watchdog does
    os.kill(service.pid, signal.SIGCONT)
    result = service.finish()
    # threads that run while they are written down may end it first
    assert result.code in (-signal.SIGABRT, -signal.SIGSEGV)
    assert "most recent call first" in result.err  # each thread says where it stood
    until("its lock is free", lambda: cluster("queue", check=False).code == 0)
