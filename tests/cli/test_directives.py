"""#SBATCH and #MGPU lines, and Slurm's options on the command line: docs/slurm-options.md tried row by row."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mgpu.client.directives import read
from mgpu.client.http import MasterError
from mgpu.client.options import OF_SUBMIT, job_options
from mgpu.client.slurm import NOTED, OPTIONS, REFUSED
from tests.client.peer import Peer, end, job, state

PAGE = Path(__file__).parents[2] / "docs/slurm-options.md"
OURS = job_options(*OF_SUBMIT)


def rows() -> list[tuple[list[str], str, str]]:
    """Of each option its spellings with an example, what becomes of it, and what in a script, "" = that holds none."""
    lines = [line.split("|")[1:4] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [
        (re.findall(r"`([^`]+)`", names), fate.strip(), in_script(fate.strip(), text)) for names, fate, text in lines
    ]


def in_script(fate: str, text: str) -> str:
    if "command line only" in text:
        return ""
    return "noted" if "in a `#SBATCH` line noted" in text else fate


def script(*lines: str, name: str = "s.sh") -> str:
    Path("nodes.txt").write_text("gpu01\ngpu02\n")
    Path(name).write_text("\n".join(["#!/bin/sh", *lines, "true", ""]))
    return name


def long_form(spellings: list[str]) -> str:
    return next(each for each in spellings if each.startswith("--"))


def test_the_page_lists_what_the_table_holds() -> None:
    told = {each.partition("=")[0]: fate for spellings, fate, _ in rows() for each in spellings}
    for options, fate in ((NOTED, "noted"), (REFUSED, "refused")):
        for option in options:
            assert {told.get(flag) for flag in option.flags} == {fate}, option.flags
    ours = {flag for option in OURS for flag in option.flags}
    assert not [flag for option in OPTIONS for flag in option.flags if flag in ours]
    assert len(told) > 110


def test_each_row_in_a_script(peer: Peer, mgpu: Callable) -> None:
    peer.answers["GET", "/v1/jobs/17"] = job("COMPLETED")  # for --wait
    for spellings, _, fate in rows():
        word = long_form(spellings)
        flag = word.partition("=")[0]
        ran = mgpu("submit", script(f"#SBATCH {word}"))
        if not fate:
            assert "s.sh:2: #SBATCH" in ran.err, word
        elif fate == "refused":
            assert (ran.status, ran.err.count("\n")) == (2, 1), word
            assert ran.err.startswith(f"mgpu: s.sh:2: #SBATCH {flag}: "), word
        else:
            assert ran.status == 0, (word, ran.err)
            noted = f"mgpu: s.sh:2: #SBATCH {flag} changes nothing: "
            assert ran.err.startswith(noted) if fate == "noted" else "#SBATCH" not in ran.err, (word, ran.err)


def test_each_row_on_the_command_line(peer: Peer, mgpu: Callable) -> None:
    peer.answers["GET", "/v1/jobs/17"] = job("COMPLETED")
    name = script()
    for spellings, fate, _ in rows():
        for word in spellings:
            flag, equals, value = word.partition("=")
            if not equals and len(flag) == 2 and "=" in spellings[-1]:
                value = spellings[-1].partition("=")[2]
            words = [] if word.startswith("--wrap") else [name]
            ran = mgpu("submit", f"{flag}{value}" if len(flag) == 2 else word, *words)
            if fate == "refused":
                assert (ran.status, ran.err.count("\n")) == (2, 1) and ran.err.startswith(f"mgpu: {long(spellings)}"), (
                    word
                )
            else:
                assert ran.status == 0, (word, ran.err)
                assert ("changes nothing" in ran.err) == (fate == "noted"), (word, ran.err)


def long(spellings: list[str]) -> str:
    return spellings[-1].partition("=")[0]


MEANINGS = [
    ("--gres=gpu:2", {"gpus_per_node": "2"}),
    ("--gres gpu", {"gpus_per_node": "1"}),
    ("--gres=gpu:a100:4 -N2", {"gpus_per_node": "4", "gpu_type": "a100", "nodes": "2"}),
    ("--gres=gres/gpu:1", {"gpus_per_node": "1"}),
    ("--gres=none", {}),
    ("-G a100:2", {"gpus": "2", "gpu_type": "a100"}),
    ("-Gh100", {"gpus": "h100"}),  # for the master to refuse
    ("--gpus-per-node=a100:4 --nodes=2-2", {"gpus_per_node": "4", "gpu_type": "a100", "nodes": "2"}),
    ("-N -1", {"nodes": "-1"}),  # for the master to refuse
    ("-n 4 --gpus-per-task=2", {"gpus": "8"}),
    ("-N 2 --ntasks-per-node=4 --gpus-per-task=1", {"nodes": "2", "gpus_per_node": "4"}),
    ("-N 2 --gpus-per-task=a100:1", {"nodes": "2", "gpus_per_node": "1", "gpu_type": "a100"}),
    ("--cpus-per-task=4 --ntasks-per-node=2", {"cpus_per_task": "8"}),
    ("-c 4", {"cpus_per_task": "4"}),
    ("-N 2 -n 7 -c 2 --mem-per-cpu=500", {"nodes": "2", "cpus_per_task": "8", "mem": "4000M"}),
    ("-n 3 --mem-per-cpu=2G", {"mem": "6G"}),
    ("--gres=gpu:a100:4 --cpus-per-gpu=8", {"gpus_per_node": "4", "gpu_type": "a100", "cpus_per_task": "32"}),
    ("-G 8 -N 2 --mem-per-gpu=16GB", {"gpus": "8", "nodes": "2", "mem": "64G"}),
    ("--nodefile=nodes.txt", {"nodelist": "gpu01,gpu02"}),
    ("--spread-job", {"policy": "spread"}),
    ("--job-n='a b' --out \"x y\" # -t 5", {"job_name": "a b", "output": "x y"}),
    ("-J a\\ b -t5", {"job_name": "a b", "time": "5"}),
    ("--exclusive --no-requeue --requeue", {"exclusive": True}),
    ("--open-mode=truncate", {}),
    ("--nice --hold", {"nice": "100", "hold": True}),
    ("--nice -5 -t5", {"nice": "-5", "time": "5"}),
]


@pytest.mark.parametrize(("line", "options"), MEANINGS)
def test_what_slurms_words_mean(peer: Peer, mgpu: Callable, line: str, options: dict[str, object]) -> None:
    assert mgpu("submit", script(f"#SBATCH {line}")).status == 0
    (body,) = peer.bodies("POST", "/v1/jobs")
    assert body["options"] == options


SRUNS: list[tuple[str, dict[str, object]]] = [
    ("--gres=gpu:a100:2 --ntasks=1", {"gpus_per_node": "2", "gpu_type": "a100", "ntasks": "1"}),
    ("-N 2 -n 4 --gpus-per-task=1", {"nodes": "2", "gpus": "4", "ntasks": "4", "gpus_per_task": "1"}),
    ("--gpus-per-task=a100:2", {"gpus": "2", "gpu_type": "a100"}),
    ("-n1 -c2 -u", {"cpus_per_task": "2", "ntasks": "1"}),
    ("--ntasks-per-node=1 --mem-per-gpu=4G -G2", {"gpus": "2", "mem": "8G", "ntasks_per_node": "1"}),
    ("--tasks-per-node 2 -c 4", {"cpus_per_task": "8", "ntasks_per_node": "2"}),
    ("-nx", {"ntasks": "x"}),  # for the master to refuse
]


@pytest.mark.parametrize(("line", "options"), SRUNS)
def test_srun_knows_slurms_words_too(peer: Peer, mgpu: Callable, line: str, options: dict[str, object]) -> None:
    peer.streams = [[state("RUNNING"), end("COMPLETED", exit_code=0)]]
    assert mgpu("srun", *line.split(), "prog").status == 0
    (body,) = peer.bodies("POST", "/v1/jobs")
    assert body["options"] == options


@pytest.mark.parametrize("line", ["-n x --gpus-per-task=1", "-C a100", "--wrap", "--mpi=pmix"])
def test_what_srun_cannot_do_as_slurm_does_is_refused(peer: Peer, mgpu: Callable, line: str) -> None:
    ran = mgpu("srun", *line.split(), "prog")
    assert (ran.status, len(ran.err.splitlines())) == (2, 1)
    assert peer.bodies("POST", "/v1/jobs") == []


def test_how_many_tasks_a_script_asks_for_behind_mgpu_is_what_is_started(peer: Peer, mgpu: Callable) -> None:
    name = script("#SBATCH -n 8 --ntasks-per-node=4 --gpus-per-task=1", "#MGPU --ntasks-per-node=2 -c 3")
    assert mgpu("submit", name) == (0, "Submitted job 17\n", "")
    (body,) = peer.bodies("POST", "/v1/jobs")
    assert body["options"] == {"gpus": "8", "ntasks_per_node": "2", "cpus_per_task": "6"}


LAUNCHERS: list[tuple[str, dict[str, str], dict[str, object]]] = [
    ("--distributed", {}, {"launcher": "torchrun"}),
    ("--launcher torchrun --distributed", {}, {"launcher": "torchrun"}),
    ("--mpi", {"MGPU_LAUNCHER": "torchrun"}, {"launcher": "mpi"}),
    ("-G 1", {"MGPU_DISTRIBUTED": "yes"}, {"gpus": "1", "launcher": "torchrun"}),
    ("-G 1", {"MGPU_MPI": "0", "MGPU_NTASKS_PER_NODE": "2"}, {"gpus": "1", "ntasks_per_node": "2"}),
    ("--launcher none", {"MGPU_MPI": "1"}, {"launcher": "none"}),
]


@pytest.mark.parametrize(("line", "environ", "options"), LAUNCHERS)
def test_a_launcher_in_a_word(
    peer: Peer,
    mgpu: Callable,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    environ: dict[str, str],
    options: dict[str, object],
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert mgpu("submit", *line.split(), "--", "train.py").status == 0
    assert peer.bodies("POST", "/v1/jobs")[0]["options"] == options
    script("#MGPU --distributed", name="d.sh")
    assert mgpu("submit", *line.split(), "d.sh").status == 0
    assert peer.bodies("POST", "/v1/jobs")[1]["options"].get("launcher") == options.get("launcher", "torchrun")


@pytest.mark.parametrize("line", ["--mpi --distributed", "--launcher none --mpi", "--distributed --launcher=mpi"])
def test_two_launchers_in_one_place_contradict_each_other(peer: Peer, mgpu: Callable, line: str) -> None:
    ran = mgpu("submit", *line.split(), "--", "train.py")
    assert (ran.status, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert "contradicts" in ran.err and ran.err.endswith(": leave out one of them\n")
    assert peer.requests == []


def test_the_command_line_beats_mgpu_lines_and_these_beat_sbatch(
    peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = script(
        "#MGPU -t 3 -J ours", "#SBATCH -t 2 -J slurms -p p --no-requeue --gres=gpu:4", "#SBATCH -e early -e late"
    )
    monkeypatch.setenv("MGPU_JOB_NAME", "variable")
    assert mgpu("submit", "-p", "q", "-G", "1", "--requeue", name) == (0, "Submitted job 17\n", "")
    (body,) = peer.bodies("POST", "/v1/jobs")
    assert body["options"] == {"time": "3", "job_name": "variable", "partition": "q", "gpus": "1", "error": "late"}
    assert body["command"]["script"].startswith("#!/bin/sh\n#MGPU -t 3")


NAMED = [
    ("#SBATCH --zzz 5 -t 1", "s.sh:2: #SBATCH: there is no option '--zzz': it is passed over"),
    (
        "#MGPU --gpu-tipe A100",
        "s.sh:2: #MGPU: there is no option '--gpu-tipe': it is passed over (did you mean --gpu-type?)",
    ),
    ("#SBATCH --gpu 2", "s.sh:2: #SBATCH: there is no option '--gpu': it is passed over (did you mean --gpus?)"),
    ("#SBATCH word", "s.sh:2: #SBATCH: there is no option 'word': it is passed over"),
    ("true\n#SBATCH -t 1", "s.sh:3: this #SBATCH line is not read: it stands behind the first command"),
]


@pytest.mark.parametrize(("line", "notice"), NAMED)
def test_nothing_is_passed_over_in_silence(peer: Peer, mgpu: Callable, line: str, notice: str) -> None:
    assert mgpu("submit", script(line)) == (0, "Submitted job 17\n", f"mgpu: {notice}\n")
    assert mgpu("submit", "-Q", "s.sh") == (0, "Submitted job 17\n", "")


REFUSALS = [
    ("--gres=gpu:1,nvme:1", "s.sh:2: #SBATCH --gres: there is no 'nvme' to be had, only gpu: leave it out"),
    (
        "--gres=gpu:a:1,gpu:b:1",
        "s.sh:2: #SBATCH --gres: all GPUs of a job are of one kind: name one, or --gpu-type any",
    ),
    ("-N 2-4", "s.sh:2: #SBATCH -N: the number of nodes is fixed here: write 2, or -G N alone"),
    ("--exclusive=user", "s.sh:2: #SBATCH --exclusive takes no value: leave the value out"),
    ("-t", "s.sh:2: #SBATCH -t needs a value (LIMIT): write it behind the option"),
    ("-J 'x", "s.sh:2: #SBATCH: a ' is opened and not closed: close it"),
    ("--wrap=x", "s.sh:2: #SBATCH --wrap: it is for the command line"),
    ("-F none.txt", "s.sh:2: #SBATCH -F: cannot be read (No such file or directory)"),
]


@pytest.mark.parametrize(("line", "told"), REFUSALS)
def test_what_cannot_be_had_is_refused_in_one_line(peer: Peer, mgpu: Callable, line: str, told: str) -> None:
    assert mgpu("submit", script(f"#SBATCH {line}")) == (2, "", f"mgpu: {told}\n")
    assert peer.requests == []


@pytest.mark.parametrize(
    ("line", "typed", "told"),
    [
        ("#SBATCH -t 1x", [], "s.sh:2: #SBATCH -t: time limit '1x' cannot be read: write"),
        ("#MGPU --gres=gpu:1x", [], "s.sh:2: #MGPU --gres: time limit '1x' cannot be read: write"),
        ("#SBATCH -t 1x", ["-t", "1x"], "time limit '1x' cannot be read: write"),
    ],
)
def test_what_the_master_refuses_is_found_in_the_script(
    peer: Peer, mgpu: Callable, line: str, typed: list[str], told: str
) -> None:
    error = {"code": "bad_request", "message": "time limit '1x' cannot be read", "hint": "write"}
    peer.answers["POST", "/v1/jobs"] = (400, {"error": error}, {})
    assert mgpu("submit", *typed, script(line)) == (2, "", f"mgpu: {told}\n")


def test_lines_that_are_none(peer: Peer, mgpu: Callable) -> None:
    script("# SBATCH -t 1", "##SBATCH -t 1", "", "  ", "#SBATCHER", "#SBATCH", " #SBATCH -t 1")
    assert mgpu("submit", "s.sh") == (
        0,
        "Submitted job 17\n",
        "mgpu: s.sh:6: #SBATCH: there is no option 'ER': it is passed over\n",
    )
    assert peer.bodies("POST", "/v1/jobs")[0]["options"] == {}


def test_wrap_is_a_shells_line(peer: Peer, mgpu: Callable) -> None:
    assert mgpu("sbatch", "--parsable", "--wrap", "echo $HOME") == (0, "17\n", "")
    assert peer.bodies("POST", "/v1/jobs")[0]["command"] == {"form": "shell", "words": ["echo $HOME"]}
    assert (
        mgpu("sbatch", "--wrap", "x", "y").err
        == "mgpu: --wrap gives the command, and so does 'y': leave out one of them\n"
    )


def test_a_carriage_return_belongs_to_no_word() -> None:
    assert read("s", "#SBATCH -t 1 -J x\r\n").layers[0] == {"time": "1", "job_name": "x"}
    with pytest.raises(MasterError, match="opened"):
        read("s", '#MGPU -J "x\n"')
