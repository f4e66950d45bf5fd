"""The client against a master's API over a real store."""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from mgpu import AsyncClient, Client, Job, JobFailed, MasterError, NoMaster, Refused
from mgpu.core.model import CommandForm, JobId, JobState
from tests.api.conftest import Served


def test_a_job_is_queued_and_seen(client: Client, served: Served) -> None:
    made = client.submit(
        ["python", "train.py", "--lr", "0.1"], gpus=2, time=timedelta(minutes=90), job_name="t", export={"A": "1,2"}
    )
    stored = served.job(JobId(made.job_id))
    assert stored.spec.command.words == ("python", "train.py", "--lr", "0.1")
    assert (stored.spec.time_limit_s, stored.spec.name, stored.spec.submit_dir) == (5400, "t", str(Path.cwd()))
    assert served.store.exports.read(stored.spec.exports) == {"A": "1,2"}
    [seen] = client.queue(me=True)
    assert (seen.job_id, seen.state, seen.gpus, seen.time_limit_s) == (made.job_id, "PENDING", 2, 5400)
    assert seen.submit_time is not None
    assert abs(seen.submit_time - datetime.now(timezone.utc)) < timedelta(hours=1)
    assert client.job(made) == seen
    assert f"afterok:{made}" == f"afterok:{made.job_id}"
    assert not seen.ended


FORMS = [
    ("cd x && make", (), CommandForm.SHELL, ("cd x && make",), ""),
    ("train", ("--lr", 1), CommandForm.ARGV, ("train", "--lr", "1"), ""),
    (["sh", "-c", "true"], ("x",), CommandForm.ARGV, ("sh", "-c", "true", "x"), ""),
    ("job.sh", ("1",), CommandForm.SCRIPT, ("1",), "job.sh"),
    (Path("job.sh"), (), CommandForm.SCRIPT, (), "job.sh"),
    ("#!/bin/sh\necho\n", ("a",), CommandForm.SCRIPT, ("a",), "script"),
]


@pytest.mark.parametrize(("command", "args", "form", "words", "name"), FORMS)
def test_what_runs_is_read_as_the_commands_do(
    client: Client, served: Served, command: Any, args: Any, form: CommandForm, words: tuple[str, ...], name: str
) -> None:
    Path("job.sh").write_text("#!/bin/sh\necho $1\n")
    read = served.job(JobId(client.submit(command, args).job_id)).spec.command
    assert (read.form, read.words, read.script_name) == (form, words, name)


def test_a_scripts_own_options_count_less_than_keywords(client: Client, served: Served) -> None:
    Path("job.sh").write_text("#!/bin/sh\n#SBATCH --gres=gpu:2 --time=5\n#MGPU --nope\ntrue\n")
    made = client.submit("job.sh", time=60)
    spec = served.job(JobId(made.job_id)).spec
    assert (spec.request.gpus_per_node, spec.time_limit_s) == (2, 60)
    assert any("--nope" in notice for notice in made.notices)


def test_what_cannot_run_is_told_before_anybody_is_asked(client: Client) -> None:
    with pytest.raises(FileNotFoundError):
        client.submit(Path("nope.sh"))
    with pytest.raises(TypeError, match="list of words"):
        client.submit(None)
    with pytest.raises(TypeError, match="among the words"):
        client.submit(["sleep", 3])  # type: ignore[list-item]


def test_what_the_master_refuses_is_an_error_with_code_and_hint(client: Client) -> None:
    with pytest.raises(MasterError, match="needs 77 GPUs") as refused:
        client.submit(["true"], gpus=77)
    assert (refused.value.code, refused.value.exit_code) == ("bad_request", 2)
    with pytest.raises(MasterError) as missing:
        client.job(99)
    assert missing.value.code == "not_found"


def test_the_same_request_or_key_is_the_same_job(client: Client) -> None:
    first = client.submit(["true"], request_id="ab" * 8)
    assert client.submit(["true"], request_id="ab" * 8) == first.__class__(first.job_id, False)
    keyed = client.submit(["true"], key="run 7")
    again = client.submit(["true"], key="run 7")
    assert (again.job_id, again.created) == (keyed.job_id, False)
    with pytest.raises(MasterError, match="asked for otherwise"):
        client.submit(["false"], key="run 7")


