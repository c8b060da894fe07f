"""Shared by the tests of xder."""

import torch
from torch import Tensor

from earl.data.dataset import Dataset
from earl.learning.learner import Learner
from earl.methods.xder import XDER

FUTURE = 5


def naive_renew(stored: Tensor, z: Tensor, y: int, start: int, gamma: float) -> Tensor:
    """Return one entry's logits with those from `start` on replaced as the paper says."""
    own, top = float(stored[y]), max(float(v) for v in z[start:])
    result = stored.clone()
    for c in range(start, len(z)):
        v = float(z[c])
        if top > own:
            v = v * gamma * own / top if own > 0 else v + own - top
        result[c] = v
    return result


def observe(learner: Learner, dataset: Dataset, labels: list[int], start: int = 0) -> None:
    """Observe images start, start + 1, ... of the training set under these labels."""
    x = dataset.train.images[start : start + len(labels)]
    for x_i, y_i in zip(x.split(1), torch.tensor(labels).split(1), strict=True):
        learner.observe(x_i, y_i)


def column(learner: XDER, name: str) -> Tensor:
    return learner.memory.take(torch.arange(len(learner.memory)), name)[0]
