"""A master for all: who asks is known by the kernel, what they may do and see by that alone."""

import os
import subprocess
import sys
from dataclasses import replace
from itertools import chain

import pytest

from mgpu.api import connection
from mgpu.core.errors import NotAllowed, RequestError
from mgpu.core.logins import Logins
from mgpu.core.model import JobId
from mgpu.ops import audit, cancel, jobs, nodes, preflight, reload, status
from mgpu.ops.audit import TOLD_ONE_BY_ONE
from mgpu.ops.context import Caller
from mgpu.ops.since import parse_since
from mgpu.store.filters import JobFilter
from mgpu.users import user_name
from tests.api.conftest import submission

ANN, BOB = Caller(70001, "ann", "socket"), Caller(70002, "bob", "socket")


@pytest.fixture
def shared(served):
    """Run by somebody else, so that we are an admin by nothing."""
    served.restart_shared(owner_uid=70000)
    return served


def of(served, caller):
    from mgpu.ops.submit import submit

    return submit(served.context, caller, submission(os.urandom(4).hex(), job_name="secret-plan")).job_id


def as_privacy(served, privacy):
    served.context = replace(served.context, config=replace(served.context.config, privacy=privacy))
    return served.context


def listed(context, caller, **wanted):
    return list(chain(*jobs.list_jobs(context, caller, JobFilter(**wanted))))


def test_the_socket_is_open_to_all_or_to_a_group(served):
    served.restart_shared()
    assert served.path.stat().st_mode & 0o777 == 0o666
    group = os.getgid()
    import grp

    served.restart_shared(socket_group=grp.getgrgid(group).gr_name)
    assert served.path.stat().st_mode & 0o777 == 0o660
    assert served.path.stat().st_gid == group


def test_a_group_that_the_master_is_not_of_comes_into_force_by_no_reload(monkeypatch):
    import grp

    group = grp.getgrgid(os.getgid()).gr_name
    monkeypatch.setattr(os, "geteuid", lambda: 70000)
    reload.require_of(group)
    reload.require_of("")
    monkeypatch.setattr(os, "getegid", lambda: 70000)
    monkeypatch.setattr(os, "getgroups", lambda: [70001])
    with pytest.raises(reload.CannotReload, match=f"is not of the group {group}") as refused:
        reload.require_of(group)
    assert f"usermod -aG {group}" in refused.value.hint


def test_what_the_body_says_of_who_asks_counts_for_nothing(shared):
    body = {**submission("0" * 8), "user": "ann", "uid": 70001}
    status, answer = shared.ask("POST", "/v1/jobs", body)
    assert status in (201, 400)
    if status == 201:
        assert shared.ask("GET", f"/v1/jobs/{answer['job_id']}")[1]["user"] == user_name(os.getuid())


def test_a_job_of_somebody_else_is_not_touched_and_the_try_is_told(shared):
    job_id = of(shared, ANN)
    wish = {"request_id": "1" * 8, "ids": [job_id]}
    answer = cancel.cancel(shared.context, BOB, wish)
    assert [error["code"] for error in answer["errors"]] == ["not_allowed"]
    with pytest.raises(NotAllowed):
        nodes.give_up(shared.context, BOB, "gpu01")
    told = audit.list_entries(shared.context, BOB, {"refused": "1"})["audit"]
    assert [(row["user"], row["uid"], row["action"], row["job_id"], row["origin"]) for row in told] == [
        ("bob", 70002, "cancel", job_id, "socket")
    ]
    assert "belongs to ann" in told[0]["detail"]


@pytest.mark.skipif(os.getuid() == 0, reason="root is an admin")
def test_a_refused_request_is_a_row_through_the_api(shared):
    assert shared.ask("POST", "/v1/nodes/gpu01/down")[0] == 403
    (row,) = shared.ask("GET", "/v1/audit?refused=1")[1]["audit"]
    assert (row["action"], row["node"], row["result"]) == ("node down", "gpu01", "refused")


