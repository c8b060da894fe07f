"""The heap of the process: what threads have used once is there for all of them."""

import ctypes
import gc
import sys

M_ARENA_MAX = -8  # of glibc's mallopt


def share_heap() -> None:
    """Have all threads share one heap, where glibc would give each its own.

    Such heaps keep what they once held: each thread that decodes images would keep a large one.
    """
    call("mallopt", M_ARENA_MAX, 1)


def give_back() -> None:
    """Give what is free on the heap back to the system, where glibc would keep it."""
    gc.collect()
    call("malloc_trim", 0)


def call(name: str, *given: int) -> None:
    """Call a function of glibc; other libraries may have none of this name."""
    if sys.platform == "linux":
        found = getattr(ctypes.CDLL(None), name, None)
        if found is not None:
            found(*given)
