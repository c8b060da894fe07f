"""Nearest class mean (Mensink et al., TPAMI 2013)."""

from collections.abc import Mapping
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import UnknownName, suggest
from earl.learning import Setting, Stateful
from earl.methods.embeddings.closed_form import ClosedForm, RunningMeans


class NCM(ClosedForm):
    """Keeps the running mean of each class's features; the nearest mean answers.

    Paper: Mensink et al., "Distance-Based Image Classification: Generalizing to New Classes at
    Near-Zero Cost", TPAMI 2013. Knows no tasks; the order of the samples does not matter.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        distance: Literal["cosine", "euclidean"] = "cosine",
    ) -> None:
        if distance not in ("cosine", "euclidean"):
            known = ("cosine", "euclidean")
            raise UnknownName(f"distance = {distance!r} does not exist; {suggest(distance, known)}")
        super().__init__(backbone, setting)
        self.cosine = distance == "cosine"
        self.means = RunningMeans(self.size)

    def _learn(self, h: Tensor, c: int) -> None:
        self.means.add(F.normalize(h, dim=0) if self.cosine else h, c)

    def scores(self, x: Tensor) -> Tensor:
        """Return the cosine with each mean, or minus half the squared distance to it."""
        h, mu = self.features(x), self.vectors()
        if self.cosine:
            return F.normalize(h, dim=1) @ F.normalize(mu, dim=1).T
        return h @ mu.T - (mu.square().sum(dim=1) + h.square().sum(dim=1, keepdim=True)) / 2

    def vectors(self) -> Tensor:
        """Return the mean of each class, (n, size)."""
        return self.means.means.to(self.setting.device)

    def parts(self) -> Mapping[str, Stateful]:
        return {**super().parts(), "means": self.means}
