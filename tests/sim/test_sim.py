"""The master against the simulation: small seeds, all that ever failed, scenarios that shrink.

With --thorough it is hundreds of seeds. `python -m tests.sim --seeds 10000` runs many more; `python -m tests.sim
--seed N` shows what happened in one.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mgpu.core import array, health, lifecycle, reconcile, usage, views
from mgpu.core.dependency import NOTHING_WAITED_FOR, Fact, Verdict, judge
from mgpu.core.lifecycle import PartEvent
from mgpu.core.model import AttemptState, Dependency, JobId
from mgpu.core.turns import Turns
from mgpu.master import dependents
from mgpu.master.absorb import Absorber
from mgpu.master.realise import Realiser
from mgpu.master.waiting import Waiting
from tests.sim.scenario import Scenario
from tests.sim.seeds import FAILED_ONCE
from tests.sim.simulate import simulate
from tests.sim.weather import KINDS, earlier, strongest
from tests.sim.world import Violation


def run(scenario: Scenario) -> None:
    try:
        simulate(scenario)
    except Violation as violation:
        text, trace = violation.args
        pytest.fail("\n".join((*trace[-60:], str(scenario), text)), pytrace=False)


def test_small_storms(seeds: range) -> None:
    for seed in seeds:
        run(Scenario.small(seed))


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_seeds_that_failed_once(seed: int) -> None:
    scenario = Scenario.of_seed(seed)
    for weather in {scenario.weather, earlier(scenario.weather)}:
        run(replace(scenario, weather=weather, arrays=0.0, trees=0.0))


def test_only_this_seed(only_seed: int) -> None:
    run(Scenario.of_seed(only_seed))


SCENARIOS = st.builds(
    Scenario,
    seed=st.integers(0, 1 << 32),
    nodes=st.integers(1, 3),
    gpus=st.integers(1, 2),
    jobs=st.integers(1, 3),
    storm_s=st.sampled_from((20.0, 45.0)),
    laziness_s=st.sampled_from((0.1, 1.0, 4.0)),
    weather=st.builds(strongest, st.sets(st.sampled_from(KINDS), max_size=6)),
)


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(SCENARIOS)
def test_any_few_kinds_of_trouble_at_their_worst(scenario: Scenario) -> None:
    run(scenario)


def test_the_same_seed_is_the_same_run() -> None:
    first, second = (simulate(Scenario.small(7)) for _ in range(2))
    assert first == second


# --- it sees what it is there for -------------------------------------------------------------------------------------


def found(weather: set[str], seeds: int = 25, arrays: float = 0.0) -> str:
    """The first violation in that weather."""
    for seed in range(seeds):
        scenario = Scenario(
            *(seed, 2, 1, 4, 90.0, 1.0),
            weather=strongest(weather),
            arrays=arrays,
            trees=0.0,
            patience_s=900,
        )
        try:
            simulate(scenario)
        except Violation as violation:
            return str(violation.args[0])
    return ""


def test_sees_that_a_silent_node_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    for state in (AttemptState.STARTING, AttemptState.RUNNING):
        monkeypatch.setitem(lifecycle.PART_TABLE, (state, PartEvent.UNREACHABLE), AttemptState.ENDED)
    assert re.search("is ENDED, and|finds the lease of its GPU held", found({"lost", "cut"}))


def test_sees_that_an_exit_code_is_mistaken(monkeypatch: pytest.MonkeyPatch) -> None:
    real = reconcile.numeral
    monkeypatch.setattr(reconcile, "numeral", lambda text: 0 if text == "137" else real(text))
    assert "is COMPLETED" in found(set())


def test_sees_that_a_lost_start_is_never_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Realiser, "again", lambda self, what, key: None)
    monkeypatch.setattr(Realiser, "_hangs", lambda self, part, job: False)
    assert "is still STARTING" in found({"refused"})


def test_sees_that_time_is_measured_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real = usage.span_s
    monkeypatch.setattr(usage, "span_s", lambda *looked: 20 * real(*looked))
    assert "busy, measured and held do not fit" in found(set())


def test_sees_that_what_is_drained_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_why_drained", lambda node: "")
    assert "n1', '') is DRAINED, and" in found({"drained"})


def test_sees_that_a_node_resumes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    real = health.seen
    monkeypatch.setattr(health, "seen", lambda node, seen, now: health.resume(real(node, seen, now), 3, now))
    assert "but drained are" in found({"drained"})


def test_sees_that_what_is_held_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Waiting, "_put", lambda self, queue, job: queue.put(self.pending(job, 0.0)))
    monkeypatch.setattr(Waiting, "still", lambda self, job: True)
    assert "is held, and attempt" in found({"held"})


def test_sees_that_a_dependent_starts_too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(dependency: Dependency, facts: dict[JobId, Fact], namesake: JobId | None) -> Verdict:
        verdict = judge(dependency, facts, namesake)
        return verdict if verdict.never else NOTHING_WAITED_FOR

    monkeypatch.setattr(dependents, "judge", careless)
    assert "began, and what it waits for is" in found({"depends"})


def test_sees_that_a_dependent_waits_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Waiting, "end_lost", lambda self, now: [])
    assert "waits, and what it waits for can never be" in found({"depends"})


def test_sees_that_a_wish_that_came_too_late_is_taken_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "_own_end", lambda found: False)
    assert "of it completed" in found({"cut", "unheard"}, seeds=120)


def test_sees_that_more_tasks_run_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "full", lambda self, job: False)
    assert re.search(r"\d tasks of array \d+ run, \d may", found(set(), arrays=1.0))


def test_sees_that_an_array_outlives_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Absorber, "_arrays_with_ends", lambda self: set())
    assert re.search(r"array \d+ is RUNNING, with \[\] to come", found(set(), arrays=1.0))


def test_sees_that_an_index_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array, "without", lambda indices, index: indices[1:])
    assert re.search(r"array \d+ of .* has become", found(set(), arrays=1.0))


def test_sees_that_a_job_that_is_over_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Realiser, "forget", lambda self, board: None)
    assert re.search(r"all is over, and remembered: .*Realiser\._given", found(set()))
