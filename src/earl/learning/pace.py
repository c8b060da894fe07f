"""When a learner trains: how many updates its samples have earned, and which of them wait."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from earl.errors import EarlError
from earl.learning.setting import Setting
from earl.learning.work import Work


class Pace:
    """Spreads updates over the stream: `iterations` of them per sample, whole or fractional.

    After n samples exactly floor(iterations · n) updates have been due, however they arrived. Where
    a sample earns FLOPs instead, an update is due once its cost, taken to be that of the last one,
    has been earned.
    """

    def __init__(self, setting: Setting, work: Work) -> None:
        self.iterations = Fraction(setting.iterations).limit_denominator(10**6)
        self.flops = setting.flops
        self.work = work
        self.samples = 0

    def owed(self, n: int) -> Iterable[object]:
        """Count n more samples and return the updates that are now due, one by one."""
        updates, samples = self.iterations.as_integer_ratio()
        before = self.samples * updates // samples
        self.samples += n
        if self.flops is not None:
            return self._affordable(self.flops)
        return range(self.samples * updates // samples - before)

    def _affordable(self, flops: float) -> Iterator[object]:
        while self.work.flops + self.work.last <= flops * self.samples:
            spent = self.work.flops
            self.work.begin_update()
            yield None
            if self.work.flops == spent:
                raise EarlError("an update cost no FLOPs: the method must count its passes in work")

    def state_dict(self) -> dict[str, Any]:
        return {"samples": self.samples}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.samples = state["samples"]


class Waiting:
    """Samples that have arrived and are not trained on yet; `size` of them are learned at once."""

    def __init__(self, size: int, learn: Callable[[Tensor, Tensor], None]) -> None:
        self.size = size
        self.learn = learn
        self._x: list[Tensor] = []
        self._y: list[Tensor] = []

    def __len__(self) -> int:
        return len(self._x)

    def append(self, x: Tensor, y: Tensor) -> None:
        """Add a sample x (1, C, H, W), y (1,); learn all that wait if there are enough of them."""
        self._x.extend(x.clone())  # the caller may reuse its buffer
        self._y.extend(y.clone())
        if len(self) >= self.size:
            self.flush()

    def flush(self) -> None:
        """Learn all samples that wait, if there are any, and wait for new ones."""
        if len(self):
            x, y = self.look()
            self._x, self._y = [], []
            self.learn(x, y)

    def look(self) -> tuple[Tensor, Tensor]:
        """Return all waiting samples, (W, C, H, W) and (W,), W >= 1."""
        return torch.stack(self._x), torch.stack(self._y)

    def state_dict(self) -> dict[str, Any]:
        return {"x": list(self._x), "y": list(self._y)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._x, self._y = list(state["x"]), list(state["y"])
