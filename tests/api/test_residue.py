"""What is left on a node, joined with what the database knows of it, and what of it an operator's word removes."""

from __future__ import annotations

from mgpu.core.model import AttemptState
from mgpu.core.residue import EventsFile, LeaseDirectory, Residue, RunDirectory
from tests.api.conftest import NODES, Served

OTHER = "f" * 32


def run(database: str, key: str, condition: str = "ended", node: str = NODES[0]) -> RunDirectory:
    job_id, attempt = map(int, key.split("."))
    return RunDirectory(f"{database}/{node}/{key}", database, node, job_id, attempt, condition, 7200.5, 12)


def test_what_the_database_knows_decides(served: Served) -> None:
    ours = served.store.database_id
    ids = [served.submit(f"{number:08}") for number in range(3)]
    for job_id, collected in ((ids[2], True), (ids[1], False)):
        served.change_part(served.start(job_id)[0], state=AttemptState.ENDED, collected=collected)
    served.start(ids[0])
    keys = {name: f"{job_id}.1" for name, job_id in zip(("running", "uncollected", "over"), ids, strict=True)}
    served.desk.left = Residue(
        "/home/train/.mgpu",
        (
            *(run(ours, key) for key in keys.values()),
            run(ours, "99.1"),
            run(ours, keys["over"], node=NODES[1]),
            run(OTHER, "1.1", "tombstone"),
            run(OTHER, "2.1", "elsewhere"),
            run(OTHER, "3.1", "alive"),
        ),
        (EventsFile(ours, NODES[0], 5.0, 4), EventsFile(OTHER, NODES[0], 5.0, 4)),
        (LeaseDirectory("GPU-1", "train", False, 9.0), LeaseDirectory("GPU-2", "train", True, 9.0)),
    )
    status, shown = served.ask("GET", f"/v1/nodes/{NODES[0]}/residue")
    assert status == 200
    found = {(item["this_database"], item["job_id"], item["node"]): item for item in shown["run_directories"]}
    assert [found[True, job_id, NODES[0]]["collected"] for job_id in ids] == [False, False, True]
    assert found[False, 1, NODES[0]]["job_state"] is None
    assert found[True, ids[0], NODES[0]]["age_s"] == 7200

    status, answer = served.ask("POST", f"/v1/nodes/{NODES[0]}/clean", {})
    assert status == 200
    assert served.desk.removed == ([f"{ours}/{NODES[0]}/{keys['over']}"], ["GPU-1"])
    assert {item.get("job_id", item.get("uuid")) for item in answer["removed"]} == {ids[2], "GPU-1"}
    why = {(item.get("database"), item.get("job_id"), item.get("node")): item["why"] for item in answer["left"]}
    assert why == {
        (ours, ids[0], NODES[0]): "the job has not ended",
        (ours, ids[1], NODES[0]): "its output is not collected yet",
        (ours, ids[2], NODES[1]): f"it is of the node {NODES[1]}, with the same home: clean that one",
        (ours, 99, NODES[0]): "this database knows no such job: --all takes it too",
        (OTHER, 1, NODES[0]): "it is of another database: --all takes it too",
        (OTHER, 2, NODES[0]): "it is of another database: --all takes it too",
        (OTHER, 3, NODES[0]): "a process of it lives",
        (None, None, None): "a process holds it",
    }

    served.desk.refused = {f"{ours}/{NODES[0]}/{keys['over']}": "young"}
    _, answer = served.ask("POST", f"/v1/nodes/{NODES[0]}/clean", {"all": True})
    assert served.desk.removed[0] == [
        f"{ours}/{NODES[0]}/{keys['over']}",
        f"{ours}/{NODES[0]}/99.1",
        f"{OTHER}/{NODES[0]}/1.1",
        f"{OTHER}/{NODES[0]}/events",
    ]
    left = {(item.get("database"), item.get("job_id"), item.get("node")): item["why"] for item in answer["left"]}
    assert left[ours, ids[2], NODES[0]].startswith("it changed within the last 10 minutes")
    assert "another machine" in left[OTHER, 2, NODES[0]]
    assert left[OTHER, 3, NODES[0]] == "a process of it lives"


def test_refusals(served: Served) -> None:
    assert served.ask("POST", f"/v1/nodes/{NODES[0]}/clean", {"all": "yes"})[0] == 400
    assert served.ask("GET", "/v1/nodes/none/residue")[0] == 404
    served.desk.unreachable.add(NODES[0])
    status, answer = served.ask("GET", f"/v1/nodes/{NODES[0]}/residue")
    assert (status, answer["error"]["message"]) == (503, f"{NODES[0]}: no route to host")
    served.restart_shared(owner_uid=served.context.owner_uid + 1)
    if served.context.owner_uid == 1:  # root may everything
        return
    for path in ("residue", "clean"):
        method = "GET" if path == "residue" else "POST"
        assert served.ask(method, f"/v1/nodes/{NODES[0]}/{path}", None if method == "GET" else {})[0] == 403
