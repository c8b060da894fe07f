"""Deep streaming linear discriminant analysis (Hayes and Kanan, CVPR Workshops 2020)."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from earl.errors import InvalidSetting
from earl.learning import Setting, Stateful
from earl.methods.embeddings.closed_form import ClosedForm, RunningMeans, SecondMoment


class SLDA(ClosedForm):
    """Keeps running class means and one covariance that all classes share; Gaussians answer.

    Paper: Hayes and Kanan, "Lifelong Machine Learning with Deep Streaming Linear Discriminant
    Analysis", CVPR Workshops 2020. Knows no tasks.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        shrinkage: float = 0.5,
        block: int = 64,
    ) -> None:
        if not 0 < shrinkage <= 1:
            raise InvalidSetting(f"shrinkage = {shrinkage} must be above 0 and at most 1")
        if block < 1:
            raise InvalidSetting(f"block = {block} must be at least 1")
        super().__init__(backbone, setting)
        self.shrinkage = shrinkage
        self.means = RunningMeans(self.size)
        self.scatter = SecondMoment(self.size, block)
        self._precision: tuple[int, Tensor] | None = None

    def _learn(self, h: Tensor, c: int) -> None:
        off, before = self.means.add(h, c)
        # Welford: with this weight the sum is the scatter around the means as they are now.
        self.scatter.add(math.sqrt(before / (before + 1)) * off)

    def precision(self) -> Tensor:
        """Return Λ = ((1 − ε) Σ + ε v I)⁻¹, (size, size), calculated when Σ has changed.

        v is the mean variance of a feature, so that ε needs no scale; 1 as long as there is none.
        """
        if self._precision is None or self._precision[0] != self.scatter.count:
            sigma = self.scatter.sum.double() / max(1, self.scatter.count)
            v = float(sigma.diagonal().mean()) or 1.0
            sigma = (1 - self.shrinkage) * sigma
            sigma.diagonal().add_(self.shrinkage * v)
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(sigma))
            self._precision = (self.scatter.count, inverse.float().to(self.setting.device))
        return self._precision[1]

    def scores(self, x: Tensor) -> Tensor:
        """Return h Λ μ − μ Λ μ / 2 of each class, the part of its log-density that differs."""
        h, mu = self.features(x), self.vectors()
        w = mu @ self.precision()  # (n, size)
        return h @ w.T - (w * mu).sum(dim=1) / 2

    def vectors(self) -> Tensor:
        """Return the mean of each class, (n, size)."""
        return self.means.means.to(self.setting.device)

    def finish(self) -> None:
        """Take the samples that still wait into the covariance."""
        self.scatter.take_in()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._precision = None  # it belongs to the state that was

    def parts(self) -> Mapping[str, Stateful]:
        return {**super().parts(), "means": self.means, "scatter": self.scatter}
