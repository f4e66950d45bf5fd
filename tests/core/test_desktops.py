"""Workstations: what a desktop keeps on a GPU for ever, and whoever computes beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mgpu.core.plan import ExternalPolicy
from tests.core.test_probe import GOOD
from tests.core.test_smi import seen, told

HEAD = "\n==============NVSMI LOG==============\n\nDriver Version    : 595.3\nCUDA Version      : 13.2\n\n"
SLOTS = ("00000000:01:00.0", "00000000:03:00.0")


def on(slot: str, *processes: tuple[int, str, str, str]) -> str:
    """A GPU's section: (pid, kind, name, memory), without instances as the drivers of desktops print them."""
    lines = "".join(
        f"        Process ID            : {pid}\n            Type              : {kind}\n"
        f"            Name              : {name}\n            Used GPU Memory   : {memory}\n"
        for pid, kind, name, memory in processes
    )
    return f"GPU {slot}\n    Processes\n{lines}\n"


def row(index: int, name: str, used: int) -> str:
    return f"{index}, GPU-d{index}, {SLOTS[index]}, {name}, 8192, {used}, 3\n"


ALONE = replace(
    GOOD,
    gpu_text=row(0, "NVIDIA GeForce RTX 4080 SUPER", 61),
    pids_text=HEAD + on(SLOTS[0], (2165, "G", "/usr/bin/kwin_wayland", "25 MiB")),
    process_text="2165 dora 86400 2100 - kwin_wayland\n",
)
MINER = (3093, "C", "./miner", "2283 MiB")
PAIR = replace(
    GOOD,
    gpu_text=row(0, "GeForce GTX 1070", 2470) + row(1, "GeForce GTX 1070", 2290),
    pids_text=HEAD
    + on(SLOTS[0], (1357, "G", "/usr/lib/xorg/Xorg", "99 MiB"), (2384, "G", "/usr/bin/gnome-shell", "79 MiB"), MINER)
    + on(SLOTS[1], MINER),
    process_text="1357 root 9000 1350 - Xorg\n2384 dora 8000 2300 - gnome-shell\n3093 eve 7200 3093 - miner\n",
)
MINING = "external: external (eve, pid 3093, miner, 2.23 GiB, 2 h)"


def test_a_desktop_that_nobody_uses_leaves_its_gpu_free() -> None:
    assert told(seen(ALONE)) == ["0 free"]
    unlisted = ExternalPolicy(ignore=())
    assert told(seen(ALONE, unlisted)) == ["0 external: external (dora, pid 2165, kwin_wayland, 25 MiB, 1 d)"]


@pytest.mark.parametrize("policy", [ExternalPolicy(), ExternalPolicy(ignore=(), memory_threshold_mib=100)])
def test_beside_a_desktop_only_who_computes_is_named(policy: ExternalPolicy) -> None:
    assert told(seen(PAIR, policy)) == [f"0 {MINING}", f"1 {MINING}"]


def test_a_desktop_whose_memory_is_not_told_is_known_by_its_name() -> None:
    raw = replace(ALONE, pids_text=ALONE.pids_text.replace("25 MiB", "N/A"))
    assert told(seen(raw)) == ["0 free"]
    small = ExternalPolicy(ignore=(), memory_threshold_mib=600)
    assert told(seen(raw, small)) == ["0 external: external (dora, pid 2165, kwin_wayland, memory unknown, 1 d)"]


@pytest.mark.parametrize(
    ("comm", "ignored"),
    [
        ("gnome-remote-de", "gnome-remote-desktop-daemon"),  # the kernel keeps 15 letters of a name
        ("Isolated Web Co", "Isolated Web Content"),
        ("Isolated Web Co", "Isolated"),
    ],
)
def test_names_are_compared_as_far_as_the_kernel_tells_them(comm: str, ignored: str) -> None:
    raw = replace(ALONE, process_text=f"2165 dora 86400 2100 - {comm}\n")
    assert told(seen(raw, ExternalPolicy(ignore=(ignored,)))) == ["0 free"]
    assert told(seen(raw, ExternalPolicy(ignore=(ignored[:5],))))[0].startswith("0 external")
