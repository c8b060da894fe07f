"""Policies of a memory: which of its samples a new one replaces."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Generator

from earl.learning.memory import Memory, Policy


def reservoir(memory: Memory, c: int, generator: Generator) -> int | None:
    """Keep a uniform sample of the stream: the s-th newcomer takes one of s slots, if it exists."""
    if not memory.full:
        return len(memory)
    row = random_int(memory.seen, generator)
    return row if row < memory.capacity else None


def greedy_balanced(memory: Memory, c: int, generator: Generator) -> int | None:
    """Always keep the newcomer; when full it replaces a random sample of a largest class."""
    return len(memory) if not memory.full else row_of_largest(memory, c, generator)


def gdumb(memory: Memory, c: int, generator: Generator) -> int | None:
    """Drop a newcomer whose class has its share; otherwise make room in a largest class."""
    known = int(np.count_nonzero(memory.seen_of))
    if memory.counts[c] >= memory.capacity / known:
        return None
    return len(memory) if not memory.full else row_of_largest(memory, c, generator)


def class_reservoir(memory: Memory, c: int, generator: Generator) -> int | None:
    """Balance the classes, and keep a uniform sample of the stream within each of them."""
    if not memory.full:
        return len(memory)
    if memory.counts[c] == memory.seen_of[c] - 1 < memory.counts.max():  # it has lost none yet
        return row_of_largest(memory, c, generator)
    place = random_int(int(memory.seen_of[c]), generator)
    rows = memory.rows_of(c)
    return rows[place] if place < len(rows) else None


PolicyName = Literal["greedy_balanced", "reservoir", "class_reservoir", "gdumb"]
POLICIES: Mapping[str, Policy] = {
    "greedy_balanced": greedy_balanced,
    "reservoir": reservoir,
    "class_reservoir": class_reservoir,
    "gdumb": gdumb,
}


def row_of_largest(memory: Memory, c: int, generator: Generator) -> int:
    """Return a random row of class c if it is among the largest, else of a random largest class."""
    counts = memory.counts
    most = counts[counts.argmax()]  # numpy's max takes twice as long
    if counts[c] < most:
        largest = (counts == most).nonzero()[0]
        c = int(largest[random_int(len(largest), generator)])
    rows = memory.rows_of(c)
    return rows[random_int(len(rows), generator)]


def random_int(n: int, generator: Generator) -> int:
    """Return a uniform integer from 0 to n - 1."""
    return int(torch.randint(n, (), generator=generator).item())
