"""Class means: all that is kept of a class is the mean of what it brought."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from earl.learning.memory import draw_distinct


class ClassMeans:
    """The running mean of each class, one row per class; adds and draws as a Memory does."""

    def __init__(self) -> None:
        self.seen = 0
        self._means = torch.empty(0)  # (n, ...), row c for class number c
        self._counts = torch.empty(0, dtype=torch.int64)

    def __len__(self) -> int:
        """The number of classes that have a mean."""
        return int((self._counts > 0).sum())

    def add(self, generator: Generator, *, y: Tensor, x: Tensor) -> None:
        """Take rows x (B, ...) of the classes y (B,) into their means; nothing is drawn."""
        for c, row in zip(y.tolist(), x, strict=True):
            self.take_in(row, c)

    def take_in(self, row: Tensor, c: int) -> tuple[Tensor, int]:
        """Take a row into the mean of class c; return how far off it was, and after how many."""
        missing = c + 1 - len(self._counts)
        if missing > 0:
            new = torch.zeros(missing, *row.shape)
            self._means = torch.cat((self._means, new)) if len(self._counts) else new
            self._counts = torch.cat((self._counts, self._counts.new_zeros(missing)))
        self.seen += 1
        before, off = int(self._counts[c]), row - self._means[c]
        self._counts[c] += 1
        self._means[c] += off / (before + 1)
        return off, before

    @property
    def means(self) -> Tensor:
        """The means (n, ...), row c for class number c."""
        return self._means

    def sample(self, n: int, *names: str, generator: Generator) -> tuple[Tensor, ...]:
        """Return "x", the means, and "y", the numbers, of n classes drawn without replacement."""
        held = self._counts.nonzero()[:, 0]
        y = held[draw_distinct(len(held), n, generator)]
        columns = {"x": self._means[y], "y": y}
        return tuple(columns[name] for name in names)

    def state_dict(self) -> dict[str, Any]:
        return {"means": self._means, "counts": self._counts, "seen": self.seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._means, self._counts = state["means"], state["counts"]
        self.seen = state["seen"]
