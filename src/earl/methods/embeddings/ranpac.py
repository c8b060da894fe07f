"""RanPAC without tuning (McDonnell et al., NeurIPS 2023): random projection, ridge prototypes."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import InvalidSetting
from earl.learning import Pass, Setting, Stateful
from earl.methods.embeddings.closed_form import ClosedForm, SecondMoment
from earl.nn.room import require_room


class RandomProjection(nn.Module):
    """φ(h) = ReLU(P h) with entries of P that are standard normal and never learn."""

    P: Tensor

    def __init__(self, size: int, projected: int, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("P", torch.randn(size, projected, generator=generator))

    def forward(self, h: Tensor) -> Tensor:
        return F.relu(h @ self.P)


class LabelledMoment(SecondMoment):
    """The second moment of vectors, and beside it their sum by class, of the same vectors."""

    def __init__(self, size: int, block: int) -> None:
        super().__init__(size, block)
        self.totals = torch.zeros(0, size)  # (n, size), row c for class number c
        self._classes: list[int] = []  # of the vectors that wait

    def add_labelled(self, v: Tensor, c: int) -> None:
        """Add a vector of class number c; the first of a class does not wait."""
        new = c >= len(self.totals)
        if new:
            self.totals = torch.cat((self.totals, v.new_zeros(c + 1 - len(self.totals), len(v))))
        self._classes.append(c)
        self.add(v)
        if new and self.waits:
            self.take_in()

    def take_in(self) -> None:
        classes = torch.tensor(self._classes, dtype=torch.int64)
        self.totals.index_add_(0, classes, self.waiting[: self.waits])
        self._classes = []
        super().take_in()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "totals": self.totals, "classes": list(self._classes)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.totals, self._classes = state["totals"], list(state["classes"])


class RanPAC(ClosedForm):
    """Projects features at random to many more, and solves a ridge regression to the classes.

    Paper: McDonnell et al., "RanPAC: Random Projections and Pre-trained Models for Continual
    Learning", NeurIPS 2023, without its tuning on the first task. Knows no tasks.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        projected: int = 2000,
        ridge: float = 100.0,
        block: int = 64,
    ) -> None:
        for name, value in (("projected", projected), ("block", block)):
            if value < 1:
                raise InvalidSetting(f"{name} = {value} must be at least 1")
        if ridge <= 0:
            raise InvalidSetting(f"ridge = {ridge} must be positive")
        super().__init__(backbone, setting)
        require_room(20 * projected**2, f"projected = {projected}: its Gram matrix, while solved")
        self.ridge = ridge
        draw = self.randomness.at(0, "projection")
        self.projection = RandomProjection(self.size, projected, draw).to(setting.device)
        self.gram = LabelledMoment(projected, block)
        self._weights: tuple[int, Tensor] | None = None

    def _learn(self, h: Tensor, c: int) -> None:
        phi = self.projection(h.to(self.setting.device))
        self.gram.add_labelled(phi.cpu(), c)
        self.work.count(projected=1)

    def passes(self) -> Mapping[str, Pass]:
        projected = Pass(self.projection, (self.size,), trains=False)
        return {**super().passes(), "projected": projected}

    def weights(self) -> Tensor:
        """Return (G + λ I)⁻¹ C, (projected, n), calculated when G has changed.

        λ is `ridge` times the mean square of a number of φ, so that it needs no scale.
        """
        if self._weights is None or self._weights[0] != self.gram.count:
            G = self.gram.sum.double()
            mean_square = float(G.trace()) / (len(G) * max(1, self.gram.count))
            G.diagonal().add_(max(self.ridge * mean_square, 1e-12))
            C = self.gram.totals.double().T
            W = torch.cholesky_solve(C, torch.linalg.cholesky(G))
            self._weights = (self.gram.count, W.float().to(self.setting.device))
        return self._weights[1]

    def scores(self, x: Tensor) -> Tensor:
        """Return φ(h) (G + λ I)⁻¹ C: 1 for the right class and 0 for others, if it were exact."""
        phi: Tensor = self.projection(self.features(x))
        return phi @ self.weights()

    def finish(self) -> None:
        """Take the samples that still wait into the Gram matrix."""
        self.gram.take_in()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._weights = None  # it belongs to the state that was

    def parts(self) -> Mapping[str, Stateful]:
        return {**super().parts(), "projection": self.projection, "gram": self.gram}
