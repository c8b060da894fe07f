"""Residual correction by remembered images as the network sees them now (`residual_source`)."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from earl.learning import Memory

if TYPE_CHECKING:
    from earl.methods.earl.earl import EARL


class Reencoded:
    """Features of the first `per_class` remembered images of every class, encoded when asked.

    They are kept until something has been learned since.
    """

    def __init__(self, per_class: int) -> None:
        self.per_class = per_class
        self._kept: tuple[object, Tensor, Tensor] | None = None

    def pairs(self, learner: "EARL") -> tuple[Tensor, Tensor]:
        """Return the features (N, d) and their classes (N,) as of now."""
        now = (learner.work.updates, learner.memory.seen)
        if self._kept is None or self._kept[0] != now:
            x, y = learner.memory.take(self.rows(learner.memory), "x", "y")
            self._kept = (now, learner.features(x), y)
        return self._kept[1:]

    def rows(self, memory: Memory) -> Tensor:
        """Return where these images are in memory."""
        held = memory.classes_held().tolist()
        return torch.tensor([row for c in held for row in memory.rows_of(c)[: self.per_class]])

    def forget(self) -> None:
        """Keep no features: the learner has another state now."""
        self._kept = None
