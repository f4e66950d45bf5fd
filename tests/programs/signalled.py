"""MPI ranks that wait for USR1, and say so; all of them end together."""

import signal

from mpi4py import MPI

world = MPI.COMM_WORLD
signal.signal(signal.SIGUSR1, lambda number, frame: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
world.Barrier()
if world.rank == 0:
    print("all", world.size, flush=True)
got = signal.sigwait([signal.SIGUSR1])
for line in world.gather(f"rank {world.rank} got {got}") or ():
    print(line, flush=True)
