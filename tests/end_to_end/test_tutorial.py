"""What docs/tutorial.md has one type on one machine, typed in that order on this one, as far as it needs no GPU."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
NEEDS_A_GPU = "-G 1"


def lines_of(section: str) -> list[str]:
    page = (REPOSITORY / "docs/tutorial.md").read_text(encoding="utf-8")
    text = page.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return [line.partition("  #")[0] for line in re.findall(r"^    \$ (mgpu .*)$", text, re.MULTILINE)]


@pytest.mark.timeout(300)
def test_the_first_half(clean_home: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}

    def run(line: str) -> str:
        if NEEDS_A_GPU in line:  # whether there is one or not, it is a job, with a number
            line = line.replace(NEEDS_A_GPU, f"{NEEDS_A_GPU} --immediate")
        argv = [sys.executable, "-m", *shlex.split(line)]
        ran = subprocess.run(argv, cwd=clean_home, env=environ, capture_output=True, text=True, check=False)
        assert ran.returncode in ((0, 75) if NEEDS_A_GPU in line else (0,)), f"{line}: {ran.stderr}"
        return ran.stdout

    typed = lines_of("On one machine")
    assert len(typed) >= 10
    said: dict[str, str] = {}
    try:
        for line in typed:
            if " -f " not in line:  # that one looks on until somebody presses ^C
                said[line] = run(line)
    finally:
        run("mgpu stop")
    assert said["mgpu srun -G 0 -- echo works"] == "works\n"
    assert "first" in said["mgpu queue"]
    assert "mgpu release 4" in said["mgpu why 4"]
    assert "COMPLETED" in said["mgpu history"]
