"""The machine that a run is on: its cores, threads and devices, and how it keeps memory."""

import ctypes
import math
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path

from earl.errors import InvalidSetting

WORKERS = 8  # the most images that are decoded at a time
MOST_THREADS = 512  # the most threads of a run; with many more, torch ends the process
FLOPS_OF_A_THREAD = 1e9  # FLOPs of an update: below, waking a thread takes longer than it saves

# Parameters of glibc's malloc (malloc.h), and the values that they are given.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
LARGEST_KEPT_BLOCK = 32 << 20  # bytes: glibc's own upper limit; larger ones go back to the system
KEPT = 1 << 30

# Read when torch loads these libraries: GNU's and LLVM's OpenMP, and Intel's, in milliseconds.
CALM: Mapping[str, str] = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}


def cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return how many cores this process may use: those it is bound to, or its container's share.

    A container may see all cores of its host and be given the time of two: more threads than that
    would wait for each other.
    """
    usable = len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0))
    try:
        time, period = map(int, quota.read_text(encoding="ascii").split())
    except (OSError, ValueError):  # no such file, or "max"
        return usable
    return max(1, min(usable, math.ceil(time / period)))


def workers() -> int:
    """Return how many images may be decoded at a time here."""
    return min(WORKERS, cores())


def check_threads(threads: int) -> int:
    """Return the number if torch can work with this many threads."""
    if not 1 <= threads <= MOST_THREADS:
        raise InvalidSetting(f"threads = {threads} must be from 1 to {MOST_THREADS}")
    return threads


def threads_for(flops: float) -> int:
    """Return the number of threads for updates of this many FLOPs: few for a small network.

    Threads wait for each other many times in an update. Beside another busy process that costs
    more than all they save, unless each has enough to do in between.
    """
    import torch

    worth = int(flops / FLOPS_OF_A_THREAD)
    return max(1, min(worth, torch.get_num_threads(), cores(), MOST_THREADS))


@contextmanager
def thread_count(threads: int) -> Iterator[None]:
    """Let torch use this many threads: sums depend on their number, so a run keeps its own."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(check_threads(threads))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def calm_idle_threads(environment: MutableMapping[str, str]) -> None:
    """Let threads that wait sleep, in processes with this environment, unless it says otherwise.

    Otherwise they spin, and beside other busy processes that takes longer than all the work.
    """
    for name, value in CALM.items():
        environment.setdefault(name, value)


def keep_freed_memory() -> bool:
    """Keep freed memory for the next step; return whether the C library can be told so.

    Steps free and ask for the same blocks over and over. glibc gives memory back to the system when
    64 MiB of it, or less, are free, and the system fills each page with zeros before it lends it
    again: up to an eighth of ODDL's step. The process never holds more than it once needed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    kept = mallopt(MMAP_THRESHOLD, LARGEST_KEPT_BLOCK) and mallopt(TRIM_THRESHOLD, KEPT)
    return bool(kept)


def best_device() -> str:
    """Return "cuda" where there is one, else "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def usable_device(name: str) -> str:
    """Return a device that torch really calculates on; "auto" is the best one."""
    import torch

    device = best_device() if name == "auto" else name
    try:
        float(torch.ones(1, device=device).sum())
    except (RuntimeError, AssertionError, NotImplementedError):
        found = f"the best here is {best_device()}"
        raise InvalidSetting(f"device = {name!r} cannot be used: {found}; or say auto") from None
    return device
