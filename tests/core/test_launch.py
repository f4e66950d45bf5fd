"""The shell text of a job: quoted so that no shell reads it otherwise, in the right order."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mgpu.core.environment import visible_devices
from mgpu.core.gang import Gang
from mgpu.core.launch import Launch, NodeWorld, fill_pattern, render
from mgpu.core.launchers.none import variables
from mgpu.core.model import Command, CommandForm, DeviceUuid, JobId, JobKind, NodeName
from mgpu.core.ports import meeting_port
from mgpu.core.shelltext import quote
from tests.core.trial import attempt, job, part

SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}
ARGV, SHELL, SCRIPT = CommandForm.ARGV, CommandForm.SHELL, CommandForm.SCRIPT

# every byte but NUL, as words come from a command line
WORDS = st.binary(max_size=12).filter(lambda word: b"\0" not in word)
NASTY = st.sampled_from(
    [b"", b"-n", b"'", b"'\\''", b"$(id)", b"`id`", b"*", b"a\nb", b"\\", b"!x", b"~", b"\xff\xfe", b"a  b"]
)


def text(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")


def rendered(command: Command, ranks: int = 1, rank: int = 0, world: NodeWorld | None = None, **more: Any) -> Launch:
    parts = tuple(part(number) for number in range(ranks))
    addresses = tuple(f"10.0.0.{number + 1}" for number in range(ranks))
    port = 23456 if ranks > 1 or "tasks_per_node" in more.get("spec", {}) else None
    gang = Gang(job(command=command, **more), attempt(port=port), parts[rank], parts, addresses)
    return render(gang, world or NodeWorld())


def run(
    shell: str, launch: Launch, folder: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    if shutil.which(SHELLS[shell][0]) is None:
        pytest.skip(f"no {shell} here")
    (folder / "script").write_bytes(launch.script.encode("utf-8", "surrogateescape"))
    (folder / "job").write_bytes(launch.job_file.encode("utf-8", "surrogateescape"))
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    argv = [*SHELLS[shell], str(folder / "script")]
    return subprocess.run(argv, env={"PATH": path} | (env or {}), capture_output=True, check=False, timeout=30)


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that prints its arguments, each ended by a NUL."""
    path = tmp_path_factory.mktemp("echo") / "echo"
    path.write_text("#!/bin/sh\n[ $# = 0 ] || printf '%s\\0' \"$@\"\n")
    path.chmod(0o755)
    return str(path)