def test_variables_and_the_users_own_file_hold_as_for_a_command(
    client: Client, served: Served, clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = clean_home / ".config/mgpu"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("setup: source x\nexclusive: true\nenv: {OWN: '1'}\n")
    monkeypatch.setenv("MGPU_PRIORITY", "-5")
    spec = served.job(JobId(client.submit(["true"]).job_id)).spec
    assert (spec.setup, spec.request.exclusive, spec.priority) == ("source x", True, -5)
    spec = served.job(JobId(client.submit(["true"], exclusive=False, priority=-1, setup="").job_id)).spec
    assert (spec.request.exclusive, spec.priority) == (False, -1)


def test_a_mistake_in_many_leaves_none(client: Client) -> None:
    made = client.submit_many([["a"], (["b"], {"gpus": 2, "args": ["x"]}), "c d"], gpus=1, hold=True)
    assert [one.created for one in made] == [True] * 3
    queued = client.queue()
    assert [(job.job_id, job.command, job.gpus) for job in queued] == [
        (made[0].job_id, ("a",), 1),
        (made[1].job_id, ("b", "x"), 2),
        (made[2].job_id, ("c d",), 1),
    ]
    with pytest.raises(MasterError, match=r"job 2 of 3: .*needs 77 GPUs"):
        client.submit_many([["a"], (["b"], {"gpus": 77}), ["c"]])
    assert len(client.queue()) == 3
    assert client.submit_many([]) == []


def test_jobs_are_chosen_by_number_or_filter(client: Client) -> None:
    jobs = [client.submit(["true"], job_name=name) for name in ("a", "a", "b")]
    assert client.hold(jobs[2]) == [jobs[2].job_id]
    assert client.job(jobs[2]).raw["held"]
    assert client.release(jobs[2].job_id) == [jobs[2].job_id]
    assert sorted(client.cancel(name="a", states=["pending"])) == [jobs[0].job_id, jobs[1].job_id]
    with pytest.raises(MasterError) as over:
        client.cancel(jobs[0])
    assert over.value.code == "already_ended"
    assert not isinstance(over.value, Refused)
    with pytest.raises(Refused) as partly:
        client.cancel(jobs[2], 98, 99)
    assert partly.value.done == (jobs[2].job_id,)
    assert [error.code for error in partly.value.errors] == ["not_found", "not_found"]
    with pytest.raises(TypeError, match="which jobs"):
        client.cancel()
    with pytest.raises(TypeError, match="no filter"):
        client.cancel(jobname="a")


def test_a_running_job_and_its_node(client: Client, served: Served) -> None:
    made = client.submit(["true"])
    job_id = JobId(made.job_id)
    served.start(job_id)
    served.change_job(job_id, state=JobState.RUNNING, attempt=1, start_time=5.0)
    [part] = client.job(made).allocation
    assert (part.node, part.devices, part.uuids, part.pid, part.state) == (
        *("gpu01", (0,), ("GPU-gpu01-0",)),
        *(100, "RUNNING"),
    )
    assert client.signal("USR1", made) == [made.job_id]
    assert [number for _, number in served.desk.signals] == ["10"]
    assert client.update(made, time=7200) == ["time limit 02:00:00"]
    node = client.node("gpu01")
    assert [gpu.state for gpu in node.gpus] == ["allocated", "external"]
    assert (node.gpus[0].job_id, node.gpus[1].processes[0].user, node.free) == (made.job_id, "carol", 0)
    assert [each.node_id for each in client.nodes()] == ["gpu01", "gpu02"]
    assert client.status().pid == os.getpid()
    assert client.status().running == 1


def test_waiting_ends_with_the_job(client: Client, served: Served) -> None:
    jobs = [client.submit(["true"], hold=True) for _ in range(6)]
    with pytest.raises(TimeoutError, match=f"job {jobs[0]}"):
        client.wait(jobs[0], timeout=0.01)
    with pytest.raises(MasterError, match="there is no job 99"):
        client.wait_all([*jobs, 99])

    def end() -> None:
        for number, made in enumerate(jobs):
            state = JobState.FAILED if number == 3 else JobState.COMPLETED
            served.change_job(JobId(made.job_id), state=state, exit_code=number, end_time=9.0)

    thread = threading.Thread(target=end)
    thread.start()
    ended = client.wait_all(jobs, timeout=30)
    thread.join()
    assert [job.job_id for job in ended] == [job.job_id for job in jobs]
    assert client.wait(str(jobs[0])) == ended[0]
    assert [job.succeeded for job in ended] == [True, True, True, False, True, True]
    assert (ended[3].exit_status, ended[3].ended) == (3, True)
    with pytest.raises(MasterError, match="FAILED, exit 3") as failed:
        client.wait(jobs[3], check=True)
    assert (failed.value.code, failed.value.exit_code) == ("job_failed", 3)
    assert [job.job_id for job in client.history(states="FAILED")] == [jobs[3].job_id]


def test_an_array_is_waited_for_as_a_whole(client: Client) -> None:
    made = [client.submit(["true"], array=range(3), hold=True) for _ in range(4)]
    with pytest.raises(TimeoutError):
        client.wait_all(made, timeout=0.01)
    client.cancel(*made)
    assert [job.state for job in client.wait_all(made, timeout=30)] == ["CANCELLED"] * 4


def test_a_task_for_each_line_of_a_file(client: Client, served: Served) -> None:
    Path("runs.txt").write_text("echo a\n\necho b\n")
    made = client.submit(None, each_line="runs.txt", array="%1", gpus=1)
    assert served.job(JobId(made.job_id)).spec.array == "1,3%1"
    with pytest.raises(TypeError, match="leave out the other"):
        client.submit(["true"], each_line="runs.txt")
    with pytest.raises(TypeError, match="no option of a job"):
        client.run(["true"], each_line="runs.txt")


def test_what_ended_since_a_moment(client: Client, served: Served) -> None:
    now = datetime.now(timezone.utc)
    for ago_s in (30.0, 7200.0):
        made = client.submit(["true"])
        served.change_job(JobId(made.job_id), state=JobState.COMPLETED, end_time=now.timestamp() - ago_s)
    assert [job.job_id for job in client.history(since=now - timedelta(hours=1))] == [1]
    assert [job.job_id for job in client.history(since=timedelta(hours=3), until=3600)] == [2]
    assert [job.job_id for job in client.history(limit=1)] == [1]
    assert len(client.history(states=["CD", "failed"])) == 2


def test_when_it_would_start(client: Client) -> None:
    told = client.test(["true"], gpus=1)
    assert told.now
    assert client.queue() == []
    made = client.submit(["true"], hold=True)
    assert client.why(made).ahead is None


def test_threads_share_a_client_and_connections_are_kept(client: Client, served: Served) -> None:
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(20):
                client.submit(["true"], hold=True)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len({job.job_id for job in client.queue()}) == 80
    assert served.server is not None
    assert client.status().raw["connections"]["clients"] <= 4


def test_a_master_that_came_back_is_asked_over_a_new_connection(client: Client, served: Served) -> None:
    made = client.submit(["true"], hold=True)
    served.restart()
    assert client.job(made).state == "PENDING"


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_after_a_fork_each_has_connections_of_its_own(client: Client) -> None:
    client.status()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(len(client.nodes())).encode())
        finally:
            os._exit(0)
    os.close(writer)
    assert client.status().pid == os.getpid()
    assert os.read(reader, 10) == b"2"
    os.close(reader)
    os.waitpid(child, 0)


