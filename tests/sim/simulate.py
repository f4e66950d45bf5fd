"""One run in surroundings of its own: a clock, chance and a folder that nobody else has."""

from __future__ import annotations

import logging
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mgpu import clock
from mgpu.core.errors import MgpuError
from tests.sim.scenario import Scenario
from tests.sim.simulation import Figures, Simulation
from tests.sim.world import Violation, World


@contextmanager
def _surroundings(world: World) -> Iterator[None]:
    """The clock of everything, the chance of everything, and nothing logged; as before afterwards."""
    kept = clock.now, clock.monotonic, random.getstate(), logging.root.manager.disable
    clock.now, clock.monotonic = world.now, world.monotonic
    random.seed(world.random.getrandbits(64))
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        clock.now, clock.monotonic = kept[0], kept[1]
        random.setstate(kept[2])
        logging.disable(kept[3])


def simulate(scenario: Scenario) -> tuple[Figures, list[str]]:
    """The figures and the end of the trace. Raises Violation, with the trace as its second argument."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="mgpu-sim-", dir=memory if os.access(memory, os.W_OK) else None))
    try:
        simulation = Simulation(scenario, folder)
        try:
            with _surroundings(simulation.world):
                figures = simulation.run()
        except Violation as violation:
            raise Violation(str(violation), list(simulation.world.trace)) from None
        except MgpuError as error:
            raise Violation(f"not expected: {error}", list(simulation.world.trace)) from error
        finally:
            simulation.close()
        return figures, list(simulation.world.trace)
    finally:
        shutil.rmtree(folder)
