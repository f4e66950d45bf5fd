"""What mgpu doctor says, taken apart."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.end_to_end.cluster import Cluster
from tests.lab import Lab

Findings = dict[str, dict[str, str]]  # check -> finding; of a check that said more than one thing the last
CHECKS = [
    "ssh", "name", "tcp", "banner", "host key", "keys", "login", "sessions", "shell", "tools",
    "home", "python", "nvidia-smi", "gpus", "locks", "logind", "clock", "residue",
]  # fmt: skip


def examined(cluster: Cluster, name: str = "node001", **kwargs: Any) -> Findings:
    answer = cluster.json("doctor", name, check=False, **kwargs)
    assert answer["master"] == []
    [node] = answer["nodes"]
    assert node["node_id"] == name
    return by_check(node["findings"])


def by_check(findings: list[dict[str, str]]) -> Findings:
    return {finding["check"]: finding for finding in findings}


def troubles(findings: Findings) -> list[str]:
    return [check for check, finding in findings.items() if finding["status"] in ("failure", "warning")]


def sole(findings: Findings, check: str, status: str = "failure") -> tuple[str, str]:
    """What that check says, and its hint; all others have nothing to complain of."""
    assert troubles(findings) == [check], findings
    found = findings[check]
    assert found["status"] == status
    assert found["hint"]
    return found["text"], found["hint"]


def rest(findings: Findings, check: str) -> None:
    """Whatever comes after is not looked at, and that is said."""
    assert list(findings) == [*CHECKS[: CHECKS.index(check) + 1], "the rest"]
    assert findings["the rest"]["text"].startswith(f"cannot be looked at so: {CHECKS[CHECKS.index(check) + 1]}, ")


def encrypted(lab: Lab, folder: Path) -> Path:
    """The lab's key, under a passphrase."""
    key = folder / "id_secret"
    for suffix in ("", ".pub"):
        shutil.copy(f"{lab.key}{suffix}", f"{key}{suffix}")
    words = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", str(key)]
    subprocess.run(words, check=True, capture_output=True)
    return key
