"""Residual correction: features of training samples and how far they were from their vectors."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


class ResidualMemory:
    """The newest `per_class` features h of every class; the residuals w_y - h follow from them.

    Only (h, y) is stored: half the bytes of the pairs, and they cannot disagree.
    """

    def __init__(self, per_class: int, d: int, device: torch.device | str = "cpu") -> None:
        self.per_class = per_class
        self._rings = torch.empty(0, per_class, d, device=device)  # (classes, per_class, d)
        self._pushed = torch.empty(0, dtype=torch.int64)  # features pushed so far, per class

    def __len__(self) -> int:
        return int(self._pushed.clamp(max=self.per_class).sum())

    def extend(self, n: int) -> None:
        """Make an empty ring for every class up to n."""
        have, room = len(self._pushed), len(self._rings)
        if n > room:  # an eighth ahead, so that rings are rarely copied
            new = self._rings.new_zeros(max(n - room, room // 8), *self._rings.shape[1:])
            self._rings = torch.cat((self._rings, new))
        if n > have:
            self._pushed = torch.cat((self._pushed, torch.zeros(n - have, dtype=torch.int64)))

    def push(self, f_hat: Tensor, y: Tensor) -> None:
        """Store features (B, d) of classes y (B,); in a full ring the oldest gives way."""
        same = y[:, None] == y  # (B, B)
        rank = same.tril(-1).sum(dim=1)  # how many of my class come before me in this batch
        keep = same.sum(dim=1) - rank <= self.per_class  # the others would be overwritten at once
        place = (self._pushed[y] + rank) % self.per_class
        self._rings[y[keep], place[keep]] = f_hat[keep]
        self._pushed += torch.bincount(y, minlength=len(self._pushed))

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Return the stored features (N, d) and their classes (N,)."""
        n = len(self._pushed)
        filled = torch.arange(self.per_class) < self._pushed[:, None]  # (n, per_class)
        y = torch.arange(n)[:, None].expand(n, self.per_class)
        if bool(filled.all()):
            return self._rings[:n].flatten(0, 1), y.flatten()
        return self._rings[:n][filled], y[filled]

    def nbytes(self) -> int:
        return self._rings.nbytes

    def state_dict(self) -> dict[str, Any]:
        return {"rings": self._rings[: len(self._pushed)], "pushed": self._pushed.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._rings = state["rings"].to(self._rings.device, copy=True)
        self._pushed = state["pushed"].clone()


def correct(f_hat: Tensor, h_hat: Tensor, y: Tensor, W: Tensor, *, k: int, tau: float) -> Tensor:
    """Return f_hat plus the weighted mean residual of its k nearest stored features, Eq. (5), (6).

    f_hat (B, d) and h_hat (N, d) have unit rows, y (N,) numbers the rows of W (n, d). Distances are
    one matrix product; the residuals w_y - h are summed without a (B, k, d) tensor.
    """
    if not len(h_hat):
        return f_hat
    distance = (2 - 2 * f_hat @ h_hat.T).clamp(min=0).sqrt()  # (B, N), Euclidean
    near, nearest = distance.topk(min(k, len(h_hat)), dim=1, largest=False)  # (B, k')
    s = torch.softmax(-near / tau, dim=1)
    w = F.embedding_bag(y.to(nearest.device)[nearest], W, per_sample_weights=s, mode="sum")
    h = F.embedding_bag(nearest, h_hat, per_sample_weights=s, mode="sum")
    return f_hat + (w - h)
