"""Probes: what can be measured on a learner at an evaluation, beyond what it gets right."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from earl.collapse import nc1, nc2, nc3
from earl.datasets.dataset import Split
from earl.errors import EarlError
from earl.learner import Learner

MOST_PER_CLASS = 100  # test images per class that a probe looks at


@runtime_checkable
class Embeds(Protocol):
    """A learner whose features and class vectors can be looked at."""

    def features(self, x: Tensor) -> Tensor: ...
    def vectors(self) -> Tensor: ...


def collapse(learner: Learner, test: Split, asked: Tensor) -> dict[str, float]:
    """Return NC1, NC2 and NC3 on test samples of the seen classes."""
    if not isinstance(learner, Embeds):
        raise EarlError(f"{type(learner).__name__} has no features to measure collapse on")
    numbers = learner.classes.numbers(test.labels[asked])
    held = numbers.unique()
    if len(held) < 2:
        return {}  # one class has no geometry
    keep = torch.cat([(numbers == c).nonzero()[:MOST_PER_CLASS, 0] for c in held])
    h = torch.cat([learner.features(test.images[i]).cpu() for i in asked[keep].split(500)])
    labels, W = torch.searchsorted(held, numbers[keep]), learner.vectors().cpu()[held]
    return {"NC1": nc1(h, labels), "NC2": nc2(h, labels), "NC3": nc3(h, labels, W)}
