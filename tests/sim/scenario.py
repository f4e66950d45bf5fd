"""What a run is made from: the size of the cluster, the weather over it, and the jobs that people submit."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mgpu.config.model import Config, NodeConfig, SshSettings
from mgpu.core.model import NodeName
from mgpu.core.plan import NodeFacts
from mgpu.ops.context import TREES, Caller
from tests.sim.weather import Weather, drawn

TREE = "ab" * 32  # digest of the one that jobs bring along


@dataclass(frozen=True)
class Scenario:
    """All that a run depends on."""

    seed: int
    nodes: int
    gpus: int
    jobs: int
    storm_s: float
    laziness_s: float  # until the master looks at what has come
    weather: Weather
    arrays: float = 0.3  # how many of the batch jobs are arrays
    trees: float = 0.2  # how many of all jobs bring a tree along
    patience_s: float = 3600.0  # by then every job has to have ended after the last fault

    @classmethod
    def of_seed(cls, seed: int) -> Scenario:
        chance = random.Random(f"scenario {seed}")
        return cls(
            seed=seed,
            nodes=chance.choice((1, 2, 2, 3, 3)),
            gpus=chance.choice((1, 2, 2, 4)),
            jobs=chance.randint(1, 8),
            storm_s=chance.choice((60.0, 150.0, 400.0)),
            laziness_s=chance.choice((0.1, 1.0, 4.0)),
            weather=drawn(chance),
        )

    @classmethod
    def small(cls, seed: int) -> Scenario:
        """Quick enough for hundreds of them in every test run."""
        scenario = cls.of_seed(seed)
        return replace(scenario, jobs=min(scenario.jobs, 1 + seed % 4), storm_s=45.0)


def configuration(scenario: Scenario) -> Config:
    names = [NodeName(f"n{number}") for number in range(1, scenario.nodes + 1)]
    nodes = tuple(
        NodeConfig(name, "ssh", SshSettings(name), NodeFacts(name, name, scenario.gpus, partitions=()))
        for name in names
    )
    return Config(None, nodes, backoff_s=5.0, backoff_max_s=60.0, probe_timeout_s=5.0)


def lay_trees(folder: Path, callers: Iterable[Caller]) -> None:
    """As if each had sent one."""
    for caller in callers:
        tree = folder / TREES / str(caller.uid) / f"{TREE}.tar.gz"
        tree.parent.mkdir(parents=True)
        tree.write_bytes(b"tree")


def submission(scenario: Scenario, chance: random.Random) -> dict[str, Any]:
    total = scenario.nodes * scenario.gpus
    options: dict[str, Any] = {"gpus": str(chance.randint(0, min(total, 4)))}
    if scenario.nodes > 1 and chance.random() < 0.45:
        nodes = chance.randint(2, scenario.nodes)
        options = {"nodes": str(nodes), "gpus_per_node": str(chance.randint(0, scenario.gpus))}
    if chance.random() < 0.3:
        options["time"] = f"0:00:{chance.randint(5, 50):02d}"
    if chance.random() < 0.2:
        options["retries"] = str(chance.randint(1, 2))
    if chance.random() < 0.1:
        options["no_requeue"] = True
    if chance.random() < 0.1:
        options["exclusive"] = True
    request_id, kind = f"{chance.getrandbits(64):016x}", chance.choice(("srun", "batch"))
    apart = random.Random(request_id)  # so that seeds mean what they meant before there were arrays
    if kind == "batch" and apart.random() < scenario.arrays:
        options["array"] = apart.choice(("0-2", "1-5:2%1", "0-4%2", "7", "2,4,9%3"))
    brings = random.Random(f"tree {request_id}").random() < scenario.trees
    return {
        **({"tree": {"digest": TREE}} if brings else {}),
        "request_id": request_id,
        "kind": kind,
        "command": {"form": "argv", "words": ["python", "train.py"]},
        "options": options,
        "env": {},
        "cwd": "/home/alice",
        "virtual_env": "",
    }