FROM_FILE = {
    "lines": (
        b"# mine\n\nexport A=a b\nB='x'=$(id)\nC=\nD=last",
        {"A": b"a b", "B": b"'x'=$(id)", "C": b"", "D": b"last"},
    ),
    "as env -0": (b"A=a\nb\n\0B=#\0C= \0D=\\n\xff\0", {"A": b"a\nb\n", "B": b"#", "C": b" ", "D": b"\\n\xff"}),
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("kind", FROM_FILE)
def test_values_from_a_file_on_the_node(shell: str, kind: str, tmp_path: Path) -> None:
    content, values = FROM_FILE[kind]
    (tmp_path / "a 'file").write_bytes(content)
    command = Command(SHELL, ('printf "%s\\0" "$A" "$B" "$C" "$D"; set | grep -c mgpu_ >&2',))
    spec = {"export_file": str(tmp_path / "a 'file"), "env": {"D": "of --export"} if kind == "lines" else {}}
    done = run(shell, rendered(command, spec=spec), tmp_path, {"A": "before"})
    assert done.stdout.split(b"\0")[:-1] == [*list(values.values())[:3], b"of --export" if spec["env"] else values["D"]]
    assert done.stderr == b"0\n"  # nothing of ours is left


@pytest.mark.parametrize("shell", SHELLS)
def test_a_file_in_the_home_of_the_node(shell: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("A=1\n")
    launch = rendered(Command(SHELL, ("echo $A",)), spec={"export_file": "~/f"})
    done = run(shell, launch, tmp_path, {"HOME": str(tmp_path)})
    assert (done.stdout, done.stderr) == (b"1\n", b"")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_line_that_is_none_is_told_without_its_words(shell: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("A=1\nsecret\n2B=x\nB-C=x\nmgpu_name=x\nPATH;id=x\n")
    done = run(shell, rendered(Command(SHELL, ("echo $A",)), spec={"export_file": str(tmp_path / "f")}), tmp_path)
    assert done.stdout == b"1\n"
    assert [line.rpartition(b" ")[2] for line in done.stderr.splitlines()] == [b"2", b"3", b"4", b"5", b"6"]
    assert b"secret" not in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_without_the_file_the_command_is_not_run(shell: str, tmp_path: Path) -> None:
    done = run(shell, rendered(Command(SHELL, ("echo ran",)), spec={"export_file": "no such"}), tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--export-file no such: no file that can be read on this node" in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(WORDS | NASTY, max_size=5), value=WORDS | NASTY)
def test_words_and_values_arrive_byte_for_byte(
    shell: str, echo: str, tmp_path: Path, words: list[bytes], value: bytes
) -> None:
    command = Command(ARGV, (echo, *map(text, words)))
    done = run(shell, rendered(command, spec={"env": {"VALUE": text(value)}}), tmp_path)
    assert done.stdout == b"".join(word + b"\0" for word in words)
    shown = run(
        shell, rendered(Command(SHELL, ('printf %s "$VALUE"',)), spec={"env": {"VALUE": text(value)}}), tmp_path
    )
    assert shown.stdout == value
    assert done.stderr == shown.stderr == b""


@given(WORDS)
def test_a_quoted_word_is_one_word_of_quotes(word: bytes) -> None:
    quoted = quote(text(word))
    assert quoted.startswith("'") and quoted.endswith("'")
    assert quoted[1:-1].replace("'\\''", "").count("'") == 0


@pytest.mark.parametrize("shell", SHELLS)
def test_who_has_the_last_word(shell: str, tmp_path: Path) -> None:
    """The user's exports, then the node's setup, then the user's, then what mgpu itself says."""
    world = NodeWorld(setup="A=$A-node; export CUDA_VISIBLE_DEVICES=all", env={"A": "inventory", "B": "inventory"})
    spec = {"env": {"A": "user", "PYTHONUNBUFFERED": ""}, "setup": "A=$A-own; f() { echo defined; }"}
    line = 'echo "$A $B $CUDA_VISIBLE_DEVICES [$PYTHONUNBUFFERED]"; f'
    launch = rendered(Command(SHELL, (line,)), world=world, spec=spec)
    assert run(shell, launch, tmp_path).stdout == b"user-node-own inventory 0 []\ndefined\n"
    assert launch.shell == "bash"
    assert rendered(Command(SHELL, (line,))).shell == "sh"
    goes_on = rendered(Command(SHELL, ('echo "$CUDA_DEVICE_ORDER"',)), world=NodeWorld(setup="true \\"))
    assert run(shell, goes_on, tmp_path).stdout == b"PCI_BUS_ID\n"


def test_mpirun_is_told_that_slurm_is_not_here_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    line = 'echo "$SLURM_JOB_ID $OMPI_MCA_ras $PRTE_MCA_plm $HYDRA_RMK"'
    spec = {"env": {"OMPI_MCA_ras": "simulator"}}
    assert run("dash", rendered(Command(SHELL, (line,)), spec=spec), tmp_path).stdout == b"7 simulator ^slurm user\n"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "setup", ["cat <<EOF", "cat <<'EOF'\nEO", "A='", 'echo "$(', "if true; then", "f() {", "cat |", "false &&"]
)
def test_a_setup_that_ends_in_the_middle_swallows_no_command(shell: str, setup: str, tmp_path: Path) -> None:
    for launch in (
        rendered(Command(SHELL, ("echo ran",)), spec={"setup": setup}),
        rendered(Command(SHELL, ("echo ran",)), world=NodeWorld(setup=setup), spec={"setup": "echo second"}),
    ):
        done = run(shell, launch, tmp_path)
        assert b"ran" not in done.stdout
        assert b"second" not in done.stdout.splitlines()
        assert done.returncode == 2
        assert done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_setup_leaves_what_it_made_and_nothing_of_ours(shell: str, tmp_path: Path) -> None:
    setup = "cat <<EOF\nread\nEOF\nset -a; f() { echo f; }; false"
    launch = rendered(Command(SHELL, ("f; env | grep mgpu_; echo $mgpu_setup",)), spec={"setup": setup})
    assert run(shell, launch, tmp_path).stdout == b"read\nf\n\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_and_their_interpreters(shell: str, tmp_path: Path) -> None:
    def said(script: str, *words: str) -> bytes:
        return run(shell, rendered(Command(SCRIPT, words, script, "x.sh")), tmp_path).stdout

    assert said('echo "$1|$2"\n', "a b", "$x") == b"a b|$x\n"
    assert said('#!/bin/bash\necho "${BASH_VERSION:+bash} $#"\n', "1") == b"bash 1\n"
    assert said(f"#!{sys.executable}\nimport sys; print(sys.argv[1:])\n", "a'b", "") == b"[\"a'b\", '']\n"
    assert said("#! /bin/sh -e  \nfalse\necho not reached\n") == b""
    assert said("#!/usr/bin/env python3\nprint('by env')\n") == b"by env\n"
    assert said("#!\necho empty\n") == b"empty\n"


def test_a_virtual_environment_of_the_node(tmp_path: Path) -> None:
    binaries = tmp_path / "my env/bin"
    binaries.mkdir(parents=True)
    (binaries / "tool").write_text("#!/bin/sh\necho mine\n")
    (binaries / "tool").chmod(0o755)
    found = run("bash", rendered(Command(ARGV, ("tool",)), spec={"virtual_env": str(tmp_path / "my env")}), tmp_path)
    assert (found.stdout, found.stderr) == (b"mine\n", b"")
    absent = run("bash", rendered(Command(ARGV, ("true",)), spec={"virtual_env": "/not/here"}), tmp_path)
    assert absent.stderr.decode() == "mgpu: /not/here is not on this node: its programs are not in PATH\n"
    assert absent.returncode == 0


# --- environment ------------------------------------------------------------------------------------------------------


def environment(**more: Any) -> dict[str, str]:
    lines = rendered(Command(ARGV, ("true",)), **more).script.splitlines()
    pairs = [line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export ")]
    return {name: value.strip("'") for name, value in pairs}


def test_the_environment_of_one_node() -> None:
    env = environment()
    assert not {"MASTER_ADDR", "MASTER_PORT"} & env.keys()
    wanted = {"MGPU_RANK": "0", "MGPU_NNODES": "1", "MGPU_NODELIST": "node001", "MGPU_GPUS": "1", "MGPU_JOB_ID": "7"}
    wanted |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_ID": "7", "SLURM_NNODES": "1"}
    assert wanted.items() <= env.items()
    assert not PARTIAL_SETS & env.keys()


PARTIAL_SETS = {"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_PROCID", "SLURM_LOCALID", "RANK", "LOCAL_RANK"}


def test_uneven_nodes_without_ranks_that_mgpu_starts() -> None:
    """WORLD_SIZE counts GPUs, for whoever starts one process on each; nothing says that a rank was started."""
    parts = (replace(part(0), uuids=(DeviceUuid("a"), DeviceUuid("b")), devices=(0, 1)), part(1))
    first, second = (variables(Gang(job(), attempt(port=1), one, parts, ("10.0.0.1", "10.0.0.2"))) for one in parts)
    assert first == {"NODE_RANK": "0", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "2"}
    assert second == {"NODE_RANK": "1", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "1"}
    bare = tuple(replace(one, uuids=(), devices=()) for one in parts)
    assert variables(Gang(job(), attempt(port=1), bare[0], bare, ("", "")))["WORLD_SIZE"] == "2"


def test_the_environment_of_tasks_that_mgpu_starts() -> None:
    one = environment(spec={"tasks_per_node": 1})
    assert (one["MASTER_ADDR"], one["MASTER_PORT"], one["SLURM_NTASKS"], one["RANK"]) == (
        "127.0.0.1",
        "23456",
        "1",
        "0",
    )
    assert one.keys() >= PARTIAL_SETS
    two = environment(ranks=2, rank=1, spec={"tasks_per_node": 2})
    assert (two["SLURM_NTASKS"], two["SLURM_TASKS_PER_NODE"], two["WORLD_SIZE"]) == ("4", "2(x2)", "4")
    assert (two["LOCAL_WORLD_SIZE"], two["NODE_RANK"], two["SLURM_STEP_NODELIST"]) == ("2", "1", "10.0.0.1,10.0.0.2")


def test_the_environment_of_several_nodes() -> None:
    first, third = environment(ranks=3), environment(ranks=3, rank=2)
    for env in (first, third):
        assert (env["MASTER_ADDR"], env["MGPU_NNODES"], env["MGPU_NODELIST"]) == ("10.0.0.1", "3", "node[001-003]")
        assert env["MGPU_GPUS"] == "3"
    assert (first["MGPU_RANK"], third["MGPU_RANK"], third["SLURM_NODEID"]) == ("0", "2", "2")
    assert (third["MGPU_NODE_ID"], first["MASTER_PORT"]) == ("node003", third["MASTER_PORT"])
    assert {env["SLURM_JOB_NODELIST"] for env in (first, third)} == {"10.0.0.1,10.0.0.2,10.0.0.3"}
    assert not {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"} & first.keys()
    assert rendered(Command(ARGV, ("true",)), ranks=2).gang
    assert not rendered(Command(ARGV, ("true",))).gang


@given(st.integers(1, 10**9), st.integers(1, 100))
def test_ports_are_usable_and_neighbours_differ(job_id: int, number: int) -> None:
    port = meeting_port(JobId(job_id), number, ())
    assert 1024 < port < 65536
    assert port not in (meeting_port(JobId(job_id + 1), number, ()), meeting_port(JobId(job_id), number + 1, ()))


def test_no_two_attempts_meet_at_one_port() -> None:
    taken: set[int | None] = {None}
    for _ in range(3):
        taken.add(meeting_port(JobId(7), 1, taken, (500, 502)))
    assert taken == {None, 500, 501, 502}
    assert meeting_port(JobId(7), 1, taken, (500, 502)) in taken  # the node then says that it is in use


def test_only_what_may_be_queued_again_finds_the_way_to_ask_for_it() -> None:
    batch = rendered(Command(ARGV, ("true",)))
    assert '"${0%/*}/bin:$PATH"' in batch.script
    assert not batch.append
    assert "bin:$PATH" not in rendered(Command(ARGV, ("true",)), kind=JobKind.SRUN).script
    assert "bin:$PATH" not in rendered(Command(ARGV, ("true",)), spec={"requeue": False}).script
    gang = rendered(Command(ARGV, ("true",)), ranks=2, kind=JobKind.SRUN)
    assert ("bin:$PATH" in gang.script, gang.requeue, batch.requeue) == (True, False, True)
    later = replace(part(), attempt=2)
    assert render(Gang(job(), attempt(), later, (later,), ("",)), NodeWorld()).append


def test_visible_devices() -> None:
    uuids = [DeviceUuid("GPU-a"), DeviceUuid("GPU-b")]
    assert visible_devices([2, 3], uuids, by_uuid=False) == "2,3"
    assert visible_devices([2, 3], uuids, by_uuid=True) == "GPU-a,GPU-b"
    assert visible_devices([0], [DeviceUuid("MIG-1")], by_uuid=False) == "MIG-1"
    assert visible_devices([], [], by_uuid=False) == ""  # no GPU at all, not "all of them"


@pytest.mark.parametrize(
    ("pattern", "filled"),
    [
        ("out-%j.%r", "out-7.0"),
        ("%n/%x_%a", "node001/na_me_0"),
        ("%N-%u-%A", "node001-bob-7"),
        ("%4j %3a %2n", "0007 000 %2n"),
        ("100%%j", "100%j"),
        ("%y %", "%y %"),
        ("%%%j%", "%7%"),
        ("", ""),
    ],
)
def test_patterns_of_file_names(pattern: str, filled: str) -> None:
    named = job()
    named = replace(named, spec=replace(named.spec, name="na/me"))
    assert fill_pattern(pattern, named, part()) == filled


def test_a_task_of_an_array_is_told_which() -> None:
    task = {"spec": {"array": "1-9:2%4"}, "array_id": JobId(5), "array_index": 3}
    env = environment(**task)
    assert (env["MGPU_ARRAY_INDEX"], env["SLURM_JOB_ID"]) == ("3", "7")
    names = ("JOB_ID", "TASK_ID", "TASK_COUNT", "TASK_MIN", "TASK_MAX", "TASK_STEP")
    assert [env[f"SLURM_ARRAY_{name}"] for name in names] == ["5", "3", "5", "1", "9", "2"]
    assert fill_pattern("%A_%a %3a %j", job(**task), part()) == "5_3 003 7"
    assert not [name for name in environment() if "ARRAY" in name]


def test_only_a_batch_job_writes_files_on_the_node() -> None:
    spec = {"output": "o-%j", "error": "e-%j"}
    batch = rendered(Command(ARGV, ("true",)), spec=spec)
    assert (batch.output, batch.error) == ("o-7", "e-7")
    srun = rendered(Command(ARGV, ("true",)), kind=JobKind.SRUN, spec=spec)
    assert (srun.output, srun.error) == ("", "")


@pytest.mark.parametrize(
    ("chdir", "workdir", "wanted"),
    [("", "", ("/home/bob", False)), ("", "/work", ("/work", True)), ("/data", "/work", ("/data", True))],
)
def test_where_it_runs(chdir: str, workdir: str, wanted: tuple[str, bool]) -> None:
    launch = rendered(Command(ARGV, ("true",)), world=NodeWorld(workdir=workdir), spec={"chdir": chdir})
    assert (launch.directory, launch.directory_must_exist) == wanted


def test_nodes_are_named_in_slurms_form() -> None:
    parts = (part(0), part(1, node=NodeName("other9")))
    launch = render(Gang(job(), attempt(port=23456), parts[1], parts, ("", "")), NodeWorld())
    assert "export MGPU_NODELIST='node001,other9'" in launch.script
    assert "MASTER_ADDR" not in launch.script  # nobody knows it: better none than a wrong one


@pytest.mark.parametrize("name", [".bash_profile", ".bash_login", ".profile"])
def test_a_login_shell_reads_what_a_login_reads(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("at_login() { echo from the login; }\n")
    world = NodeWorld(setup="at_setup=$(at_login)", login_shell=True)
    launch = rendered(Command(SHELL, ("echo $at_setup$mgpu_file; at_login",)), world=world)
    assert launch.shell == "bash"
    assert run("bash", launch, tmp_path, {"HOME": str(tmp_path)}).stdout == b"from the login\nfrom the login\n"
