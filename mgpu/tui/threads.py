"""Threads that nobody waits for: a request may hang for minutes, and `q` is to close the monitor at once."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

MOST = 32  # requests at once; those of one kind never overlap, so that a master that hangs does not use them up


class Impatient(ThreadPoolExecutor):
    """Ends without what still runs in it."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)


def use_impatient_threads() -> None:
    """For all thread workers of the running loop."""
    asyncio.get_running_loop().set_default_executor(Impatient(MOST, "mgpu-top"))
