"""Nearest neighbours over the memory (Cover and Hart 1967; the weights are those of Wu et al.)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import InvalidSetting
from earl.learning import Memory, Setting, Stateful, greedy_balanced
from earl.methods.embeddings.closed_form import ClosedForm


class KNN(ClosedForm):
    """Keeps the features of a balanced choice of samples; those nearest by cosine vote.

    Paper: Cover and Hart, "Nearest Neighbor Pattern Classification", IEEE Transactions on
    Information Theory 1967. A vote weighs exp(cosine / temperature), as in Wu et al.,
    "Unsupervised Feature Learning via Non-Parametric Instance Discrimination", CVPR 2018. Knows no
    tasks.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        neighbours: int = 10,
        temperature: float = 0.07,
    ) -> None:
        if neighbours < 1:
            raise InvalidSetting(f"neighbours = {neighbours} must be at least 1")
        if temperature <= 0:
            raise InvalidSetting(f"temperature = {temperature} must be positive")
        super().__init__(backbone, setting)
        self.neighbours, self.temperature = neighbours, temperature
        self.memory = Memory(setting.memory_size, greedy_balanced)

    def _learn(self, h: Tensor, c: int) -> None:
        draw = self.randomness.at(self.memory.seen, "insert")
        self.memory.add(draw, features=F.normalize(h, dim=0)[None], y=torch.tensor([c]))

    def scores(self, x: Tensor) -> Tensor:
        """Return the share of the votes that each class gets from the nearest neighbours."""
        h = F.normalize(self.features(x), dim=1)
        kept, y = self.memory.take(torch.arange(len(self.memory)), "features", "y")
        cosine, rows = (h @ kept.to(h).T).topk(min(self.neighbours, len(y)), dim=1)
        votes = torch.softmax(cosine / self.temperature, dim=1)  # (B, k)
        total = h.new_zeros(len(h), len(self.classes))
        return total.scatter_add_(1, y.to(rows.device)[rows], votes)

    def parts(self) -> Mapping[str, Stateful]:
        return {**super().parts(), "memory": self.memory}
