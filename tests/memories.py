"""Memories that are filled with numbered samples, for tests."""

import torch
from hypothesis import strategies as st

from earl.learning.memory import Memory
from seeds import generator

LABELS = st.lists(st.integers(0, 5), max_size=60)


CAPACITY = st.integers(1, 12)


def numbered(labels, start=0):
    """Return columns for `add`: the labels, and the place of each sample in the stream."""
    y = torch.tensor(labels, dtype=torch.int64)
    return {"y": y, "t": torch.arange(start, start + len(y))}


def filled(labels, capacity, policy, seed=0):
    memory = Memory(capacity, policy)
    memory.add(generator(seed), **numbered(labels))
    return memory


def contents(memory, *names):
    """Return the named columns of all rows as lists."""
    return tuple(c.tolist() for c in memory.take(torch.arange(len(memory)), *names))


def shuffled(labels, seed=0):
    order = torch.randperm(len(labels), generator=generator(seed))
    return torch.tensor(labels)[order].tolist()
