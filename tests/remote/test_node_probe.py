"""Probes as the node answers them: what it has, how nvidia-smi is asked, and with what bounds."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from mgpu.core.smi.gpus import FIELDS
from mgpu.remote.runner import ProbeWanted
from tests.remote.conftest import Workbench, living, wait_until


def stand_in(bench: Workbench, text: str) -> Path:
    path = bench.bin / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_probe_brings_everything_home(bench: Workbench, mark: str) -> None:
    bench.start("1.1", f"exec sleep {mark}")
    wait_until(lambda: bool(living(mark)))
    (pid,) = living(mark)
    path = stand_in(
        bench,
        f"""case $* in
        --query-gpu={",".join(FIELDS)}*) echo '0, GPU-1, name, with comma, Enabled, 4'; echo noise >&2; exit 3 ;;
        '-q -d PIDS') echo 'Process ID : {pid}'; echo ' Process ID  : 999999999'; echo junk ;;
        -L) echo list ;;
        '') echo table ;;
        'topo -m') echo topology ;;
        esac""",
    )
    raw = bench.runner.probe(ProbeWanted())
    assert (raw.smi_path, raw.gpu_status, raw.pids_status, raw.fields) == (str(path), 3, 0, FIELDS)
    assert raw.gpu_text.strip() == "0, GPU-1, name, with comma, Enabled, 4"
    assert raw.pids_text.split("\n")[:3] == [f"Process ID : {pid}", " Process ID  : 999999999", "junk"]
    assert (raw.mig_list, raw.mig_table, raw.topology_text, raw.kernel_text) == ("list\n", "table\n", None, None)
    (line,) = raw.process_text.strip().splitlines()
    found = line.split(" ", 5)
    assert found[0] == str(pid)
    assert (found[3], found[4]) == (bench.wait("1.1", "pid").split(":")[0], bench.tokens["1.1"])
    assert raw.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert str(bench.bin) in raw.searched


def test_what_seldom_changes_is_asked_for_now_and_then(bench: Workbench) -> None:
    stand_in(bench, "[ \"$*\" = 'topo -m' ] && echo links")
    raw = bench.runner.probe(ProbeWanted(slow=True))
    assert raw.topology_text == "links\n"
    assert raw.kernel_text is not None
    words = dict(line.split(" ", 1) for line in raw.facts_text.strip().splitlines())
    assert sorted(words) == ["cpus", "disk", "load", "memory"]
    total, available = map(int, words["memory"].split())
    assert 0 < available < total
    assert int(words["cpus"]) > 0
    assert int(words["disk"]) > 0


@pytest.mark.parametrize(
    "refused", [("gpu_recovery_action", "mig.mode.current"), FIELDS[7:]], ids=["two", "all new ones"]
)
def test_fields_that_a_driver_does_not_know_are_left_out_and_that_is_remembered(
    bench: Workbench, refused: tuple[str, ...]
) -> None:
    asked = bench.folder / "asked"
    stand_in(
        bench,
        f"""echo "$*" >>{asked}
        for field in {" ".join(refused)}; do
          case ,${{1#--query-gpu=}}, in *,$field,*) ;; *) continue ;; esac
          printf 'Field "%s" is not a valid field to query.\n' $field
          exit 2
        done
        echo row""",
    )
    known = tuple(field for field in FIELDS if field not in refused)
    assert bench.runner.probe(ProbeWanted()).fields == known
    assert len(asked.read_text().splitlines()) == len(refused) + 2  # each is turned down once
    asked.unlink()
    raw = bench.runner.probe(ProbeWanted())
    assert (raw.fields, raw.gpu_status, raw.gpu_text) == (known, 0, "row\n")
    assert len([line for line in asked.read_text().splitlines() if "query-gpu" in line]) == 1
    stand_in(bench, "echo row")  # another driver
    assert bench.runner.probe(ProbeWanted()).fields == known
    assert bench.runner.probe(ProbeWanted(slow=True)).fields == FIELDS


def test_a_driver_that_refuses_everything_is_not_asked_for_ever(bench: Workbench) -> None:
    stand_in(bench, "echo 'Field \"what\" is not a valid field to query.'; exit 2")
    raw = bench.runner.probe(ProbeWanted())
    assert (raw.gpu_status, raw.fields) == (2, FIELDS)


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ("echo all well", 0, "all well\n"),
        ("echo 'disk broken' >&2; exit 7", 7, "disk broken\n"),
        ("head -c 5000 /dev/zero | tr '\\0' x", 0, "x" * 1000 + "\n"),
        ("yes", 124, "y\n" * 500),
        ("sleep 1000", 124, "\n"),
        ("echo killed; kill -9 $$", 137, "killed\n"),
    ],
)
def test_the_sites_own_check(quick_bench: Workbench, command: str, status: int, text: str) -> None:
    patience_s = 1 if status == 124 else 30  # what ends by itself is to end so on a slow machine too
    raw = quick_bench.runner.probe(ProbeWanted("/not/here", check=command, check_timeout_s=patience_s))
    assert (raw.check_status, raw.check_text, raw.gpu_status) == (status, text, 127)
    assert quick_bench.runner.probe(ProbeWanted("/not/here")).check_status is None


def test_a_probe_without_nvidia_smi(bench: Workbench) -> None:
    raw = bench.runner.probe(ProbeWanted("/not/here/nvidia-smi"))
    assert (raw.smi_path, raw.gpu_status) == ("/not/here/nvidia-smi", 127)
    raw = bench.runner.probe(ProbeWanted())
    assert (raw.smi_path, raw.gpu_status) == ("", 127)
    assert str(bench.bin) in raw.searched
    path = stand_in(bench, "echo from elsewhere")
    assert bench.runner.probe(ProbeWanted(str(path))).smi_path == str(path)


def test_a_hanging_nvidia_smi_is_ended_and_asked_no_more(bench: Workbench, mark: str) -> None:
    asked = bench.folder / "asked"
    hang = f'echo "$*" >>{asked}; exec sleep {mark}'
    stand_in(bench, f"trap '' TERM; {hang}" if bench.shell == "dash" else hang)
    raw = bench.runner.probe(ProbeWanted(timeout_s=1, slow=True))
    assert (raw.gpu_status, raw.pids_status) == (124, 127)
    assert len(asked.read_text().splitlines()) == 1
    assert not living(mark)


def test_none_is_started_beside_one_that_cannot_be_ended(bench: Workbench) -> None:
    """What it would hold, a lock on our directory there, is held here by us."""
    asked = bench.folder / "asked"
    stand_in(bench, f"echo >>{asked}; echo row")
    assert bench.runner.probe(ProbeWanted()).gpu_status == 0
    place = bench.place("1.1").parent
    lines = asked.read_text()
    held = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        raw = bench.runner.probe(ProbeWanted(timeout_s=1))
        assert (raw.gpu_status, raw.pids_status, raw.gpu_text) == (75, 75, "")
        assert asked.read_text() == lines
    finally:
        os.close(held)
    assert bench.runner.probe(ProbeWanted()).gpu_status == 0


def test_one_that_is_only_slow_is_waited_for(quick_bench: Workbench) -> None:
    """That of a master before this one."""
    stand_in(quick_bench, "echo row")
    quick_bench.runner.probe(ProbeWanted())
    held = os.open(quick_bench.place("1.1").parent, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    ending = threading.Timer(0.3, os.close, [held])
    ending.start()
    raw = quick_bench.runner.probe(ProbeWanted(timeout_s=30))
    ending.join()
    assert (raw.gpu_status, raw.gpu_text) == (0, "row\n")


def test_what_a_wrapper_leaves_behind_is_not_taken_for_one_that_hangs(quick_bench: Workbench, mark: str) -> None:
    stand_in(quick_bench, f"setsid -f sleep {mark} >/dev/null 2>&1; echo row")
    quick_bench.runner.probe(ProbeWanted())  # makes the directory that the next ones lock
    try:
        assert [quick_bench.runner.probe(ProbeWanted()).gpu_status for _ in range(2)] == [0, 0]
        assert living(mark)
    finally:
        for pid in living(mark):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("command", ["yes 0, GPU-1, A100, 81920", "head -c 3000000 /dev/urandom"])
def test_what_is_printed_without_end_stays_on_the_node(bench: Workbench, command: str) -> None:
    asked = bench.folder / "asked"
    stand_in(bench, f'echo "$*" >>{asked}; {command}')
    raw = bench.runner.probe(ProbeWanted(timeout_s=30, slow=True))
    assert (raw.gpu_status, raw.gpu_text.strip(), raw.pids_status) == (153, "", 127)
    assert len(asked.read_text().splitlines()) == 1
    stand_in(bench, f"case $* in -q*) {command} ;; *) echo row ;; esac")
    raw = bench.runner.probe(ProbeWanted(timeout_s=30, slow=True))
    assert (raw.gpu_status, raw.gpu_text, raw.pids_status, raw.pids_text.strip()) == (0, "row\n", 153, "")


def test_processes_without_number_are_not_looked_at(bench: Workbench) -> None:
    stand_in(bench, f"case $* in -q*) yes 'Process ID : {os.getpid()}' | head -n 5000 ;; *) echo row ;; esac")
    raw = bench.runner.probe(ProbeWanted())
    assert (raw.pids_status, raw.pids_text.count("Process ID"), raw.process_text.strip()) == (0, 5000, "")


def test_gpus_whose_lease_cannot_be_taken_are_told(bench: Workbench) -> None:
    """Whatever a stranger puts there; one that is free, or not there yet, is none."""
    tag = f"{os.getpid()}-{bench.folder.name.replace('_', '-')}"
    names = [f"GPU-{tag}{kind}" for kind in ("file", "link", "dangling", "sound", "absent")]
    names += [f"MIG-GPU-{tag}/7/0", f"MIG-{tag}"]
    file, link, dangling, sound, _, instance, _ = (Path(f"/tmp/mgpu.lease.{name.replace('/', '_')}") for name in names)
    rows = [f"{index}, {name}, 0000:01:00.0, A100, Enabled, 9" for index, name in enumerate(names[:5])]
    listed = [f"  MIG 1g.10gb     Device  0: (UUID: {name})" for name in names[5:]]
    texts = {"rows": rows, "listed": listed}
    for name, told in texts.items():
        (bench.folder / name).write_text("\n".join([*told, "junk", "0, ", "7, GPU-*, x"]))
    stand_in(bench, f"case $* in *query*) cat {bench.folder}/rows ;; -L) cat {bench.folder}/listed ;; esac")
    try:
        file.touch()
        instance.touch()
        link.symlink_to("/tmp")
        dangling.symlink_to("/not/here")
        sound.mkdir()
        raw = bench.runner.probe(ProbeWanted())
    finally:
        for place in (file, instance, link, dangling):
            place.unlink(missing_ok=True)
        sound.rmdir()
    found = [line.split(" ") for line in raw.obstructed.split("\n") if line]
    assert found == [[name, Path.home().owner()] for name in (*names[:3], names[5])]
    assert bench.runner.probe(ProbeWanted()).obstructed.strip() == ""


def test_an_nvidia_smi_that_somebody_kills_did_not_hang(bench: Workbench) -> None:
    stand_in(bench, "echo row; kill -9 $$")
    raw = bench.runner.probe(ProbeWanted())
    assert (raw.gpu_status, raw.gpu_text, raw.pids_status) == (137, "row\n", 137)


@pytest.mark.parametrize("left", ["sleep {} &", "setsid sleep {} &", "sleep {} >/dev/null 2>&1 &"])
def test_what_a_program_leaves_behind_is_not_waited_for(bench: Workbench, mark: str, left: str) -> None:
    """It holds the pipe, and would for a quarter of an hour; it is ended with the program that left it."""
    left = left.format(mark)
    stand_in(bench, f"{left} echo row")
    raw = bench.runner.probe(ProbeWanted(check=f"{left} exit 1", timeout_s=200, check_timeout_s=200))
    assert (raw.check_status, raw.gpu_status, raw.gpu_text) == (1, 0, "row\n")
    assert not living(mark)


def test_a_slow_nvidia_smi_has_twice_its_time_for_all_that_it_is_asked(quick_bench: Workbench) -> None:
    asked = quick_bench.folder / "asked"
    stand_in(quick_bench, f'echo "$*" >>{asked}; sleep 1.5; echo "0, Enabled, x"')
    raw = quick_bench.runner.probe(ProbeWanted(timeout_s=2, slow=True))
    assert (raw.gpu_status, raw.gpu_text) == (0, "0, Enabled, x\n")
    assert len(asked.read_text().splitlines()) < 5  # GPUs, processes, instances, their table, links
    assert raw.topology_text is None


def test_how_long_nvidia_smi_takes_is_told(quick_bench: Workbench) -> None:
    stand_in(quick_bench, "sleep 1.1")
    assert quick_bench.runner.probe(ProbeWanted()).took_s >= 2  # it is asked twice
    assert quick_bench.runner.probe(ProbeWanted("/not/here")).took_s == 0


def test_a_process_with_a_strange_name(bench: Workbench) -> None:
    """Names may hold blanks, brackets and newlines; none of that makes a process unseen."""
    rename = 'import time; open("/proc/self/comm", "w").write("a) Z\\n1 (b"); time.sleep(1000)'
    bench.start("1.1", f"exec {sys.executable} -c '{rename}'")
    pid = int(bench.wait("1.1", "pid").split(":")[0])
    wait_until(lambda: any(b"a) Z" in _name(child) for child in _session(pid)), "the name")
    (member,) = [child for child in _session(pid) if b"a) Z" in _name(child)]
    assert bench.stop("1.1") == ("ok", "stopping")
    assert bench.exit_of("1.1") == "143"
    with pytest.raises(ProcessLookupError):
        os.kill(member, signal.SIGCONT)


def _name(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/comm").read_bytes()
    except OSError:
        return b""


def _session(leader: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == leader:
                    found.append(int(entry.name))
            except ProcessLookupError:
                continue
    return found
