"""The heap of the process: what threads have used once is there for all of them."""

import ctypes
import sys

M_ARENA_MAX = -8  # of glibc's mallopt


def share_heap() -> None:
    """Have all threads share one heap, where glibc would give each its own.

    Such heaps keep what they once held: each thread that decodes images would keep a large one.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other libraries have none
        if mallopt is not None:
            mallopt(M_ARENA_MAX, 1)
