"""Class ids and their numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from earl.errors import ClassCapacityError


class Classes:
    """Numbers class ids in the order of their first appearance; nothing is ever renumbered."""

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self._ids: list[int] = []
        self._number: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def check(self, y: Tensor) -> None:
        """Raise ClassCapacityError if the ids y (B,) bring more classes than there is room for."""
        new = self.new(y)
        if self.capacity is not None and len(self) + len(new) > self.capacity:
            raise ClassCapacityError(
                f"class {new[self.capacity - len(self)]} is new, but all {self.capacity} "
                "classifier vectors are taken; nothing was learned. Start with more dimensions: d "
                "of them give d + 1 vectors; or let the frame grow, where a method can (`growth`)"
            )

    def new(self, y: Tensor) -> list[int]:
        """Return those of the ids y (B,) that have no number yet, each once."""
        return [c for c in dict.fromkeys(y.tolist()) if c not in self._number]

    def index(self, y: Tensor) -> Tensor:
        """Return the numbers of the ids y (B,), adding those that are new."""
        for c in y.tolist():
            if c not in self._number:
                self._number[c] = len(self._ids)
                self._ids.append(c)
        return self.numbers(y)

    def numbers(self, y: Tensor) -> Tensor:
        """Return the numbers of ids y (B,) that are all known."""
        numbers = np.array([self._number[c] for c in y.tolist()], dtype=np.int64)
        return torch.from_numpy(numbers)  # torch.tensor takes several times as long

    def ids(self, numbers: Tensor) -> Tensor:
        """Return the ids that belong to class numbers (B,)."""
        return torch.tensor(self._ids, dtype=torch.int64)[numbers.cpu()]

    def state_dict(self) -> dict[str, Any]:
        return {"ids": torch.tensor(self._ids, dtype=torch.int64)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._ids = state["ids"].tolist()
        self._number = {c: i for i, c in enumerate(self._ids)}