def test_refusals_of_whole_requests_are_rows(served, monkeypatch):
    monkeypatch.setattr("mgpu.api.app.caller_of", lambda _request: BOB)
    served.restart_shared(owner_uid=70000)
    job_id = of(served, ANN)
    asked = [
        ("POST", "/v1/stop", "stop"),
        ("POST", "/v1/restart", "restart"),
        ("POST", "/v1/reload", "reload"),
        ("POST", "/v1/nodes/gpu01/drain", "node drain"),
        ("POST", "/v1/nodes/gpu01/resume", "node resume"),
        ("POST", "/v1/nodes/gpu01/down", "node down"),
        ("POST", "/v1/nodes/gpu01/trust", "trust"),
        ("POST", "/v1/nodes/gpu01/clean", "node clean"),
        ("GET", "/v1/nodes/gpu01/residue", "residue"),
        ("POST", f"/v1/jobs/{job_id}/update", "update"),
        ("GET", f"/v1/jobs/{job_id}/output", "logs"),
        ("GET", f"/v1/jobs/{job_id}/stream", "follow"),
    ]
    body = {"request_id": "2" * 8, "job_name": "x"}
    for method, path, _ in asked:
        assert served.ask(method, path, body if method == "POST" else None)[0] == 403, path
    rows = served.ask("GET", "/v1/audit?refused=1")[1]["audit"]
    assert [row["action"] for row in rows] == [what for _, _, what in asked]
    assert {row["job_id"] for row in rows[-3:]} == {job_id}
    assert {row["node"] for row in rows[3:9]} == {"gpu01"}


def test_who_is_no_admin_hears_of_their_own_alone(shared):
    theirs, own = of(shared, ANN), of(shared, BOB)
    cancel.cancel(shared.context, Caller(0, "root"), {"request_id": "1" * 8, "ids": [own]})
    rows = audit.list_entries(shared.context, BOB, {})["audit"]
    assert [(row["user"], row["action"]) for row in rows if row["user"] != "master"] == [
        ("bob", "submit"),
        ("root", "cancel"),
    ]
    assert {row["job_id"] for row in rows} == {own}
    assert audit.list_entries(shared.context, BOB, {"job": str(theirs)})["audit"] == []
    everything = audit.list_entries(shared.context, Caller(0, "root"), {"user": "ann"})["audit"]
    assert [row["job_id"] for row in everything] == [theirs]


def test_who_names_many_jobs_of_others_does_not_fill_the_audit(shared):
    ids = [of(shared, ANN) for _ in range(TOLD_ONE_BY_ONE + 3)]
    answer = cancel.cancel(shared.context, BOB, {"request_id": "1" * 8, "ids": ids})
    assert len(answer["errors"]) == len(ids)
    rows = audit.list_entries(shared.context, BOB, {"refused": "1"})["audit"]
    assert [row["job_id"] for row in rows] == [*ids[:TOLD_ONE_BY_ONE], None]
    assert rows[-1]["detail"] == f"3 more jobs of others: {','.join(map(str, ids[-3:]))}"


def test_what_troubles_the_master_is_for_its_admins(shared):
    told, hidden = (status.status(shared.context, caller) for caller in (Caller(0, "root"), BOB))
    assert (told["mode"], told["errors"]) == ("shared", ["gpu02: no route to host"])
    assert "HOME" in told["environment"]
    assert (hidden["errors"], hidden["environment"], hidden["queue"]) == ([], None, told["queue"])


def test_a_submitter_looks_at_nodes_with_their_own_eyes(shared):
    preflight.preflight(shared.context, BOB, {"nodes": "2", "cwd": "/home/ann"})
    assert shared.desk.inquired_as == ""
    logins = Logins({"bob": "robert", "carol": "none"})
    config = replace(shared.context.config, run_as="submitter", logins=logins)
    context = replace(shared.context, config=config)
    preflight.preflight(context, BOB, {"nodes": "2"})
    assert shared.desk.inquired_as == "robert"
    with pytest.raises(NotAllowed):
        preflight.preflight(context, Caller(70003, "carol"), {"nodes": "2"})


# The keys; what some of them hold is taken out.
TOLD_OF_OTHERS = {
    "account", "allocation", "attempt", "attempts", "begin", "command", "cpus_per_task", "dependency", "detail",
    "device_trouble", "end_time", "exit_code", "failed_rank", "gpus", "held", "idle_since", "input", "job_id", "kind",
    "launcher", "mem_mib", "name", "nice", "nodes", "ntasks_per_node", "partition", "priority", "reason", "start_time",
    "state", "stop", "submit_time", "time_limit_s", "use", "user",
}  # fmt: skip


