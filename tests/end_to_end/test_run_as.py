"""run_as: submitter, via login: jobs of two users under accounts of theirs, who are nobody to each other."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator

import pytest

from tests.end_to_end.cluster import until
from tests.end_to_end.office import EVE, THERE, USERS, Office, opened
from tests.end_to_end.test_mpi import KINDS
from tests.end_to_end.test_shared import ANN, BOB


@pytest.fixture(scope="module")
def house(swept: None, lab_prefix: Callable[[], str]) -> Iterator[Office]:
    with opened(lab_prefix) as made:
        yield made


@pytest.fixture
def office(house: Office) -> Iterator[Office]:
    """Both have enrolled."""
    for name in (ANN, BOB):
        house.enroll(name)
    yield house
    house.clear()


def test_who_has_not_enrolled_waits_until_then(house: Office) -> None:
    house.expel(ANN)
    job = house.submit(ANN, "-G", "1", "id -un")
    waits = house.await_job(ANN, job, "PENDING", reason="LoginRefused")
    assert f"{ANN} (as alice there) is not enrolled: {ANN} runs `mgpu enroll` once" in house.ok(ANN, "why", str(job))
    tried = house(ANN, "enroll")
    assert tried.returncode == 1
    assert tried.stdout.count(f"is not enrolled: {ANN} runs") == 2
    installed = house(ANN, "enroll", "--install")
    assert (installed.returncode, installed.stdout.count(" ok")) == (0, 2), installed
    assert house.await_job(ANN, job)["state"] == "COMPLETED"
    assert (waits["attempt"], house.job(ANN, job)["attempt"]) == (0, 1)
    assert house.ok(ANN, "logs", str(job)) == "alice\n"
    nodes = json.loads(house.ok(ANN, "--json", "nodes"))["nodes"]
    assert [node["state"] for node in nodes] == ["UP", "UP"]
    keys = house.lab.nodes[0].run("cat .ssh/authorized_keys", user="alice").stdout.splitlines()
    assert [line.split(" ")[0] for line in keys] == ["ssh-ed25519", "restrict"]


def test_who_is_refused_is_told_so_in_a_line(office: Office) -> None:
    refused = office(EVE, "submit", "-G", "1", "true")
    assert refused.returncode == 77
    assert len(refused.stderr.splitlines()) == 1
    assert f"{EVE} may run no jobs here" in refused.stderr
    root = office("root", "submit", "-G", "1", "true")
    assert (root.returncode, "no jobs run as root here" in root.stderr) == (77, True), root


def test_two_users_on_one_node_and_neither_reads_the_other(office: Office) -> None:
    line = "id -un; sleep 60"
    jobs = {
        name: office.submit(name, "-G", "1", "-w", "node001", "-D", f"/home/{there}", "-o", "out.%j", line)
        for name, there in THERE.items()
    }
    for name, job in jobs.items():
        office.await_running(name, job)
    node = office.lab.nodes[0]
    places = node.run("ls -d /home/*/.mgpu /home/*/.mgpu/*/node001/*.*; ls /home/train/.mgpu || :", user="root").stdout
    for name, there in THERE.items():
        directory = next(line for line in places.splitlines() if line.endswith(f"/{jobs[name]}.1"))
        assert directory.startswith(f"/home/{there}/.mgpu/")
        assert node.run(f"stat -c '%U %a' {directory}", user="root").stdout == f"{there} 700\n"
        for other in {"alice", "bob", "train"} - {there}:
            assert node.run(f"cat {directory}/stdout", user=other, check=False).returncode
        out = f"/home/{there}/out.{jobs[name]}"

        def written(out: str = out, there: str = there) -> bool:
            return node.run(f"cat {out}", user="root", check=False).stdout == f"{there}\n"

        until("its own file", written)
        assert node.run(f"stat -c %U {out}", user="root").stdout == f"{there}\n"
    until("both outputs", lambda: [office(name, "logs", str(job)).stdout for name, job in jobs.items()]
          == ["alice\n", "bob\n"])  # fmt: skip
    assert "ssh -p 22 -l alice -o HostName=" in office.ok(ANN, "show", str(jobs[ANN]))
    assert office(BOB, "cancel", str(jobs[ANN])).returncode == 77
    office.ok(BOB, "cancel", str(jobs[BOB]))
    assert office.await_job(BOB, jobs[BOB])["state"] == "CANCELLED"
    assert office.job(ANN, jobs[ANN])["state"] == "RUNNING"
    assert "sleep" not in node.run("ps -u bob -o comm= || :", user="root").stdout


def test_what_leaves_the_session_of_a_job_is_no_outsider(office: Office) -> None:
    job = office.submit(ANN, "-G", "1", "-w", "node001", "setsid sleep 61 & sleep 60")
    office.await_running(ANN, job)

    def seen() -> list[dict[str, str]]:
        office.ok(ANN, "node", "probe", "node001")
        [gpu] = [
            gpu for gpu in json.loads(office.ok(ANN, "--json", "show", "node", "node001"))["gpus"] if gpu["job_id"]
        ]
        return [gpu] if len(gpu["processes"]) == 2 else []

    [gpu] = until("both of its processes", seen)
    assert (gpu["state"], gpu["reason"]) == ("allocated", f"held by job {job}")


def test_in_the_foreground_with_stdin_over_two_nodes_and_on_a_terminal(office: Office) -> None:
    assert office.ok(BOB, "srun", "-G", "1", "sh", "-c", "id -un; cat", given="typed\n") == "bob\ntyped\n"
    both = office.ok(BOB, "srun", "-N", "2", "--gpus-per-node", "4", "sh", "-c", "echo $MGPU_RANK $(id -un)")
    assert sorted(both.splitlines()) == ["0 bob", "1 bob"]
    shown = office.on_terminal(ANN, "srun", "-G", "1", "--pty", "--", "sh", "-c", "tty; id -un")
    assert ("/dev/pts/" in shown, "alice" in shown) == (True, True), shown


def test_an_account_says_nothing_of_the_jobs_of_others(office: Office) -> None:
    """The events lie in its home, where it writes what it likes."""
    jobs = {name: office.submit(name, "-G", "1", "-w", "node001", "sleep 60") for name in (ANN, BOB)}
    for name, job in jobs.items():
        office.await_running(name, job)
    lines = "".join(f"{jobs[name]}.1 requeue\\n" for name in (BOB, ANN))
    office.lab.nodes[0].run(f"printf '{lines}' >>$(echo ~/.mgpu/*/node001/events)", user="alice")
    until("her own is heard", lambda: office.job(ANN, jobs[ANN])["attempt"] == 2)
    assert (office.job(BOB, jobs[BOB])["state"], office.job(BOB, jobs[BOB])["attempt"]) == ("RUNNING", 1)


def test_what_is_shipped_is_theirs(office: Office) -> None:
    tree = office.folder / ANN / "tree"
    tree.mkdir(exist_ok=True)
    (tree / "data").write_text("along\n")
    shutil.chown(tree, ANN)
    line = "cat data; stat -c '%U %a' ."
    assert office.ok(ANN, "srun", "-G", "1", f"--ship={tree}", "sh", "-c", line) == "along\nalice 700\n"


@pytest.mark.skipif(not KINDS, reason="no MPI here: scripts/test installs it")
def test_mpi(office: Office) -> None:
    words = ("-N", "2", "--gpus-per-node", "1", *map(str, KINDS[-1].words("id", "-un")))
    assert office.ok(BOB, "srun", *words) == "bob\nbob\n"


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_a_job_outlives_the_master(office: Office, end: str) -> None:
    job = office.submit(ANN, "-G", "1", "echo before; until [ -e ~/go ]; do sleep 0.2; done; echo after; rm ~/go")
    office.await_running(ANN, job)
    if end == "kill":
        office.kill()
    else:
        office.close()
    office.start()
    node = office.job(ANN, job)["allocation"][0]["node"]
    office.lab.node(node).run("touch go", user="alice")
    assert office.await_job(ANN, job)["state"] == "COMPLETED"
    until("all of its output", lambda: office(ANN, "logs", str(job)).stdout == "before\nafter\n")
    assert office.job(ANN, job)["attempt"] == 1


def test_an_account_that_is_closed_meanwhile(office: Office) -> None:
    """What runs is out of sight, and seen again; what waits says why, and nothing is held against the nodes."""
    run = office.submit(ANN, "-G", "1", "-w", "node001", "sleep 3; echo ended")
    office.await_running(ANN, run)
    for node in office.lab.nodes:
        node.run("usermod -s /usr/sbin/nologin alice", user="root")
        node.fault("sshd", "restart")
    office.lab.nodes[0].fault("sshd", "kill")
    office.lab.nodes[0].fault("sshd", "start")
    office.await_job(ANN, run, "RUNNING", reason="ContactLost")
    time.sleep(5)  # longer than an answer counts
    waits = office.submit(ANN, "-G", "1", "echo later")
    told = office.await_job(ANN, waits, "PENDING", reason="LoginRefused")
    assert "not available" in office.ok(ANN, "why", str(waits)), told
    assert office.ok(BOB, "srun", "-G", "1", "-w", "node001", "id", "-un") == "bob\n"
    for node in office.lab.nodes:
        node.run("usermod -s /bin/sh alice", user="root")
    assert office(ANN, "enroll").returncode == 0
    assert office.await_job(ANN, waits)["state"] == "COMPLETED"
    assert office.await_job(ANN, run)["state"] == "COMPLETED"
    assert (office.job(ANN, run)["attempt"], office.job(ANN, waits)["attempt"]) == (1, 1)


@pytest.mark.parametrize("shell", ["/usr/bin/csh", "/usr/bin/fish", "/bin/bash"])
def test_whatever_shell_they_have(office: Office, shell: str) -> None:
    node = office.lab.nodes[1]
    if node.run(f"test -x {shell}", check=False).returncode:
        pytest.skip(f"no {shell} here")
    before = node.run("getent passwd bob", user="root").stdout.strip().rpartition(":")[2]
    node.run(f"usermod -s {shell} bob", user="root")
    node.fault("sshd", "kill")
    node.fault("sshd", "start")
    try:
        assert office.ok(BOB, "srun", "-G", "1", "-w", "node002", "id", "-un") == "bob\n"
    finally:
        node.run(f"usermod -s {before} bob", user="root")


def test_an_account_that_is_gone_for_good(office: Office) -> None:
    """Its job is given up by an operator's word, and the node goes on working for all others."""
    node = office.lab.nodes[1]
    job = office.submit(ANN, "-G", "1", "-w", "node002", "--retries", "0", "--no-requeue", "sleep 600")
    office.await_running(ANN, job)
    node.run("cp /etc/passwd /etc/passwd.all; sed -i /^alice:/d /etc/passwd", user="root")
    try:
        node.fault("sshd", "kill")
        node.fault("sshd", "start")
        office.await_job(ANN, job, "RUNNING", reason="ContactLost")
        office.ok("root", "node", "down", "node002", "--yes")
        assert office.await_job(ANN, job)["state"] == "NODE_FAIL"
        assert office.ok(BOB, "srun", "-G", "1", "-w", "node002", "id", "-un") == "bob\n"
        more = office.submit(ANN, "-G", "1", "-w", "node002", "true")
        office.await_job(ANN, more, "PENDING", reason="ReqNodeNotAvail")
    finally:
        node.run("cat /etc/passwd.all >/etc/passwd", user="root")
    office.ok(ANN, "enroll")
    assert office.await_job(ANN, more, patience_s=60)["state"] == "COMPLETED"
    until(
        "what was given up is ended", lambda: "sleep" not in node.run("ps -u alice -o comm= || :", user="root").stdout
    )


