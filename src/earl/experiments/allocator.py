"""The memory of the process: what one step frees is there for the next."""

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # names of parameters in glibc's malloc.h
LARGEST = 32 << 20  # a block above this is the system's again when freed: glibc's own upper limit
KEPT = 1 << 30


def keep_freed_memory() -> bool:
    """Keep freed memory for the next step; return whether the C library can be told so.

    Steps free and ask for the same blocks over and over. glibc gives memory back to the system when
    64 MiB of it, or less, are free, and the system fills each page with zeros before it lends it
    again: up to an eighth of ODDL's step. The process never holds more than it once needed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    return bool(mallopt(MMAP_THRESHOLD, LARGEST) and mallopt(TRIM_THRESHOLD, KEPT))
