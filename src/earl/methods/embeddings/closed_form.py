"""What methods on fixed features share: a frozen backbone, and statistics that grow by samples."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from earl.learning import Classes, Learner, Setting, Stateful, Work, ask
from earl.nn import feature_size
from earl.randomness import Randomness


class ClosedForm(Learner):
    """Encodes each sample once with a backbone that it freezes, and keeps statistics of features.

    The settings of training (`iterations`, `lr`, `batch_size`, `augment`) mean nothing to it.
    """

    by_gradient = False

    def __init__(self, backbone: nn.Module, setting: Setting) -> None:
        self.setting = setting
        self.randomness = Randomness(setting.seed)
        self.network = backbone.requires_grad_(False).eval().to(setting.device)
        self.size = feature_size(self.network, setting.image_shape)
        self.classes = Classes()
        self.work = Work(self.passes)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Take the features of each sample into the statistics of its class."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            h = self.features(x_i)[0].cpu()
            self._learn(h, int(self.classes.index(y_i)))
            self.work.add(forwards=1)

    @abstractmethod
    def _learn(self, h: Tensor, c: int) -> None:
        """Learn from the features h (size,) of a sample of class number c."""

    def features(self, x: Tensor) -> Tensor:
        """Return the backbone's features, (B, size)."""
        return ask(self.network, self.setting, x)

    def parts(self) -> Mapping[str, Stateful]:
        return {"network": self.network, "classes": self.classes, "work": self.work}


class RunningMeans:
    """The mean of the features of each class, brought up to date sample by sample."""

    def __init__(self, size: int) -> None:
        self.means = torch.zeros(0, size)  # (n, size), row c for class number c
        self._counts: list[int] = []

    def add(self, h: Tensor, c: int) -> tuple[Tensor, int]:
        """Take a vector into the mean of class c; return how far off it was, and after how many."""
        if (missing := c + 1 - len(self._counts)) > 0:
            self.means = torch.cat((self.means, torch.zeros(missing, self.means.shape[1])))
            self._counts += [0] * missing
        before, off = self._counts[c], h - self.means[c]
        self._counts[c] += 1
        self.means[c] += off / self._counts[c]
        return off, before

    def take_out(self, h: Tensor, c: int) -> None:
        """Undo `add` of a vector: the mean is that of all other vectors of class c."""
        if self._counts[c] == 1:
            self.empty(c)
        else:
            self._counts[c] -= 1
            self.means[c] -= (h - self.means[c]) / self._counts[c]

    def empty(self, c: int) -> None:
        """Have class c as if it had never had a vector."""
        self.means[c], self._counts[c] = 0, 0

    def there(self) -> Tensor:
        """Return the numbers of the classes that have vectors."""
        return torch.tensor(self._counts, dtype=torch.int64).nonzero().flatten()

    def state_dict(self) -> dict[str, Any]:
        return {"means": self.means, "counts": torch.tensor(self._counts, dtype=torch.int64)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.means, self._counts = state["means"], state["counts"].tolist()


class SecondMoment:
    """The sum of the outer products of vectors, S = Σ v vᵀ, brought up to date block by block.

    Vectors wait until there are `block` of them, or an eighth of those in the sum if that is
    fewer: one product of matrices instead of many of vectors, and what follows from S, such as an
    inverse, changes as rarely. When that happens hangs on the number of vectors alone.
    """

    def __init__(self, size: int, block: int) -> None:
        self.block = block
        self.sum = torch.zeros(size, size)
        self.count = 0  # vectors in the sum
        self.waiting = torch.zeros(block, size)
        self.waits = 0  # rows of it in use

    def add(self, v: Tensor) -> None:
        """Add a vector (size,)."""
        self.waiting[self.waits] = v
        self.waits += 1
        if self.waits >= min(self.block, max(1, self.count // 8)):
            self.take_in()

    def take_in(self) -> None:
        """Bring the sum up to date with all vectors that wait."""
        V = self.waiting[: self.waits]
        self.sum.addmm_(V.T, V)
        self.count += self.waits
        self.waits = 0

    def state_dict(self) -> dict[str, Any]:
        return {"sum": self.sum, "count": self.count, "waiting": self.waiting[: self.waits]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sum, self.count = state["sum"], state["count"]
        self.waits = len(state["waiting"])
        self.waiting[: self.waits] = state["waiting"]