def test_what_others_see_of_a_job(shared):
    job_id = of(shared, ANN)
    (row,) = listed(as_privacy(shared, "full"), BOB)
    assert (row["user"], row["name"], row["command"] != []) == ("ann", "secret-plan", True)
    (row,) = listed(as_privacy(shared, "names"), BOB)
    assert (row["user"], row["name"], row["command"], row["detail"]) == ("ann", "secret-plan", [], "")
    context = as_privacy(shared, "none")
    (row,) = listed(context, BOB)
    assert (row["user"], row["name"], row["command"], row["gpus"], row["state"]) == ("", "", [], 1, "PENDING")
    shown = jobs.show_job(context, BOB, jobs.parse_reference(str(job_id)))
    assert "secret-plan" not in str(shown) and "ann" not in str(shown).replace("announce", "")
    assert set(shown) == TOLD_OF_OTHERS, "what is new is for others to see, or stands in ops.privacy"
    assert "ann" not in str(jobs.why(context, BOB, jobs.parse_reference(str(job_id))))
    for caller in (ANN, Caller(0, "root"), Caller(70000, "gpuq")):
        assert [(row["user"], row["name"]) for row in listed(context, caller)] == [("ann", "secret-plan")]


def test_without_names_nothing_is_found_by_them(shared):
    of(shared, ANN)
    own = of(shared, BOB)
    context = as_privacy(shared, "none")
    assert listed(context, BOB, user="ann") == []
    assert [row["job_id"] for row in listed(context, BOB, name="secret-plan")] == [own]
    assert [row["job_id"] for row in listed(context, BOB, user="bob")] == [own]


def test_without_names_a_refusal_tells_none_and_a_wish_finds_nothing_by_them(shared):
    theirs, own = of(shared, ANN), of(shared, BOB)
    context = as_privacy(shared, "none")
    wish = {"request_id": "1" * 8}
    (refused,) = cancel.cancel(context, BOB, {**wish, "ids": [theirs]})["errors"]
    assert refused["message"] == f"job {theirs} is somebody else's: bob may not cancel it"
    nothing = {"cancelled": [], "errors": []}
    assert cancel.cancel(context, BOB, {**wish, "user": "ann"}) == nothing
    assert cancel.cancel(context, BOB, {**wish, "ids": [theirs], "user": "ann"}) == nothing
    assert cancel.cancel(context, BOB, {**wish, "ids": [theirs], "name": "secret-plan"}) == nothing
    assert "ann" not in str(audit.list_entries(context, BOB, {}))
    both = {**wish, "ids": [theirs, own], "name": "secret-plan"}
    assert cancel.cancel(context, BOB, both) == {"cancelled": [own], "errors": []}


def test_what_runs_on_a_gpu_of_somebody_else(shared):
    job_id = of(shared, ANN)
    holder = shared.store.read()
    with holder as r:
        job = r.job(JobId(job_id))
    from mgpu.ops.privacy import sight_of

    row = {"user": "ann", "processes": [{"pid": 1, "user": "ann", "command": "python plan.py"}]}
    none = sight_of(as_privacy(shared, "none"), BOB).on_gpu(job, row)
    assert none == {"user": "", "processes": [{"pid": 1, "user": "", "command": ""}]}
    names = sight_of(as_privacy(shared, "names"), BOB).on_gpu(job, row)
    assert names == {"user": "ann", "processes": [{"pid": 1, "user": "ann", "command": ""}]}
    assert sight_of(shared.context, BOB).on_gpu(None, row) == row  # nobody queued it: told as it is


NOW = 1_800_000_000.0  # 2027-01-15 08:00 UTC


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("2h", NOW - 7200),
        ("7 days", NOW - 7 * 86400),
        ("now-1hour", NOW - 3600),
        ("07:30", NOW - 1800),
        ("09:00", NOW - 23 * 3600),
        ("yesterday", NOW - 32 * 3600),
        ("2027-01-14", NOW - 32 * 3600),
        ("2027-01-14T08:00", NOW - 86400),
        ("01/16", NOW - 364 * 86400 - 8 * 3600),
    ],
)
def test_since_looks_back(text, since):
    from datetime import timezone

    assert parse_since(text, NOW, timezone.utc) == since


@pytest.mark.parametrize("text", ["soon", "h", "25:00", "2027-13-01", "-"])
def test_since_that_cannot_be_read(text):
    with pytest.raises(RequestError, match="--since"):
        parse_since(text, NOW)


def test_who_dials_is_told_from_who_is_here():
    assert not connection._dials(os.getpid())
    assert not connection._dials(1 << 30)
    words = [sys.executable, "-c", "print(flush=True); input()", "dial-stdio"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # before, it may still be us
        assert connection._dials(process.pid)
        process.communicate(b"\n")
