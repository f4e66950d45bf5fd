"""A Slurm of our own on this machine, to measure beside: its daemons, its nodes and its GPUs, which are plain files.

Nothing of an installed Slurm is used but the programs: configuration, keys, database and state lie in a folder of
their own, all ports are free ones, and what was started is ended by its pid.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType

from scripts.benchmarks.measure import BenchError, Run, run, wait_until
from scripts.benchmarks.spent import Group
from tests.lab.loopback import free_ports

NAME = "Slurm"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "squeue")
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge", "slurmdbd", "mariadb-server-core", "mariadb-client-core")
DATABASE = ("mariadbd", "mariadb-install-db", "slurmdbd", "sacctmgr")
# what shortens the way of a short job through the scheduler, as one would set it for many of them
SCHEDULER = (
    "batch_sched_delay=0,sched_min_interval=0,sched_interval=1,default_queue_depth=10000,partition_job_depth=0,"
    "bf_interval=5,bf_max_job_test=1000"
)
END_S = 10.0


def install() -> None:
    """What is missing of it, where that is ours to do; daemons of the packages are not started. Raises BenchError."""
    absent = [name for name in (*PROGRAMS, *DATABASE) if shutil.which(name, path=PATH) is None]
    if os.geteuid() != 0:
        raise BenchError("--slurm: only root can run a Slurm that starts jobs")
    if absent and shutil.which("apt-get", path=PATH):
        with _no_services():
            run(
                ("apt-get", "install", "-qq", "-y", "--no-install-recommends", *PACKAGES),
                {"PATH": PATH, "DEBIAN_FRONTEND": "noninteractive"},
                keep=False,
                limit_s=300,
            )
    absent = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if absent:
        raise BenchError(f"--slurm: not installed here: {' '.join(absent)}")


@contextmanager
def _no_services() -> Iterator[None]:
    """While packages are installed: Debian asks this program whether their daemons may start."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()


