"""What a job wrote down on its node, read back: see job.sh for the lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = "var/tmp/chaos"  # of the node's root
STREAMS = ("stdout", "stderr")


@dataclass(frozen=True)
class Piece:
    """Something that was about to be written."""

    stream: str
    number: int
    width: int
    fill: int  # a byte

    def text(self, head: str) -> bytes:
        return f"{head} {self.stream} {self.number} ".encode() + bytes([self.fill]) * self.width + b"\n"


@dataclass
class Run:
    """The command of one part of an attempt, as its node has seen it. Times are uptimes, one clock for a whole lab."""

    node: str
    serial: int
    job_id: int
    attempt: int
    rank: int
    begins: list[float] = field(default_factory=list)
    boots: list[str] = field(default_factory=list)
    gpus: tuple[int, ...] = ()
    pieces: list[Piece] = field(default_factory=list)
    unsaid: bool = False  # something could not be written
    told: bool = False  # it got TERM and took notice
    sums: dict[str, tuple[int, str]] = field(default_factory=dict)
    code: int | None = None  # of its end, when it came to that
    last: float = 0.0  # the last sign of life

    @property
    def name(self) -> str:
        return f"{self.job_id}.{self.attempt}.{self.rank}"

    @property
    def begin(self) -> float:
        return self.begins[0] if self.begins else self.last

    @property
    def by_itself(self) -> bool:
        """It came to its own end, undisturbed."""
        return self.code is not None and not self.told

    def said(self, stream: str) -> tuple[bytes, int]:
        """All that it meant to write, and how much of that is its last piece."""
        texts = [
            piece.text(f"{self.serial}.{self.attempt}.{self.rank}") for piece in self.pieces if piece.stream == stream
        ]
        return b"".join(texts), len(texts[-1]) if texts else 0


def parse(node: str, name: str, lines: Iterable[str]) -> Run:
    """`name` is that of the file: SERIAL.JOB.ATTEMPT.RANK. Raises ValueError for a line that job.sh does not write."""
    serial, job_id, attempt, rank = map(int, name.split("."))
    run = Run(node, serial, job_id, attempt, rank)
    for line in lines:
        uptime, word, *rest = line.split()
        run.last = float(uptime)
        if word == "begin":
            run.begins.append(run.last)
            run.boots.append(rest[1])
            run.gpus = () if rest[2] == "-" else tuple(map(int, rest[2].split(",")))
        elif word == "say":
            run.pieces.append(Piece(rest[0], int(rest[1]), int(rest[2]), int(rest[3], 8) if int(rest[2]) else 0))
        elif word == "unsaid":
            run.unsaid = True
        elif word == "term":
            run.told = True
        elif word == "sum":
            run.sums[rest[0]] = (int(rest[1]), rest[2])
        elif word == "end":
            run.code = int(rest[0])
        else:
            raise ValueError(f"{name}: what is {line!r}?")
    return run


def collect(node: str, folder: Path) -> list[Run]:
    """All that jobs wrote down below `folder`."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [parse(node, file.name, file.read_text().splitlines()) for file in files]
