"""The node's half: what is left on a node, whether it lives, and what may be removed: nothing outside the run root."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from time import time

import pytest

from mgpu.core.residue import RunDirectory
from mgpu.remote.runner import ShellRunner
from mgpu.remote.session import NodeSession
from tests.remote.conftest import ShellConnection, Workbench, living, wait_until

OURS, OTHER = "a" * 32, "0123456789abcdef" * 2


class Account:
    """Two masters with the same account: `bench.runner` is that of OURS, `other` that of OTHER."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        connection = ShellConnection(bench.environ, bench.bin / "sh")
        self.base = bench.folder / "run"
        self.sessions = [
            NodeSession(lambda: connection, (database, "node001", str(self.base)), 30.0) for database in (OURS, OTHER)
        ]
        bench._sessions += self.sessions
        bench.session, self.other_session = self.sessions
        bench.runner, self.other = map(ShellRunner, self.sessions)
        bench.place = lambda key: self.base / OURS / "node001" / key  # type: ignore[method-assign]

    def runs(self) -> dict[str, RunDirectory]:
        return {run.place: run for run in self.bench.runner.residue().runs}

    def conditions(self) -> dict[str, str]:
        return {place: run.condition for place, run in self.runs().items()}

    def remove(self, *places: str, age_s: int = 0) -> dict[str, str]:
        return self.bench.runner.remove(age_s, places)


@pytest.fixture
def account(bench: Workbench) -> Account:
    return Account(bench)


@pytest.fixture
def quick_account(quick_bench: Workbench) -> Account:
    return Account(quick_bench)


def place(key: str, database: str = OURS) -> str:
    return f"{database}/node001/{key}"


def test_what_is_there_and_whether_it_lives(account: Account, mark: str) -> None:
    bench = account.bench
    assert account.conditions() == {}
    uuids = bench.devices(2)
    bench.run("1.1", "head -c 100000 /dev/zero", uuids[:1])
    bench.run("2.1", "echo gone")
    bench.runner.clean(["2.1"])
    bench.start("3.1", f"sleep {mark}", uuids[1:])
    bench.wait("3.1", "started")
    bench.tokens["4.1"] = "f" * 32
    assert bench.stop("4.1") == ("ok", "fenced")
    (account.base / place("5.1")).mkdir()
    for key, boot in ("6.1", "0-0-0"), ("7.1", Path("/proc/sys/kernel/random/boot_id").read_text().strip()):
        (account.base / place(key)).mkdir()
        (account.base / place(key) / "script").touch()
        (account.base / place(key) / "pid").symlink_to(f"{2**22}:1:{boot}:{'e' * 32}")
    for strange in ("notes", OURS + "/node001/notes", OURS + "/node001/8.1.1", "x" * 32 + "/node001/1.1"):
        (account.base / strange).mkdir(parents=True)
    (account.base / OTHER / "node001").mkdir(parents=True)
    (account.base / place("9.1", OTHER)).symlink_to(bench.folder)
    try:
        assert account.conditions() == {
            place("1.1"): "ended",
            place("2.1"): "tombstone",
            place("3.1"): "alive",
            place("4.1"): "tombstone",
            place("5.1"): "unstarted",
            place("6.1"): "elsewhere",
            place("7.1"): "died",
        }
        found = bench.runner.residue()
        assert found.base == str(account.base)
        assert account.runs()[place("1.1")].size_kib >= 98
        assert all(0 <= run.age_s < 60 for run in found.runs)
        assert [(events.database, events.node) for events in found.events] == [(OURS, "node001")]
        held = {lease.name: lease.held for lease in found.leases if lease.name in uuids}
        assert held == {uuids[0]: False, uuids[1]: True}
    finally:
        for key in ("5.1", "6.1", "7.1"):
            bench.tokens[key] = "e" * 32  # ended with the others
        bench.tokens.pop("6.1"), bench.tokens.pop("7.1")


def test_only_what_is_dead_goes(account: Account, mark: str) -> None:
    bench = account.bench
    for key in ("1.1", "2.1"):
        bench.run(key, "echo x")
    bench.runner.clean(["2.1"])
    bench.start("3.1", f"sleep {mark}")
    bench.wait("3.1", "started")
    (account.base / place("4.1")).mkdir()
    places = [place(f"{number}.1") for number in range(1, 6)]
    assert account.remove(*places, age_s=600) == dict(
        zip(places, ["young"] * 2 + ["alive", "young", "absent"], strict=True)
    )
    assert account.remove(*places) == dict(zip(places, ["removed"] * 2 + ["alive", "removed", "absent"], strict=True))
    assert account.conditions() == {place("3.1"): "alive"}
    assert living(mark)
    for key in ("1.1", "2.1"):
        del bench.tokens[key]


ORPHANS: dict[str, str] = {
    "in its session": "env -i $(command -v sleep) MARK 9<&-",
    "with its token": "setsid sleep MARK 9<&-",
    "with its directory": "env -i setsid $(command -v sleep) MARK",
}


@pytest.mark.parametrize("left", ORPHANS)
def test_what_outlives_those_who_watch_keeps_its_run_directory(quick_account: Account, mark: str, left: str) -> None:
    bench = quick_account.bench
    bench.start("1.1", f"{ORPHANS[left].replace('MARK', mark)} & wait")
    started = bench.wait("1.1", "started")
    wait_until(lambda: bool(living(mark)), "the process")
    [kept] = living(mark)
    supervisor = int(bench.wait("1.1", "pid").split(":")[0])
    for pid in (supervisor, int(started.split(":")[0])):
        os.kill(pid, signal.SIGKILL)
    try:
        wait_until(lambda: not bench.look("1.1").alive, "the end of the supervisor")
        assert quick_account.conditions() == {place("1.1"): "alive"}
        assert quick_account.remove(place("1.1")) == {place("1.1"): "alive"}
        assert bench.place("1.1").is_dir()
    finally:
        os.kill(kept, signal.SIGKILL)


