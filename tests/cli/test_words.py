"""Where options end, and what a submission then says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from mgpu.cli.click_reader import usage_error
from mgpu.cli.srun import srun
from mgpu.cli.syntax import GLOBAL_OPTIONS, by_flag, split
from mgpu.client.http import MasterError
from mgpu.client.options import WIRE_KEYS, resolve
from mgpu.client.surroundings import exported, virtual_env
from mgpu.core.request import OPTIONS
from tests.client.peer import Peer, end, job

SPLITS = [
    ("srun -N 2 torchrun -w x", ["-N", "2"], ["torchrun", "-w", "x"], False),
    ("srun -N2 -G4 prog -G 1 -- y", ["-N2", "-G4"], ["prog", "-G", "1", "--", "y"], False),
    ("srun --gpus=2 -- python t.py --lr 1", ["--gpus=2"], ["python", "t.py", "--lr", "1"], True),
    ("srun -- -- x", [], ["--", "x"], True),
    ("srun -J -- -- prog", ["-J", "--"], ["prog"], True),
    ("srun -I prog", ["-I1"], ["prog"], False),
    ("srun -I5 prog", ["-I5"], ["prog"], False),
    ("srun --immediate prog 5", ["--immediate=1"], ["prog", "5"], False),
    ("srun -I -- 5", ["-I1"], ["5"], True),
    ("srun --immediate=5 prog", ["--immediate=5"], ["prog"], False),
    ("srun -QI prog", ["-QI1"], ["prog"], False),
    ("srun --nice prog 5", ["--nice=100"], ["prog", "5"], False),
    ("srun --nice 5 prog", ["--nice", "5"], ["prog"], False),
    ("srun --nice -5 prog", ["--nice", "-5"], ["prog"], False),
    ("srun --nice --json prog", ["--nice=100", "--json"], ["prog"], False),
    ("srun -QG 2 prog", ["-QG", "2"], ["prog"], False),
    ("srun -Ql prog -l", ["-Ql"], ["prog", "-l"], False),
    ("srun - x", [], ["-", "x"], False),
    ("srun --json prog --json", ["--json"], ["prog", "--json"], False),
]


@pytest.mark.parametrize(("line", "options", "words", "dashed"), SPLITS)
def test_options_end_at_the_first_other_word(line: str, options: list[str], words: list[str], dashed: bool) -> None:
    before, after = split(line.split()[1:], by_flag([*srun.options, *GLOBAL_OPTIONS]))
    assert (before, after.words, after.dashed) == (options, words, dashed)


@pytest.mark.parametrize(("line", "way_out"), [("-I 5 prog", "-I5"), ("-QI 5", "-QI5"), ("--immediate 5", "=5")])
def test_a_value_that_must_be_attached_is_no_program(mgpu: Callable, line: str, way_out: str) -> None:
    ran = mgpu("srun", *line.split())
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.endswith(f"written without a blank: write {'--immediate' if way_out == '=5' else ''}{way_out}\n")


COMMANDS = [
    ("submit", ["run.sh", "-x", "a b"], {"form": "script", "words": ["-x", "a b"], "script": "#!/bin/sh\n\udce9\n"}),
    ("submit", ["./run.sh"], {"form": "script", "words": [], "script_name": "run.sh"}),
    ("submit", ["--", "run.sh", "-x"], {"form": "argv", "words": ["run.sh", "-x"]}),
    ("submit", ["echo $HOME; sleep 1"], {"form": "shell", "words": ["echo $HOME; sleep 1"]}),
    ("submit", ["--", "hostname"], {"form": "argv", "words": ["hostname"]}),
    ("submit", ["python", "run.sh"], {"form": "argv", "words": ["python", "run.sh"]}),
    ("submit", ["./binary"], {"form": "argv", "words": ["./binary"]}),
    ("sbatch", ["-J", "n", "a", "-J"], {"form": "argv", "words": ["a", "-J"]}),
]


@pytest.mark.parametrize(("command", "words", "expected"), COMMANDS)
def test_forms_of_a_batch_command(
    peer: Peer, mgpu: Callable, command: str, words: list[str], expected: dict[str, object]
) -> None:
    Path("run.sh").write_bytes(b"#!/bin/sh\n\xe9\n")
    Path("binary").write_bytes(b"\x7fELF\0\0")
    assert mgpu(command, *words) == (0, "Submitted job 17\n", "")
    (body,) = peer.bodies("POST", "/v1/jobs")
    assert body["kind"] == "batch"
    assert expected.items() <= body["command"].items()


def test_a_line_each(peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("runs.txt").write_bytes(b"# x\n#SBATCH -G 2\na \xe9\n")
    assert mgpu("submit", "--each-line", "runs.txt", "-a", "%8") == (0, "Submitted job 17\n", "")
    with Path("runs.txt").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert mgpu("submit", "--each-line", "-").status == 0
    first, second = peer.bodies("POST", "/v1/jobs")
    text = "# x\n#SBATCH -G 2\na \udce9\n"
    assert first["command"] == {"form": "lines", "words": [], "script": text, "script_name": "runs.txt"}
    assert first["options"] == {"array": "%8", "gpus": "2"}
    assert second["command"] == {**first["command"], "script_name": "stdin"}


def test_lines_are_the_command(peer: Peer, mgpu: Callable) -> None:
    Path("runs.txt").write_text("a\n")
    told = "mgpu: --each-line gives the command, and so does 'x': leave out one of them\n"
    assert mgpu("submit", "--each-line", "runs.txt", "x") == (2, "", told)
    assert mgpu("submit", "--each-line", "none.txt") == (1, "", "mgpu: none.txt: No such file or directory\n")
    told = "mgpu: --interactive follows one job, and an array is many: leave out one of them\n"
    assert mgpu("submit", "--each-line", "runs.txt", "--interactive") == (2, "", told)
    assert mgpu("submit", "-a", "1-2", "--interactive", "x") == (2, "", told)


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (job("COMPLETED", exit_code=0), 0),
        (job("FAILED", exit_code=3), 3),
        (job("TIMEOUT", exit_code=143), 124),
        (job("CANCELLED"), 143),
    ],
)
def test_submit_waits_for_the_end(peer: Peer, mgpu: Callable, ended: dict[str, object], status: int) -> None:
    peer.answers["GET", "/v1/jobs/17"] = ended
    ran = mgpu("submit", "-W", "--", "x")
    assert (ran.status, ran.out) == (status, "Submitted job 17\n")
    assert ran.err.startswith(f"mgpu: job 17 {ended['state']}") and ran.err.count("\n") == 1
    ran = mgpu("submit", "-Q", "--json", "--wait", "--", "x")
    assert (ran.status, ran.out, bool(ran.err)) == (status, '{"job_id": 17}\n', status != 0)


def test_wait_for_jobs(peer: Peer, mgpu: Callable) -> None:
    ends = {17: job("COMPLETED", exit_code=0), 18: job("FAILED", exit_code=3), 19: job("TIMEOUT", exit_code=143)}
    for number, ended in ends.items():
        peer.answers["GET", f"/v1/jobs/{number}"] = {**ended, "job_id": number}
    peer.answers["GET", "/v1/jobs/20_4"] = job("RUNNING")
    assert mgpu("wait", "17") == (0, "job 17 COMPLETED, exit 0\n", "")
    ran = mgpu("wait", "19", "17", "18", "19")
    assert (ran.status, [line.split(",")[0].split(" (")[0] for line in ran.out.splitlines()]) == (
        124,
        ["job 19 TIMEOUT on gpu01", "job 17 COMPLETED", "job 18 FAILED"],
    )
    assert mgpu("wait", "-Q", "17", "18") == (3, "job 18 FAILED, exit 3 on gpu01\n", "")
    assert mgpu("wait", "--any", "20_4", "18") == (3, "job 18 FAILED, exit 3 on gpu01\n", "")
    ran = mgpu("wait", "--json", "17")
    assert (ran.status, [one["job_id"] for one in json.loads(ran.out)["jobs"]]) == (0, [17])
    assert mgpu("wait").status == 2
    peer.answers["GET", "/v1/jobs/21"] = job("RUNNING")
    assert [mgpu("wait", *ids).status for ids in (["99"], ["21", "99"])] == [1, 1]
    ran = mgpu("wait", "-Q", "18", "19", "17")  # the highest, wherever it stands
    assert ran.status == 124


NOTICES = [
    (["nosuch.sh"], "nosuch.sh is no file here: it is run as a shell command line on the node"),
]


@pytest.mark.parametrize(("words", "notice"), NOTICES)
def test_what_a_submission_does_not_mean(peer: Peer, mgpu: Callable, words: list[str], notice: str) -> None:
    Path("old.sh").write_text("#!/bin/sh\n#SBATCH --gpus=2\n")
    assert mgpu("submit", *words) == (0, "Submitted job 17\n", f"mgpu: {notice}\n")
    assert mgpu("submit", "-Q", *words) == (0, "Submitted job 17\n", "")
    assert mgpu("submit", "--", *words) == (0, "Submitted job 17\n", "")


def test_one_word_with_blanks_is_one_program(peer: Peer, mgpu: Callable) -> None:
    told = "mgpu: 'echo \"a b\"' is taken for the name of one program; as a command line it is: sh -c 'echo \"a b\"'\n"
    assert mgpu("submit", "--", 'echo "a b"') == (0, "Submitted job 17\n", told)
    assert mgpu("submit", 'echo "a b"') == (0, "Submitted job 17\n", "")


def test_the_whole_submission(peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/venv")
    given = ["-G", "2", "-w", "gpu[1-2]", "-t", "1:30:00", "--no-requeue", "-o", "%j.out", "--export", "A=1,HOME"]
    assert mgpu("--json", "submit", *given, "--", "prog", "a  b", "*") == (0, '{"job_id": 17}\n', "")
    (body,) = peer.bodies("POST", "/v1/jobs")
    assert len(body.pop("request_id")) == 32
    assert body == {
        "kind": "batch",
        "command": {"form": "argv", "words": ["prog", "a  b", "*"]},
        "options": {"gpus": "2", "nodelist": "gpu[1-2]", "time": "1:30:00", "no_requeue": True, "output": "%j.out"},
        "env": {"A": "1", "HOME": os.environ["HOME"]},
        "cwd": str(Path.cwd()),
        "virtual_env": "/venv",
    }


def test_sruns_files_are_its_own(peer: Peer, mgpu: Callable) -> None:
    peer.streams = [[end("COMPLETED")]]
    assert mgpu("run", "-Q", "-o", "f", "-e", "g", "-l", "-G1", "true").status == 0
    (body,) = peer.bodies("POST", "/v1/jobs")
    assert (body["kind"], body["options"]) == ("srun", {"gpus": "1"})


SOURCES = [
    ({"gpus": "1"}, {"MGPU_GPUS": "2"}, {"gpus": "3"}, {"gpus": "1"}),
    ({"gpus": None}, {"MGPU_GPUS": "2"}, {"gpus": "3"}, {"gpus": "2"}),
    ({"gpus": None}, {}, {"gpus": "3"}, {"gpus": "3"}),
    ({"gpus": None, "nodelist": None}, {"MGPU_JOB_ID": "5", "MGPU_GPUS": "8", "MGPU_NODELIST": "n"}, {}, {}),
    ({"gpu_type": None}, {"MGPU_JOB_ID": "5", "MGPU_GPU_TYPE": "A100"}, {}, {"gpu_type": "A100"}),
    ({"exclusive": None}, {"MGPU_EXCLUSIVE": "yes"}, {}, {"exclusive": True}),
    ({"exclusive": None}, {"MGPU_EXCLUSIVE": "0"}, {"exclusive": "true"}, {}),
    ({"export": ("A", "B=1")}, {}, {}, {"export": "A,B=1"}),
    ({"time": "", "exclude": ("",)}, {}, {"time": "5"}, {"time": "", "exclude": ""}),  # the master refuses them
    ({"time": None}, {"MGPU_TIME": ""}, {"time": "5"}, {"time": "5"}),
]


@pytest.mark.parametrize(("given", "environ", "defaults", "expected"), SOURCES)
def test_flag_then_variable_then_file(given: dict, environ: dict, defaults: dict, expected: dict) -> None:
    assert resolve(given, environ, defaults) == expected


def test_a_switch_that_is_neither() -> None:
    with pytest.raises(MasterError, match="MGPU_EXCLUSIVE is 'maybe'"):
        resolve({"exclusive": None}, {"MGPU_EXCLUSIVE": "maybe"}, {})


AROUND = {"A": "1", "PATH": "/bin", "MGPU_X": "1", "SSH_AUTH_SOCK": "s", "BASH_FUNC_x%%": "()", "LANG": "C"}
EXPORTS = [
    ("", {"OWN": "o"}),
    ("A", {"OWN": "o", "A": "1"}),
    ("OWN=2,B=x=y", {"OWN": "2", "B": "x=y"}),
    ("ALL", {"OWN": "o", "A": "1", "LANG": "C"}),
    ("ALL,PATH", {"OWN": "o", "A": "1", "LANG": "C", "PATH": "/bin"}),
    ("NONE", {}),
]


@pytest.mark.parametrize(("export", "expected"), EXPORTS)
def test_what_goes_along(export: str, expected: dict[str, str]) -> None:
    assert exported(export, AROUND, {"OWN": "o"}, []) == expected


@pytest.mark.parametrize("export", ["A,NONE", "1A=2", "A B", "Ä=1"])
def test_what_cannot_go_along(export: str) -> None:
    with pytest.raises(MasterError, match="--export"):
        exported(export, AROUND, {}, [])


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ""),
        ({"VIRTUAL_ENV": "/v"}, "/v"),
        ({"CONDA_PREFIX": "/c"}, "/c"),
        ({"VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c", "PATH": "/x:/c/bin:/v/bin"}, "/c"),
        ({"VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c", "PATH": "/v/bin:/c/bin"}, "/v"),
        ({"VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c"}, "/v"),
    ],
)
def test_the_environment_that_is_active(environ: dict[str, str], expected: str) -> None:
    assert virtual_env(environ) == expected


def own(home: Path, text: str) -> Path:
    path = home / ".config/mgpu/config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_the_users_own_file(peer: Peer, mgpu: Callable, clean_home: Path) -> None:
    own(
        clean_home,
        "setup: module load cuda\nenv: {HF_HOME: /data/hf, N: 010}\ntime: 1:30:00\ngpu-type: A100\nchdir: runs\n",
    )
    assert mgpu("submit", "-t", "5", "--", "x").status == 0
    (body,) = peer.bodies("POST", "/v1/jobs")
    folder = str(clean_home / ".config/mgpu/runs")
    assert body["options"] == {"setup": "module load cuda", "time": "5", "gpu_type": "A100", "chdir": folder}
    assert body["env"] == {"HF_HOME": "/data/hf", "N": "010"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu-typ: A100\n", ":1:10: unknown key 'gpu-typ': did you mean gpu-type?"),
        ("time: 1\ntime: 2\n", ":2:1: 'time' is given twice: keep one"),
        ("env: [A]\n", ":1:6: not a mapping: write `name: value` lines"),
        ("time: {a: b}\n", ":1:7: not a single value: write `name: value`"),
    ],
)
def test_faults_of_the_users_own_file(peer: Peer, mgpu: Callable, clean_home: Path, text: str, expected: str) -> None:
    path = own(clean_home, text)
    assert mgpu("submit", "--", "x") == (2, "", f"mgpu: {path}{expected}\n")
    assert peer.requests == []


def test_an_own_file_that_others_can_write_is_refused(peer: Peer, mgpu: Callable, clean_home: Path) -> None:
    path = own(clean_home, "setup: x\n")
    path.chmod(0o666)
    ran = mgpu("submit", "--", "x")
    assert ran.status == 77
    assert ran.err.startswith(f"mgpu: {path} is not used: others could have written it")


BAD = [
    (["srun"], "mgpu: no command: what should srun run? mgpu srun --help\n"),
    (["submit", "-G", "1"], "mgpu: no command: what should submit run? mgpu submit --help\n"),
    (
        ["submit", "t.py"],
        "mgpu: t.py has no #! line, so a shell would run it: add one, or: mgpu submit -- python t.py\n",
    ),
    (["srun", "-G"], "mgpu: srun: option '-G' requires an argument: mgpu srun --help\n"),
    (
        ["srun", "--mpi=pmix", "a.out"],
        "mgpu: --mpi is a launcher and takes no value: --mpi -- mpirun PROGRAM starts a rank for each GPU\n",
    ),
    (["node", "trust", "--yes=x"], "mgpu: node trust: option '--yes' does not take a value: mgpu node trust --help\n"),
    (["queu"], "mgpu: mgpu has no command 'queu': did you mean queue?\n"),
    (["node", "prob", "x"], "mgpu: mgpu node has no command 'prob': did you mean probe?\n"),
    (["srun", "--json", "x"], "mgpu: srun has no --json: leave it out\n"),
    (
        ["srun", "--session-timeout", "x", "true"],
        "mgpu: --session-timeout x: not a number: give one that is 0 or more\n",
    ),
    (["show", "job", "x1"], "mgpu: 'x1' is not a job's number: mgpu queue shows them\n"),
    (["show", "x", "1"], "mgpu: show x 1: of what? mgpu show job ID, or mgpu show node NAME\n"),
    (["show", "job"], "mgpu: show job: of what? mgpu show job ID, or mgpu show node NAME\n"),
    (["show", "node"], "mgpu: show node: of what? mgpu show job ID, or mgpu show node NAME\n"),
    (["node", "trust"], "mgpu: which node? name one; --all means all of the inventory\n"),
    (
        ["node", "trust", "a", "b", "--fingerprint", "f"],
        "mgpu: a fingerprint is that of one node: name one; --all means all of the inventory\n",
    ),
    (["cancel"], "mgpu: which jobs? give numbers, or --me, --user, --state, --name, --partition\n"),
    (["queue", "--config", "none.yaml"], "mgpu: no configuration at none.yaml: name a file with --config\n"),
]


@pytest.mark.parametrize(("line", "expected"), BAD)
def test_bad_requests_are_one_line_and_status_2(peer: Peer, mgpu: Callable, line: list[str], expected: str) -> None:
    Path("t.py").write_text("print()\n")
    assert mgpu(*line) == (2, "", expected)
    assert peer.requests == []


def test_a_mistyped_option_names_the_near_ones(peer: Peer, mgpu: Callable) -> None:
    ran = mgpu("srun", "--gpu", "2", "python")
    assert (ran.status, ran.out, peer.requests) == (2, "", [])
    assert ran.err.startswith("mgpu: srun: no such option") and "--gpus" in ran.err and ran.err.count("\n") == 1


def test_a_number_alone_is_a_job(peer: Peer, mgpu: Callable) -> None:
    peer.answers["GET", "/v1/jobs/17"] = job("RUNNING")
    ran = mgpu("show", "17")
    assert (ran.status, ran.err) == (0, "")
    assert ran == mgpu("show", "job", "17")


def test_several_nodes_are_trusted_one_after_the_other(peer: Peer, mgpu: Callable) -> None:
    """One that cannot be does not keep the others from it."""
    key = {"fingerprint": "SHA256:x", "line": "k", "type": "ssh-ed25519"}
    peer.answers["GET", "/v1/nodes/n1/hostkeys"] = {"status": "new", "keys": [key], "known": []}
    peer.answers["POST", "/v1/nodes/n1/trust"] = {"trusted": 1}
    peer.answers["POST", "/v1/nodes/n1/probe"] = {"node_id": "n1", "gpus": [{"state": "free"}]}
    peer.answers["GET", "/v1/nodes/n3/hostkeys"] = {"status": "same", "keys": [key], "known": [key]}
    ran = mgpu("node", "trust", "n[1-2]", "n3", "n1", "--yes")
    assert ran.status == 1
    assert ran.out == "n1: 1 host key trusted\nn3: its host keys are trusted already\nn1: 1 GPU: 1 free\n"
    assert ran.err == "mgpu: no /v1/nodes/n2/hostkeys: look\n"
    peer.answers["GET", "/v1/nodes"] = {"nodes": [{"node_id": "n3"}]}
    assert mgpu("node", "trust", "--all").out == "n3: its host keys are trusted already\n"
    assert mgpu("node", "trust", "--all", "--json").out == '{"nodes": [{"node_id": "n3", "trusted": 0}]}\n'


def test_errors_as_json(peer: Peer, mgpu: Callable) -> None:
    missing = '{"error": {"code": "not_found", "message": "no /v1/jobs/5?ways=1", "hint": "look"}}\n'
    assert mgpu("show", "job", "5", "--json") == (1, "", missing)
    assert mgpu("--json", "queue", "--nothing").err.startswith('{"error": {"code": "bad_request", ')


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("No such option '--begin'. Did you mean '--end'?", "no such option '--begin' (did you mean '--end'?)"),
        (
            "No such option '-x'. (Did you mean one of: -a, -b?)",
            "no such option '-x' (did you mean one of: -a, -b?)",
        ),
        ("Got unexpected extra argument (x)", "got unexpected extra argument (x)"),
        ("Missing argument 'ID'.", "missing argument 'ID'"),
    ],
)
def test_what_click_says_in_our_form(said: str, shown: str) -> None:
    assert usage_error(click.ClickException(said)).message == shown


def test_every_option_that_the_master_is_told_is_one_that_it_knows() -> None:
    assert WIRE_KEYS - set(OPTIONS) == set()
