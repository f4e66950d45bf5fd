"""Each MPI rank in a line: number, of how many, node, its GPUs, the sum over all ranks, the library, and variables."""

import os
import socket
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
library = MPI.Get_library_version().replace(" ", "-").partition(",")[0][:11]
words = [world.rank, world.size, socket.gethostname(), os.environ["CUDA_VISIBLE_DEVICES"], total, library]
told = [os.environ.get(name, "none") for name in sys.argv[1:]]
for line in world.gather(" ".join(map(str, [*words, *told]))) or ():
    print(line, flush=True)
