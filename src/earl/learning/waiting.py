"""Samples that have arrived and wait until there are enough of them to train on."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class Waiting:
    """Samples that have arrived and are not trained on yet, at most `size` of them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._x: list[Tensor] = []
        self._y: list[Tensor] = []

    def __len__(self) -> int:
        return len(self._x)

    @property
    def full(self) -> bool:
        return len(self) >= self.size

    def append(self, x: Tensor, y: Tensor) -> None:
        """Add samples x (b, C, H, W), y (b,)."""
        self._x.extend(x.clone())  # the caller may reuse its buffer
        self._y.extend(y.clone())

    def look(self) -> tuple[Tensor, Tensor]:
        """Return all waiting samples, (W, C, H, W) and (W,), W >= 1."""
        return torch.stack(self._x), torch.stack(self._y)

    def take(self) -> tuple[Tensor, Tensor]:
        """Return all waiting samples, (W, C, H, W) and (W,), and wait for new ones."""
        x, y = self.look()
        self._x, self._y = [], []
        return x, y

    def state_dict(self) -> dict[str, Any]:
        return {"x": list(self._x), "y": list(self._y)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._x, self._y = list(state["x"]), list(state["y"])
