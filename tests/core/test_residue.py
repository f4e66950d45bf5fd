"""A node's answer about what is left there, read; what has not our form is passed over."""

from __future__ import annotations

import pytest

from mgpu.core.residue import EventsFile, LeaseDirectory, RunDirectory, ShippedTree, parse_residue

DIGEST = "c" * 64
ONE, TWO = "a" * 32, "0123456789abcdef" * 2
RUNS = f"""\
{TWO}/n1/2.3 90.5000000000 alive
{ONE}/n1/10.1 1000.25 ended
{ONE}/n1/9.1 100 tombstone
{ONE}/n1/x.1 1 ended
../n1/1.1 1 ended
{ONE}/n1/1.1
"""
SECTIONS = {
    "base": ("/home/t r/.mgpu", ""),
    "sizes": (
        "",
        f"8\t/home/t r/.mgpu/{ONE}/n1/10.1\n20\t/home/t r/.mgpu/{ONE}/n1\n4\t/home/t r/.mgpu/{TWO}/n1/2.3\ndu: no\n",
    ),
    "runs": ("", RUNS),
    "events": ("", f"{ONE}/n1/events 10.5 4\nother/events 1 1\n"),
    "trees": (
        "",
        f"{ONE}/n1/trees/{DIGEST} 10.5 4\n{ONE}/n1/trees/{DIGEST}.71 90 0\n{ONE}/n1/trees/x 1 1\n../trees/y 1 1\n",
    ),
    "leases": ("", "GPU-1 held 50 alice\nGPU-2 free 60 UNKNOWN\nGPU 3 held 1 bob\n"),
}


def test_an_answer() -> None:
    found = parse_residue(SECTIONS, "100")
    assert found.base == "/home/t r/.mgpu"
    assert found.runs == (
        RunDirectory(f"{TWO}/n1/2.3", TWO, "n1", 2, 3, "alive", 9.5, 4),
        RunDirectory(f"{ONE}/n1/9.1", ONE, "n1", 9, 1, "tombstone", 0.0, 0),
        RunDirectory(f"{ONE}/n1/10.1", ONE, "n1", 10, 1, "ended", 0.0, 8),  # its clock ran back: never a negative age
    )
    assert found.events == (EventsFile(ONE, "n1", 89.5, 4),)
    assert found.trees == (
        ShippedTree(f"{ONE}/n1/trees/{DIGEST}", ONE, "n1", DIGEST, 89.5, 4),
        ShippedTree(f"{ONE}/n1/trees/{DIGEST}.71", ONE, "n1", DIGEST, 10.0, 0),
    )
    assert found.leases == (LeaseDirectory("GPU-1", "alice", True, 50), LeaseDirectory("GPU-2", "UNKNOWN", False, 40))


def test_a_node_without_anything() -> None:
    with pytest.raises(ValueError, match="nan"):
        parse_residue(SECTIONS, "nan")
    with pytest.raises(KeyError):
        parse_residue({}, "100")
    found = parse_residue(dict.fromkeys(SECTIONS, ("", "")), "100")
    assert (found.base, found.runs, found.events, found.leases) == ("", (), (), ())