def test_the_doctor_says_whether_ones_jobs_can_start(office: Office) -> None:
    office.expel(BOB)
    for name, said in ((ANN, ("ok", "")), (BOB, ("failure", "mgpu enroll node001"))):
        done = office(name, "doctor", "node001", "--json")
        assert done.stdout, done.stderr
        told = json.loads(done.stdout)
        found = [each for node in told["nodes"] for each in node["findings"] if each["check"] == "own jobs"]
        assert [(each["status"], each["hint"]) for each in found] == [said]


def test_a_new_key(office: Office) -> None:
    """As docs/accounts.md says: the old one opens nothing any more once its line is removed."""
    run = office.submit(ANN, "-G", "1", "-w", "node001", "sleep 4; echo ended")
    office.await_running(ANN, run)
    before = office.ok(ANN, "enroll", "--print")
    office.close()
    (office.state / "enrolled_ed25519").unlink()
    office.start()
    assert office(ANN, "enroll").returncode == 1
    assert office.ok(ANN, "enroll", "--print") != before
    assert office(ANN, "enroll", "--install").returncode == 0
    for node in office.lab.nodes:
        node.run(f"sed -i '\\|{before.split()[2]}|d' .ssh/authorized_keys", user="alice")
    assert office.await_job(ANN, run)["state"] == "COMPLETED"
    assert office.ok(ANN, "srun", "-G", "1", "id", "-un") == "alice\n"