def test_nothing_outside_of_the_run_root_goes(quick_account: Account, tmp_path: Path) -> None:
    account, bench = quick_account, quick_account.bench
    bench.run("1.1", "echo x")
    outside = tmp_path / "outside"
    (outside / "node001/1.1").mkdir(parents=True)
    precious = outside / "node001/1.1/precious"
    precious.touch()
    (account.base / OTHER).symlink_to(outside)
    (account.base / ("b" * 32)).mkdir()
    (account.base / ("b" * 32) / "node001").symlink_to(outside / "node001")
    (account.base / OURS / "node001/2.1").symlink_to(outside / "node001/1.1")
    (bench.place("1.1") / "link").symlink_to(outside)
    tries = [
        place("1.1", OTHER), place("1.1", "b" * 32), place("2.1"), f"{OURS}/../outside/1.1", f"{OURS}/node001/..",
        f"{OURS}/node001", OURS, "/", f"{OURS}/node001/1.*", f"/{OURS}/node001/1.1", f"{OURS}/node001/1.1/link",
        "../outside/node001/1.1",
    ]  # fmt: skip
    assert account.remove(*tries) == dict.fromkeys(tries, "absent")
    assert account.remove(place("1.1")) == {place("1.1"): "removed"}
    assert precious.exists()
    del bench.tokens["1.1"]


def test_the_folder_of_another_database_goes_with_the_last_of_it(quick_account: Account) -> None:
    account = quick_account
    token = "c" * 32
    for key in ("1.1", "2.1"):
        account.other_session.control("stop", key, token, "CANCEL", "1")
    (account.base / OTHER / "node001/events").touch()
    programs = account.base / OTHER / "node001/bin.1"
    programs.mkdir()
    (programs / "scontrol").touch()
    assert account.remove(place("1.1", OTHER)) == {place("1.1", OTHER): "removed"}
    assert (account.base / place("2.1", OTHER)).is_dir()
    assert (programs / "scontrol").exists()
    assert account.remove(place("2.1", OTHER)) == {place("2.1", OTHER): "removed"}
    assert not (account.base / OTHER).exists()
    account.bench.tokens["1.1"] = token
    assert account.bench.stop("1.1") == ("ok", "fenced")
    assert account.remove(place("1.1")) == {place("1.1"): "removed"}
    assert (account.base / OURS / "node001").is_dir()  # ours is listened to
    del account.bench.tokens["1.1"]


def test_leases_nobody_holds_go(quick_account: Account, mark: str) -> None:
    bench = quick_account.bench
    free, held, link = bench.devices(3)
    bench.lease(free).mkdir()
    bench.lease(link).symlink_to(bench.folder)
    bench.start("1.1", f"sleep {mark}", [held])
    bench.wait("1.1", "started")
    assert bench.runner.remove_leases([free, held, link, "no-such", "../home"]) == {
        free: "removed", held: "held", link: "absent", "no-such": "absent", "../home": "absent"
    }  # fmt: skip
    assert bench.folder.is_dir()
    assert not bench.lease(free).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_the_lease_of_another_account_stays(quick_account: Account) -> None:
    bench = quick_account.bench
    [uuid] = bench.devices(1)
    bench.lease(uuid).mkdir()
    os.chown(bench.lease(uuid), 12345, 12345)
    assert bench.runner.remove_leases([uuid]) == {uuid: "foreign"}


def test_a_job_whose_lease_was_removed_in_between_does_not_start(quick_bench: Workbench) -> None:
    """The lock would be on a directory that nobody can find any more, and the next would get another one."""
    bench = quick_bench
    [uuid] = bench.devices(1)
    # several nodes: it holds its leases, and waits
    bench.start("1.1", "echo never", [uuid], gang=True)
    bench.wait("1.1", "ready")
    assert bench.runner.remove_leases([uuid]) == {uuid: "held"}
    bench.lease(uuid).rmdir()
    assert bench.runner.go("1.1", "run") == "run"
    assert bench.exit_of("1.1") == f"fail:newcomer:the lease of {uuid} was removed in between"
    assert bench.output("1.1") == b""


def test_tombstones_go_when_they_are_a_week_old(account: Account) -> None:
    bench = account.bench
    root = account.base / OURS / "node001"
    root.mkdir(parents=True)
    old = time() - 8 * 86_400

    def tombstone(key: str, at: float, *files: str) -> None:
        (root / key).mkdir()
        (root / key / "pid").symlink_to("1:1:boot:" + "d" * 32)
        for name in files:
            (root / key / name).touch()
        os.utime(root / key, (at, at))

    for number in range(1, 26):
        tombstone(f"{number}.1", old)
    tombstone("30.1", old, "script")  # not cleaned
    tombstone("31.1", old, "stdout")
    tombstone("32.1", time() - 6 * 86_400)
    (root / "notes.1").mkdir()
    os.utime(root / "notes.1", (old, old))
    bench.session.control("clean", "99.1")  # as the quick half hands it on, now and then
    left = {path.name for path in root.iterdir()}
    assert {"30.1", "31.1", "32.1", "notes.1"} < left
    assert len(left) == 4 + 5  # a few at a time
    bench.session.control("clean", "99.1")  # as the quick half hands it on, now and then
    assert {path.name for path in root.iterdir()} == {"30.1", "31.1", "32.1", "notes.1"}
