"""Memory-only ER: what tells it from ER is the memory it trains from."""

from collections.abc import Callable

import torch

from earl.datasets.dataset import Dataset
from earl.learner import Learner
from earl.methods.er_memory_only import MemoryOnlyER

Make = Callable[..., Learner]


def test_the_memory_is_balanced_and_has_every_newcomer(make: Make, dataset: Dataset) -> None:
    """As EARL's, whose control it is: a reservoir would follow the stream and drop newcomers."""
    learner = make("er-memory-only", memory_size=12, iterations=0.1)
    assert isinstance(learner, MemoryOnlyER)
    often = [0] * 60 + [1, 2, 3] * 8  # one class has most of the stream
    rows = [int((dataset.train.labels == c).nonzero()[i % 40]) for i, c in enumerate(often)]
    for row in rows:
        x = dataset.train.images[row : row + 1]
        learner.observe(x, dataset.train.labels[row : row + 1])
        (held,) = learner.memory.take(torch.arange(len(learner.memory)), "x")
        assert (held == x).flatten(1).all(dim=1).any()
    assert learner.memory.counts.tolist() == [3, 3, 3, 3]
