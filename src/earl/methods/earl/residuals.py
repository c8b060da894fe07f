"""Residual correction: features of training samples and how far they were from their vectors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from earl.nn import Taken, chosen

EMPTY = -1  # the class of a slot that holds no feature yet


class ResidualMemory:
    """The newest `per_class` features h of every class; the residuals w_y - h follow from them.

    Only (h, y) is stored: half the bytes of the pairs, and they cannot disagree.
    """

    def __init__(self, per_class: int, d: int, device: torch.device | str = "cpu") -> None:
        self.per_class = per_class
        self._rings = torch.empty(0, per_class, d, device=device)  # (classes, per_class, d)
        self._pushed: list[int] = []  # features pushed so far, per class

    def __len__(self) -> int:
        return sum(min(pushed, self.per_class) for pushed in self._pushed)

    def extend(self, n: int) -> None:
        """Make an empty ring for every class up to n."""
        have, room = len(self._pushed), len(self._rings)
        if n > room:  # an eighth ahead, so that rings are rarely copied
            new = self._rings.new_zeros(max(n - room, room // 8), *self._rings.shape[1:])
            self._rings = torch.cat((self._rings, new))
        self._pushed += [0] * (n - have)

    def widen(self, d: int) -> None:
        """Let features have d dimensions; in those that are new all stored ones are zero."""
        self._rings = F.pad(self._rings, (0, d - self._rings.shape[2]))

    def push(self, f_hat: Tensor, y: Tensor, taken: Taken = True) -> None:
        """Store features (B, d) of classes y (B,); in a full ring the oldest gives way.

        Nothing is stored of a step that was not taken. If only the device knows of it, rings turn,
        and the features that should give way stay for another round.
        """
        if taken is False:
            return
        slots: dict[int, int] = {}  # which row of f_hat comes to a slot; the last one stays
        for i, c in enumerate(y.tolist()):
            slots[c * self.per_class + self._pushed[c] % self.per_class] = i
            self._pushed[c] += 1
        moves = torch.from_numpy(np.array((list(slots), list(slots.values())), dtype=np.int64))
        to, rows = moves.to(f_hat.device, non_blocking=True)
        flat = self._rings.view(-1, self._rings.shape[2])
        new = f_hat.index_select(0, rows)
        if isinstance(taken, Tensor):
            new = chosen(taken, new, flat.index_select(0, to))
        flat.index_copy_(0, to, new)

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Return all slots for features (S, d) and their classes (S,), EMPTY where none is yet.

        Nothing is copied, also while some classes have less than `per_class` features.
        """
        n = len(self._pushed)
        y = torch.arange(n)[:, None].expand(n, self.per_class)
        if min(self._pushed, default=0) < self.per_class:
            filled = torch.arange(self.per_class) < torch.tensor(self._pushed)[:, None]
            y = torch.where(filled, y, EMPTY)
        return self._rings[:n].flatten(0, 1), y.flatten()

    def nbytes(self) -> int:
        return self._rings.nbytes

    def state_dict(self) -> dict[str, Any]:
        pushed = torch.tensor(self._pushed, dtype=torch.int64)
        return {"rings": self._rings[: len(pushed)], "pushed": pushed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._rings = state["rings"].to(self._rings.device, copy=True)
        self._pushed = state["pushed"].tolist()


def correct(f_hat: Tensor, h_hat: Tensor, y: Tensor, W: Tensor, *, k: int, tau: float) -> Tensor:
    """Return f_hat plus the weighted mean residual of its k nearest stored features, Eq. (5), (6).

    f_hat (B, d) and h_hat (S, d) have unit rows, y (S,) numbers the rows of W (n, d), or says that
    a row of h_hat is EMPTY. Distances are one matrix product; the residuals w_y - h are summed
    without a (B, k, d) tensor.
    """
    rows = (y != EMPTY).nonzero().flatten()  # (N,)
    if not len(rows):
        return f_hat
    distance = (f_hat @ h_hat.T).mul_(-2).add_(2).clamp_(min=0).sqrt_()  # (B, S), Euclidean
    whole = len(rows) == len(y)
    y, rows = y.to(distance.device), rows.to(distance.device)
    if not whole:  # distances are left out, a d-th of what the features would be
        distance = distance.index_select(1, rows)
    near, nearest = distance.topk(min(k, len(rows)), dim=1, largest=False)  # (B, k')
    nearest = nearest if whole else rows[nearest]
    s = torch.softmax(-near / tau, dim=1)
    w = F.embedding_bag(y[nearest], W, per_sample_weights=s, mode="sum")
    h = F.embedding_bag(nearest, h_hat, per_sample_weights=s, mode="sum")
    return f_hat + (w - h)
