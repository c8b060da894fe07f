"""The allocator: blocks that are freed and asked for again do not come from the system."""

import platform

import pytest

from fresh import python

ROUNDS = """
import resource, sys
import numpy as np
from earl.experiments.machine import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [np.ones(20 << 20, dtype=np.uint8) for _ in range(8)]
    del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

told = len(sys.argv) > 1 and keep_freed_memory()
print(told, *(faults() for _ in range(4)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="speaks of glibc's allocator")
def test_memory_is_kept_between_steps() -> None:
    told, first, *later = python(ROUNDS, "keep").split()
    assert told == "True"
    assert all(int(n) < int(first) / 20 for n in later)
    told, first, *later = python(ROUNDS).split()  # or there would be nothing to tell
    assert told == "False"
    assert all(int(n) > int(first) / 4 for n in later)
