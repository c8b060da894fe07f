"""Heads: the classes divided by the task they first appeared in, and logits renewed by head."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class Heads:
    """Divides the classes by the task they first appeared in; head h begins at starts[h].

    Classes are numbered as they appear, so a head is a range, and everything follows from how many
    classes were known at each boundary.
    """

    def __init__(self) -> None:
        self.starts = [0]
        self.overlap = False  # has a class ever come back after its task?

    @property
    def present(self) -> int:
        """The first class number that is not past."""
        return self.starts[-1]

    @property
    def first_rival(self) -> int:
        """The first class number that new samples compete with: a present one, unless tasks mix."""
        return 0 if self.overlap else self.present

    def arrive(self, c: int) -> None:
        """Take notice of a sample of class number c."""
        self.overlap = self.overlap or c < self.present

    def close(self, n: int) -> None:
        """End the task, at the end of which n classes are known."""
        self.starts.append(n)

    def of(self, y: Tensor) -> Tensor:
        """Return the head of each class number y (B,)."""
        return torch.bucketize(y, torch.tensor(self.starts), right=True) - 1

    def state_dict(self) -> dict[str, Any]:
        return {"starts": list(self.starts), "overlap": self.overlap}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.starts, self.overlap = list(state["starts"]), state["overlap"]


def renew(stored: Tensor, z: Tensor, y: Tensor, part: slice, gamma: float) -> Tensor:
    """Return `stored` (k, m) with the columns `part` taken from z (k, ...), held below column y.

    Where their largest exceeds stored[y] they are scaled until it is gamma · stored[y]. That would
    turn signs round if stored[y] is not positive; then they are shifted until it is stored[y].
    """
    own = stored.gather(1, y[:, None])  # (k, 1)
    new = z[:, part]
    top = new.amax(dim=1, keepdim=True)
    lowered = torch.where(own > 0, new * (gamma * own / top), new - (top - own))
    result = stored.clone()
    result[:, part] = torch.where(top > own, lowered, new)
    return result