def test_without_a_master(tmp_path: Path) -> None:
    with Client(str(tmp_path / "none.sock")) as client, pytest.raises(NoMaster) as told:
        client.queue()
    assert told.value.code == "no_master"
    with Client(state_dir=tmp_path / "state", start=False) as client, pytest.raises(NoMaster, match="no master"):
        client.nodes()
    with pytest.raises(MasterError, match="no configuration at"):
        Client(config=tmp_path / "none.yaml")


def test_an_answer_of_another_form_is_an_error_of_ours(peer: Any) -> None:
    peer.answers["GET", "/v1/jobs/17"] = {"job_id": 17}
    peer.answers["GET", "/v1/nodes"] = {"nodes": 3}
    with Client(peer.path) as client:
        for ask in (lambda: client.job(17), client.nodes):
            with pytest.raises(MasterError, match="not the form"):
                ask()


def told_wrong(client: Client) -> Iterator[Callable[[], object]]:
    """Each a slip that Python itself would let pass: the letters of a text, for one, are a list too."""
    yield lambda: client.submit("prog", "--lr 1")
    yield lambda: client.submit(b"prog")  # type: ignore[arg-type]
    yield lambda: client.submit({"prog": 1})  # type: ignore[arg-type]
    yield lambda: client.submit(["prog"], time=math.inf)
    yield lambda: client.submit(["prog"], begin=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))))
    yield lambda: client.submit_many("prog")
    yield lambda: client.wait_all("12")
    yield lambda: list(client.as_ended("12"))
    yield lambda: client.wait(1, timeout="5")  # type: ignore[arg-type]
    yield lambda: client.wait(1, timeout=math.nan)
    yield lambda: client.queue(states=5)
    yield lambda: client.history(since=math.inf)
    yield lambda: asyncio.run(AsyncClient(client.location.endpoint.socket_path).wait_all("12"))


def test_what_cannot_be_meant_is_a_type_error(client: Client) -> None:
    for wrong in told_wrong(client):
        with pytest.raises(TypeError):
            wrong()
    assert client.queue() == []


def test_a_task_is_found_however_its_number_is_written(client: Client) -> None:
    made = client.submit(["true"], array=range(12), hold=True)
    client.cancel(made)
    assert [job.job_id for job in client.wait_all([f"{made}_07", f"{made}_11", f"0{made}_0"])] == [
        f"{made}_7",
        f"{made}_11",
        f"{made}_0",
    ]


def test_errors_come_whole_out_of_worker_processes() -> None:
    missing = MasterError("not_found", "no such job", "look", 7)
    ended = Job.of({"job_id": 17, "state": "FAILED", "exit_code": 3})
    for error in (missing, NoMaster("gone", "wait", cut=True), JobFailed(ended), Refused([1], [missing])):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
        assert repr(vars(again)) == repr(vars(error))
