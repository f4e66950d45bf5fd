"""What really happened on the nodes, whatever anybody believes: kept apart from all that a node could forget."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.sim.world import World


@dataclass
class Story:
    """Of one attempt on one node."""

    job: int
    attempt: int
    node: str
    uuids: tuple[str, ...]
    starts: int = 0  # of the command
    processes: int = 0  # of the job that live now
    exit_code: int | None = None  # of the command, when it ended by itself or by a signal
    exit_recorded: bool = False
    timed_out: bool = False
    ended_by_us: bool = False  # TERM or KILL reached the command before its end
    guard_killed: bool = False  # somebody killed the shells that watch over it
    left_waiting: bool = False  # of a gang: the word to begin did not come in time
    rebooted: bool = False
    stored_as_ended: bool = False
    given_up: bool = False  # by an operator, without proof: until it is fenced it may run beside a later attempt
    output: dict[str, bytearray] = field(default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})


class Truth:
    def __init__(self, world: World) -> None:
        self._world = world
        self.stories: dict[tuple[int, int, str], Story] = {}
        self.violations: list[str] = []

    def story(self, key: str, node: str, uuids: tuple[str, ...] = ()) -> Story:
        job, _, attempt = key.partition(".")
        which = (int(job), int(attempt), node)
        if which not in self.stories:
            self.stories[which] = Story(*which, uuids)
        return self.stories[which]

    def of_attempt(self, job: int, attempt: int) -> list[Story]:
        return [story for story in self.stories.values() if (story.job, story.attempt) == (job, attempt)]

    def violate(self, text: str) -> None:
        self._world.note(f"VIOLATION {text}")
        self.violations.append(text)

    def command_starts(self, story: Story) -> None:
        """The moment that everything is about."""
        name = f"{story.job}.{story.attempt} on {story.node}"
        story.starts += 1
        if story.starts > 1:
            self.violate(f"the command of {name} is started a second time")
        if story.stored_as_ended:
            self.violate(f"the command of {name} is started after its end was stored")
        for other in self.stories.values():
            if other is story:
                continue
            if other.job == story.job and other.attempt > story.attempt and not story.given_up:
                self.violate(f"{name} starts after a later attempt had begun")
            if other.job == story.job and other.attempt < story.attempt and other.processes and not other.given_up:
                self.violate(f"{name} starts while {other.job}.{other.attempt} still runs on {other.node}")
            shared = set(other.uuids) & set(story.uuids)
            if other.processes and shared:
                self.violate(f"{name} runs on {sorted(shared)} beside {other.job}.{other.attempt}")
