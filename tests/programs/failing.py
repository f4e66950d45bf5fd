"""MPI ranks that never end, but for the last one if it is told the exit code to end with."""

import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 0:
    print("all", world.size, flush=True)
if world.rank == world.size - 1 and sys.argv[1:]:
    world.Abort(int(sys.argv[1]))
time.sleep(600)
