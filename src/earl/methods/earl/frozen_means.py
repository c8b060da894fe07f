"""EARL behind a frozen backbone: class means that never grow stale.

A frozen backbone gives an image the same features for ever. So the running mean of a class can be
kept in those features, over all samples and not only those in memory, and seen through the
projection as it is at the moment.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import InvalidSetting
from earl.methods.embeddings.closed_form import RunningMeans
from earl.nn.modes import eval_mode


class Centre(nn.Module):
    """Gives features their unit length and subtracts a point, (B, size) -> (B, size)."""

    point: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("point", torch.zeros(size))

    def forward(self, h: Tensor) -> Tensor:
        return F.normalize(h, dim=1) - self.point


class FrozenMeans(RunningMeans):
    """The running mean of each class in unit features of a frozen backbone, and their centre."""

    def __init__(self, backbone: nn.Module, size: int) -> None:
        if any(p.requires_grad for p in backbone.parameters()):
            raise InvalidSetting(
                "residual_source = means keeps means of features, which a backbone that learns "
                "would leave behind; freeze it, or set residual_source=refresh"
            )
        super().__init__(size)
        self.centre = Centre(size)

    def add(self, h: Tensor, c: int) -> tuple[Tensor, int]:
        found = super().add(F.normalize(h.cpu(), dim=0), c)
        self._find_centre()
        return found

    def take_out(self, h: Tensor, c: int) -> None:
        """Undo `add`: the mean is that of all other samples of class c."""
        super().take_out(F.normalize(h.cpu(), dim=0), c)
        self._find_centre()

    def empty(self, c: int) -> None:
        super().empty(c)
        self._find_centre()

    def _find_centre(self) -> None:
        there = self.means[self.there()]
        point = there.mean(dim=0) if len(there) else torch.zeros_like(self.centre.point)
        self.centre.point.copy_(point)  # each class counts once

    def through(self, p: nn.Module) -> tuple[Tensor, Tensor]:
        """Return the unit vectors (n, d) that a projection makes of the means, and their classes.

        Those are 0 … n - 1, less the ones that have no sample.
        """
        with eval_mode(p), torch.inference_mode():
            return F.normalize(p(self.centred()), dim=1), self.there()

    def centred(self) -> Tensor:
        """Return the means around their centre, (n, size), of the classes that have samples."""
        point = self.centre.point
        return self.means[self.there()].to(point.device) - point


class BesideMeans(nn.Module):
    """A network behind which the class means stand: it makes features of samples and of the means.

    One pass for both: the weights of a projection are more than all else that is calculated with.
    """

    def __init__(self, backbone: nn.Module, means: FrozenMeans, p: nn.Module) -> None:
        super().__init__()
        self.backbone, self.means, self.p = backbone, means, p

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of x (B, …), and behind them those of the n means, (B + n, d)."""
        h = self.means.centre(self.backbone(x))
        out: Tensor = self.p(torch.cat((h, self.means.centred())))
        return out