class Slurm:
    """`with Slurm(nodes=8, gpus=8) as slurm:`; all nodes are idle when the block begins."""

    def __init__(self, nodes: int, gpus: int) -> None:
        self.nodes, self.gpus = nodes, gpus
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.head, self.slurmds = Group("slurm-head"), Group("slurm-nodes")
        self.accounting = all(shutil.which(name, path=PATH) for name in DATABASE)

    def __enter__(self) -> Slurm:
        self.folder = Path(mkdtemp(prefix="mgpu-bench-slurm-"))
        self.env = {
            "PATH": PATH,
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "MYSQL_UNIX_PORT": str(self.folder / "mariadb.sock"),
        }
        try:
            self._write_configuration()
            self._start_munge()
            if self.accounting:
                self._start_accounting()
            self._start_slurm()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The last one first: each can still say goodbye to the one before it."""
        for daemon in reversed(self._daemons):
            _end(daemon)
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.head.remove()
        self.slurmds.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pids(self) -> list[int]:
        """All that goes by our configuration: daemons, and what they started."""
        wanted = f"SLURM_CONF={self.env['SLURM_CONF']}".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if int(place.name) != os.getpid() and wanted in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
        return found

    def run(self, *words: str, keep: bool = True) -> Run:
        return run(words, self.env, keep=keep)

    def active(self) -> int:
        """Jobs that wait or run."""
        return len(self.run("squeue", "-h", "-r", "-o", "%i").output.split())

    def describe(self) -> str:
        version = self.run("slurmctld", "-V").output.decode().split()[-1]
        accounting = "slurmdbd on a MariaDB of its own" if self.accounting else "none (no MariaDB here)"
        return (
            f"Slurm {version}: {self.nodes} slurmd of {self.gpus} GPUs that are plain files, accounting: {accounting}; "
            f"SchedulerParameters={SCHEDULER}"
        )

    # --- its parts --------------------------------------------------------------------------------------------------

    def _write_configuration(self) -> None:
        control, accounting, *nodes = free_ports(2 + self.nodes)
        host = os.uname().nodename
        lines = {
            "ClusterName": "bench",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": control,
            "SlurmUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self.folder}/munge.sock",
            "CredType": "cred/munge",
            "StateSaveLocation": f"{self.folder}/state",
            "SlurmdSpoolDir": f"{self.folder}/spool.%n",
            "SlurmctldPidFile": f"{self.folder}/slurmctld.pid",
            "SlurmdPidFile": f"{self.folder}/slurmd.%n.pid",
            "SlurmctldLogFile": f"{self.folder}/slurmctld.log",
            "SlurmdLogFile": f"{self.folder}/slurmd.%n.log",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "MpiDefault": "none",
            "MailProg": "/bin/true",
            "JobAcctGatherType": "jobacct_gather/none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_CPU",
            "SchedulerType": "sched/backfill",
            "SchedulerParameters": SCHEDULER,
            "SlurmdParameters": "config_overrides",
            "GresTypes": "gpu",
            "MaxJobCount": 50_000,
            "MaxArraySize": 20_001,
            "MinJobAge": 10,
            "ReturnToService": 2,
            "SlurmctldDebug": "error",
            "SlurmdDebug": "error",
            "AccountingStorageType": "accounting_storage/none",
        }
        if self.accounting:
            lines |= {
                "AccountingStorageType": "accounting_storage/slurmdbd",
                "AccountingStorageHost": "127.0.0.1",
                "AccountingStoragePort": accounting,
                "AccountingStoragePass": f"{self.folder}/munge.sock",
            }
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        for number, port in enumerate(nodes, 1):
            text += (
                f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=64 Gres=gpu:{self.gpus}\n"
            )
        text += "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO\n"
        self._write("slurm.conf", text)
        # slurmd drops GPUs without a file: plain ones stand for devices, which nobody opens
        for index in range(self.gpus):
            self._write(f"gpu{index}", "")
        self._write("gres.conf", f"AutoDetect=off\nName=gpu File={self.folder}/gpu[0-{self.gpus - 1}]\n")
        self._write("cgroup.conf", "CgroupPlugin=cgroup/v1\n")
        self._write(
            "slurmdbd.conf",
            f"AuthType=auth/munge\nAuthInfo=socket={self.folder}/munge.sock\nDbdHost=localhost\nDbdAddr=127.0.0.1\n"
            f"DbdPort={accounting}\nSlurmUser=root\nStorageType=accounting_storage/mysql\nStorageHost=localhost\n"
            f"StorageUser=root\nStorageLoc=bench\nPidFile={self.folder}/slurmdbd.pid\n"
            f"LogFile={self.folder}/slurmdbd.log\nDebugLevel=error\n",
        )
        (self.folder / "state").mkdir()

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        places = {"key-file": key.name, "socket": "munge.sock", "pid-file": "munge.pid", "log-file": "munge.log"}
        options = [
            f"--{option}={self.folder / name}" for option, name in (places | {"seed-file": "munge.seed"}).items()
        ]
        self._start("munged", "--foreground", "--force", "--num-threads=10", *options)
        self._await("munged", (self.folder / "munge.sock").exists)

    def _start_accounting(self) -> None:
        data = self.folder / "mariadb"
        self.run("mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root", "--skip-test-db")
        self._start(
            *("mariadbd", "--no-defaults", f"--datadir={data}", "--user=root", "--skip-networking"),
            *(f"--socket={self.folder}/mariadb.sock", f"--pid-file={self.folder}/mariadb.pid"),
            *("--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=2", "--innodb-lock-wait-timeout=900"),
        )
        self._await("mariadbd", (self.folder / "mariadb.sock").exists)
        self._start("slurmdbd", "-D")
        self._await("slurmdbd", lambda: self._answers("sacctmgr", "-n", "list", "cluster"))
        self.run("sacctmgr", "-i", "add", "cluster", "bench")

    def _start_slurm(self) -> None:
        self._start("slurmctld", "-D", "-c")
        self._await("slurmctld", lambda: self._answers("scontrol", "ping"))
        for number in range(1, self.nodes + 1):
            self._start("slurmd", "-D", "-N", f"n{number}")
        self._await("its nodes", lambda: self._answers("sinfo", "-h", "-t", "idle", "-o", "%D") == str(self.nodes))

    def _start(self, *words: str) -> None:
        group = self.slurmds if words[0] == "slurmd" else self.head
        counted = ["sh", "-c", 'echo $$ >"$0"; exec "$@"', group.entrance, *words]
        with (self.folder / f"{words[0]}.out").open("ab") as log:
            child = subprocess.Popen(counted, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._daemons.append(child)

    def _answers(self, *words: str) -> str:
        """What it prints; "" for a failure."""
        done = subprocess.run(
            words, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        return (done.stdout.strip() or "yes") if done.returncode == 0 else ""

    def _await(self, what: str, condition: Callable[[], object]) -> None:
        daemon = self._daemons[-1]

        def there() -> bool:
            if daemon.poll() is not None:
                raise BenchError(f"{what} ended: {self._last_words()}")
            return bool(condition())

        try:
            wait_until(what, there, pause_s=0.1, limit_s=40)
        except BenchError as error:
            raise BenchError(f"{error}: {self._last_words()}") from None

    def _last_words(self) -> str:
        texts = [path.read_text(errors="replace")[-300:] for path in sorted(self.folder.glob("*.[lo][ou][gt]"))]
        return " / ".join(text.strip() for text in texts if text.strip())[-1500:]


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(END_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