@pytest.mark.parametrize(("origin", "status"), [("10.0.0.0/8", 0), ("192.0.2.1", 1)])
def test_from_where_the_master_may_come(office: Office, origin: str, status: int) -> None:
    office.expel(BOB)
    installed = office(BOB, "enroll", "--install", "--from", origin)
    assert installed.returncode == status, installed
    office.expel(BOB)


def test_there_and_back_while_jobs_run(office: Office) -> None:
    """What runs is looked after under the account that it has, whatever the configuration says by now."""
    apart = office.config.read_text()

    def as_of_now(text: str) -> None:
        before = json.loads(office.ok("root", "--json", "status"))["instance"]
        office.config.write_text(text)
        office.ok("root", "config", "reload")

        def another() -> bool:
            told = office("root", "--json", "status")
            return told.returncode == 0 and json.loads(told.stdout)["instance"] != before

        until("the other master", another)

    line = "id -un; until [ -e ~/go ]; do sleep 0.2; done; rm ~/go"
    jobs = [office.submit(ANN, "-G", "1", "-w", "node001", line)]
    office.await_running(ANN, jobs[0])
    try:
        as_of_now(apart.replace("run_as: submitter", "run_as: service").replace(USERS, ""))
        jobs.append(office.submit(ANN, "-G", "1", "-w", "node001", line))
        office.await_running(ANN, jobs[1])
        office.lab.nodes[0].run("touch go", user="alice")
        assert office.await_job(ANN, jobs[0])["state"] == "COMPLETED"
    finally:
        as_of_now(apart)
    office.lab.nodes[0].run("touch go", user="train")
    assert office.await_job(ANN, jobs[1])["state"] == "COMPLETED"
    for job, account in zip(jobs, ("alice", "train"), strict=True):
        until("its output", lambda job=job, said=f"{account}\n": office(ANN, "logs", str(job)).stdout == said)
        assert office.job(ANN, job)["attempt"] == 1
