"""What a run will do, from its seed alone: which jobs are submitted, which faults come, and when.

Times are seconds from the beginning of the run. Jobs and faults are drawn from generators of their own, so that one
does not shift the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

QUIET_S = 4.0  # at the beginning: some jobs run before anything breaks
STEP_S = 0.2  # what a step of job.sh lasts at least

Words = tuple[str, ...]


@dataclass(frozen=True)
class Settings:
    """`seconds`: how long jobs and faults come; what has come is waited for afterwards."""

    seconds: float
    seed: int
    nodes: int = 3
    gpus: int = 4
    jobs_per_s: float = 1.0
    faults_per_s: float = 0.35


@dataclass(frozen=True)
class JobPlan:
    """One job: what it is asked to do (job.sh) and what is done to it. None = that is not done."""

    serial: int
    at: float
    kind: str  # srun, argv, script
    gpus: int  # in all
    nodes: int
    steps: int
    code: int
    width: int = 40
    fill: str = "170"
    traits: Words = ()
    limit_s: int | None = None
    requeue: bool = True
    retries: int = 0
    cancel_after: float | None = None  # since it was submitted; of an srun: by ^C
    kill_client_after: float | None = None
    tree: str = ""  # shared, own: a working tree goes along, that of others too or one that nobody else has

    @property
    def name(self) -> str:
        return f"chaos-{self.serial}"

    def arguments(self) -> Words:
        """Of job.sh."""
        return (
            str(self.serial),
            str(self.steps),
            str(self.code),
            str(self.width),
            self.fill,
            ",".join((*self.traits, *(["tree"] if self.tree else []))) or "-",
        )

    def options(self) -> Words:
        """Of srun and submit."""
        words = ["-J", self.name, "-G", str(self.gpus)]
        if not self.tree:
            words += ["-D", "/"]
        if self.nodes > 1:
            words += ["-N", str(self.nodes)]
        if self.limit_s is not None:
            words += ["-t", f"0:{self.limit_s:02}"]
        if not self.requeue:
            words += ["--no-requeue"]
        if self.retries:
            words += ["--retries", str(self.retries)]
        return tuple(words)


@dataclass(frozen=True)
class FaultPlan:
    """`place` is what it occupies: two faults never have the same one at once. `node` "" = the master or a client."""

    at: float
    kind: str
    node: str = ""
    place: str = ""
    words: Words = ()
    lasts: float = 0.0  # 0 = nothing to lift


def plan_jobs(settings: Settings) -> list[JobPlan]:
    random = Random(f"{settings.seed}/jobs")
    times = _times(random, settings.jobs_per_s, 0.0, settings.seconds)
    return [_job(random, serial, at, settings) for serial, at in enumerate(times, 1)]


def _job(random: Random, serial: int, at: float, settings: Settings) -> JobPlan:
    nodes = 2 if settings.nodes > 1 and random.random() < 0.2 else 1
    gpus = random.choice([0, 1, 1, 1, 2, 2, min(3, settings.gpus), settings.gpus])
    if nodes > 1:
        gpus = nodes * random.choice([1, 1, min(2, settings.gpus)])
    steps = random.choice([1, 3, 5, 10, 20, 30])
    traits = [trait for trait in ("child", "hidden") if random.random() < 0.15]
    code, retries = random.choice([0, 0, 0, 0, 1, 5, 77, 255]), 0
    manner = random.random()
    if manner < 0.08:
        traits.append("stubborn")
    elif manner < 0.16:
        traits.append("neat")
    elif manner < 0.24:
        traits.append("fail-once")
        retries = 1
    elif manner < 0.30:
        traits.append("own-kill")
        code = 137
    limit_s = cancel_after = kill_client_after = None
    kind = random.choice(["srun", "argv", "script", "script"])
    fate = random.random()
    if fate < 0.10:
        limit_s = random.choice([1, 2, 3])
    elif fate < 0.25:
        cancel_after = random.uniform(0.0, 5.0)
    elif fate < 0.35:
        kill_client_after = random.uniform(0.0, 3.0)
    return JobPlan(
        serial,
        at,
        kind,
        gpus,
        nodes,
        steps,
        code,
        width=random.choice([0, 40, 40, 1000, 70_000]) if steps < 20 else 40,
        fill=random.choice(["170", "170", "000", "377"]),
        traits=tuple(traits),
        limit_s=limit_s,
        requeue=random.random() < 0.8,
        retries=retries,
        cancel_after=cancel_after,
        kill_client_after=kill_client_after,
        # of a generator of its own, so that seeds mean what they meant
        tree=Random(f"{settings.seed}/tree/{serial}").choice(["", "", "", "", "shared", "shared", "own"]),
    )


# kind -> (weight, place, words, seconds that it lasts at least and at most; 0, 0 = over at once)
NODE_FAULTS: dict[str, tuple[int, str, Words, tuple[float, float]]] = {
    "link down": (4, "reach", ("link", "down"), (1, 12)),
    "link drops all": (4, "reach", ("link", "drop"), (1, 15)),
    "link drops some": (3, "reach", ("link", "drop", "15"), (2, 8)),
    "link slow": (2, "reach", ("link", "rate", "1"), (2, 8)),
    "sshd stopped": (2, "reach", ("sshd", "stop"), (1, 8)),
    "sshd killed": (3, "reach", ("sshd", "kill"), (0.5, 5)),
    "sshd restarted": (2, "reach", ("sshd", "restart"), (0, 0)),
    "sshd frozen": (3, "reach", ("sshd", "freeze"), (1, 12)),
    "reboot": (2, "reach", ("reboot",), (0, 0)),
    "power off": (1, "reach", ("power", "off"), (1, 8)),
    "nvidia-smi slow": (2, "gpu", ("gpu", "slow", "3"), (2, 8)),
    "nvidia-smi hangs": (2, "gpu", ("gpu", "hang"), (2, 10)),
    "nvidia-smi fails": (2, "gpu", ("gpu", "fail", "9"), (2, 10)),
    "nvidia-smi missing": (1, "gpu", ("gpu", "missing"), (2, 6)),
    "home full": (3, "home", ("home", "full"), (2, 8)),
    "watchers killed": (1, "watchers", ("watchers",), (0, 0)),
    "outsider": (3, "outsider", ("outsider", "{gpu}"), (8, 25)),
}
MASTER_FAULTS: dict[str, int] = {
    "master killed": 6,
    "master terminated": 2,
    "masters started at once": 2,
    "client killed": 3,
}


def plan_faults(settings: Settings) -> list[FaultPlan]:
    """Those for which their place is taken at their time are left out."""
    random = Random(f"{settings.seed}/faults")
    weights = {kind: weight for kind, (weight, *_) in NODE_FAULTS.items()} | MASTER_FAULTS
    free_at: dict[tuple[str, str], float] = {}
    found = []
    for at in _times(random, settings.faults_per_s, QUIET_S, settings.seconds):
        kind = random.choices(list(weights), list(weights.values()))[0]
        if kind in MASTER_FAULTS:
            found.append(FaultPlan(at, kind))
            continue
        _, place, words, (least, most) = NODE_FAULTS[kind]
        node = f"node{random.randint(1, settings.nodes):03}"
        gpu, lasts = str(random.randrange(settings.gpus)), random.uniform(least, most)
        if free_at.get((node, place), 0.0) > at:
            continue
        free_at[node, place] = at + lasts + 1.0
        found.append(FaultPlan(at, kind, node, place, tuple(word.format(gpu=gpu) for word in words), lasts))
    return found


def _times(random: Random, per_s: float, start: float, end: float) -> Sequence[float]:
    def draw() -> Iterator[float]:
        at = start
        while (at := at + random.expovariate(per_s)) < end:
            yield at

    return list(draw())
