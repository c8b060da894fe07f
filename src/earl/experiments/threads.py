"""Threads: how many an experiment is worth, and torch held to that number."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from earl.experiments.places import MOST_THREADS, check_threads, cores

FLOPS_OF_A_THREAD = 1e9  # of an update: for less, waking a thread takes longer than it saves


def threads_for(flops: float) -> int:
    """Return the number of threads for updates of so many FLOPs: few for a small network.

    Threads wait for each other many times in an update. Beside another busy process that costs
    more than all they save, unless each has enough to do in between.
    """
    worth = int(flops / FLOPS_OF_A_THREAD)
    return max(1, min(worth, torch.get_num_threads(), cores(), MOST_THREADS))


@contextmanager
def thread_count(threads: int) -> Iterator[None]:
    """Let torch use this many threads: sums depend on their number, so a run keeps its own."""
    before = torch.get_num_threads()
    torch.set_num_threads(check_threads(threads))
    try:
        yield
    finally:
        torch.set_num_threads(before)
