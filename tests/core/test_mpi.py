"""What mpirun is told about the nodes of its job."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mgpu.core.errors import RequestError
from mgpu.core.gang import Gang
from mgpu.core.launch import NodeWorld, render
from mgpu.core.launchers import mpi
from mgpu.core.model import Command, CommandForm, DeviceUuid, LauncherName, Part
from mgpu.core.request import parse_submission
from tests.core.test_request import NODES, payload
from tests.core.trial import attempt, job, part

TELL = """\
cat "$OMPI_MCA_orte_default_hostfile" "$HYDRA_HOST_FILE"
[ "$PRTE_MCA_prte_default_hostfile" = "$OMPI_MCA_orte_default_hostfile" ] && [ -x "$HYDRA_LAUNCHER_EXEC" ] && echo same
echo "$OMPI_MCA_plm_rsh_agent $HYDRA_ENV $OMPI_MCA_btl_tcp_if_include"
ls -ld "${HYDRA_LAUNCHER_EXEC%/*}"
"""


def argv(line: str) -> Command:
    return Command(CommandForm.ARGV, tuple(line.split()))


def gpus(*counts: int) -> tuple[Part, ...]:
    uuids = [tuple(DeviceUuid(f"GPU-{rank}-{number}") for number in range(count)) for rank, count in enumerate(counts)]
    return tuple(part(rank, uuids=each, devices=tuple(range(len(each)))) for rank, each in enumerate(uuids))


def gang(parts: tuple[Part, ...], command: Command, interfaces: tuple[str, ...] = (), **spec: Any) -> Gang:
    made = job(command=command, spec={"launcher": LauncherName.MPI, **spec})
    addresses = tuple(f"10.0.0.{number + 1}" for number in range(len(parts)))
    return Gang(made, attempt(port=23456), parts[0], parts, addresses, interfaces)


def run(text: str, folder: Path) -> str:
    (folder / "script").write_text(text)
    environ = {"PATH": os.environ["PATH"]}
    return subprocess.run(["sh", folder / "script"], env=environ, capture_output=True, text=True, check=True).stdout


def test_mpirun_finds_its_hosts_slots_and_agent(tmp_path: Path) -> None:
    made = gang(gpus(2, 3, 0), Command(CommandForm.SHELL, (TELL,)), interfaces=("ib0",) * 3)
    lines = run(render(made, NodeWorld()).script, tmp_path).splitlines()
    name = Path("/proc/sys/kernel/hostname").read_text().strip()
    agent = f"/bin/sh {tmp_path}/spawn/agent none ib0"
    hosts = [f"{name} slots=2", "10.0.0.2 slots=3", "10.0.0.3 slots=1"]
    hydra = ["10.0.0.1:2", "10.0.0.2:3", "10.0.0.3:1"]
    assert lines[:-1] == [*hosts, *hydra, "same", agent]
    assert lines[-1].startswith("drwx------")


def test_whatever_umask_a_setup_leaves_its_files_can_be_read_by_their_owner_alone(tmp_path: Path) -> None:
    made = gang(gpus(1, 1), Command(CommandForm.SHELL, ("true",)))
    for mask in ("777", "000"):
        folder = tmp_path / mask
        folder.mkdir()
        run(render(made, NodeWorld(setup=f"umask {mask}")).script, folder)
        modes = {file.name: f"{file.stat().st_mode & 0o777:o}" for file in (folder / "spawn").iterdir()}
        assert modes == {"hosts": "600", "hydra.hosts": "600", "agent": "700", "world": "600"}


def test_as_many_slots_as_were_asked_for(tmp_path: Path) -> None:
    made = gang(gpus(0, 0), Command(CommandForm.SHELL, ('cat "$HYDRA_HOST_FILE"',)), tasks_per_node=3)
    assert run(render(made, NodeWorld()).script, tmp_path) == "10.0.0.1:3\n10.0.0.2:3\n"


def test_an_interface_only_where_it_has_one_name_on_all_nodes() -> None:
    for names in (("ib0", "ib1"), ("ib0", ""), ("", "")):
        assert "OMPI_MCA_btl_tcp_if_include" not in mpi.variables(gang(gpus(1, 1), argv("mpirun"), interfaces=names))
    told = mpi.variables(gang(gpus(1, 1), argv("mpirun"), interfaces=("ib0", "ib0")))
    assert {told[name] for name in told if name.endswith("if_include")} == {"ib0"}


def test_an_mpirun_that_is_not_there_is_named(tmp_path: Path) -> None:
    text = render(gang(gpus(1, 1), argv("mpirun-of-ours -np 2 hostname")), NodeWorld()).script
    (tmp_path / "script").write_text(text)
    ended = subprocess.run(["sh", tmp_path / "script"], capture_output=True, text=True, check=False)
    assert ended.returncode == 127
    assert ended.stderr.startswith("mgpu: there is no mpirun-of-ours in PATH on node001: install it there")


@pytest.mark.parametrize(
    ("addresses", "told"),
    [
        (("127.0.0.1", "127.0.0.1"), "nodes of this job are one machine, which mpirun takes for one node"),
        (("10.0.0.1", ""), "where the other nodes reach node002 is not known: network.address in the inventory"),
    ],
)
def test_hosts_that_mpirun_would_not_find_are_told_of(tmp_path: Path, addresses: tuple[str, ...], told: str) -> None:
    made = replace(gang(gpus(1, 1), argv("mpirun hostname")), addresses=addresses)
    (tmp_path / "script").write_text(render(made, NodeWorld()).script)
    ended = subprocess.run(["sh", tmp_path / "script"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"mgpu: {told}")


@pytest.mark.parametrize("line", ["mpirun -np 5 a.out", "/opt/bin/mpiexec -x A --mca btl tcp -n 5 python t.py -n 1"])
def test_more_ranks_than_slots_are_refused(line: str) -> None:
    with pytest.raises(RequestError, match=r"-np? 5: 2 nodes have 4 slots, one for each GPU"):
        mpi.settle(argv(line), (2, 2))


@pytest.mark.parametrize(
    "line",
    [
        "mpirun -np 4 a.out",
        "mpirun a.out -np 5",  # the program's own
        "mpirun --oversubscribe -np 5 a.out",
        "mpirun -H other:8 -np 5 a.out",
        "mpirun --map-by :OVERSUBSCRIBE -np 5 a.out",
        "mpirun -np",
        "mpirun -np five a.out",
        "mpirun",
        "sh -c mpirun -np 5",
    ],
)
def test_what_is_not_clearly_too_many_is_left_to_mpirun(line: str) -> None:
    assert mpi.settle(argv(line), (2, 2)) == argv(line)
    assert mpi.settle(argv("mpirun -np 5 a.out"), ()).words[0] == "mpirun"


def test_slots_that_were_asked_for_count_at_submission() -> None:
    words = {"form": "argv", "words": ["mpirun", "-np", "8", "a.out"]}
    options = {"nodes": "2", "gpus": "0", "ntasks_per_node": "4", "launcher": "mpi"}
    assert parse_submission(payload(options, command=words), NODES, {}, "bob")[0].tasks_per_node == 4
    with pytest.raises(RequestError, match="2 nodes have 6 slots"):
        parse_submission(payload({**options, "ntasks_per_node": "3"}, command=words), NODES, {}, "bob")


def test_who_waits_for_work_reads_no_stdin() -> None:
    made = gang(gpus(1, 1), argv("mpirun a.out"), input="pipe")
    assert [render(replace(made, part=one), NodeWorld()).input for one in made.parts] == ["pipe", ""]


@pytest.mark.parametrize(
    ("command", "asked", "first"),
    [
        (argv("mpirun a.out"), "10@60", "B:10@60"),
        (argv("mpirun a.out"), "B:10@60", "B:10@60"),
        (Command(CommandForm.SCRIPT, (), "mpirun a.out"), "10@60", "10@60"),
        (argv("mpirun a.out"), "", ""),
    ],
)
def test_a_warning_is_mpiruns_to_pass_on(command: Command, asked: str, first: str) -> None:
    made = gang(gpus(1, 1), command, signal=asked)
    words = [render(replace(made, part=one), NodeWorld()).signal for one in made.parts]
    assert words == [first, ""]
