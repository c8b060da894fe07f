"""What every method is: a learner that observes samples and can be asked at any moment."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Generator, Tensor, nn

from earl.errors import ClassCapacityError, EarlError, InvalidSetting
from earl.learning.inputs import check_images, check_labels
from earl.learning.waiting import Waiting as Waiting
from earl.learning.work import Pass, Work
from earl.nn.finite import most_likely
from earl.nn.networks import evaluating, train_forward
from earl.nn.onednn import require_bfloat16
from earl.nn.precision import precisely, takes_bfloat16_on_cpu, widened
from earl.nn.ranks import Ranks

UNKNOWN = -1  # what `predict` answers before anything was learned


class Stateful(Protocol):
    """PyTorch's own pair: modules, optimisers and our parts all have it."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Any, /) -> Any: ...


class Learner(ABC):
    """Learns from a stream, one small batch at a time, and can be asked at any moment."""

    setting: "Setting"
    classes: "Classes"
    work: Work
    by_gradient: bool = True  # if not, each sample is one update, and `iterations` means nothing
    own_views: float = 0  # images trained on that `augment` did not make, for each that it did

    @abstractmethod
    def observe(self, x: Tensor, y: Tensor) -> None:
        """Learn from x, uint8 (B, C, H, W), with class ids y (B,), B >= 1."""

    @abstractmethod
    def scores(self, x: Tensor) -> Tensor:
        """Return a score for every seen class, (B, len(classes)); changes nothing."""

    @abstractmethod
    def parts(self) -> Mapping[str, Stateful]:
        """Return everything that changes while learning, by name."""

    def end_task(self) -> None:  # noqa: B027  (optional on purpose)
        """A boundary was announced; methods that know no tasks ignore it."""

    def finish(self) -> None:  # noqa: B027
        """The stream has ended; methods that collect samples before they train catch up."""

    def passes(self) -> Mapping[str, Pass]:
        """Return the passes that `work` counts: training on an image, and looking at one."""
        network, shape = self.parts()["network"], self.setting.image_shape
        assert isinstance(network, nn.Module)
        return {"images": Pass(network, shape), "forwards": Pass(network, shape, trains=False)}

    def sample_bytes(self) -> int:
        """Return the bytes of a sample as this learner keeps it while it waits."""
        return prod(self.setting.image_shape) * self.setting.dtype.itemsize

    def costs(self) -> dict[str, float]:
        """Return what learning has cost so far; what a question costs beyond a forward pass."""
        return self.work.costs()

    def predict(self, x: Tensor) -> Tensor:
        """Return the most likely class id of each image, (B,); UNKNOWN before the first sample."""
        self.setting.check_images(x)
        if not len(self.classes):
            return torch.full((len(x),), UNKNOWN)
        return self.classes.ids(most_likely(self.scores(x)))

    def check(self, x: Tensor, y: Tensor) -> None:
        """Raise, before anything changes, unless x and y can be learned."""
        self.setting.check_samples(x, y)
        self.classes.check(y)

    def state_dict(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.parts().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.check_state(state)
        parts = self.parts()
        if set(parts) != set(state):
            raise InvalidSetting(
                f"the stored state has the parts {sorted(state)}, this learner {sorted(parts)}: "
                "it belongs to another method or other settings"
            )
        for name, part in parts.items():
            part.load_state_dict(copy.deepcopy(state[name]))  # optimisers would share tensors

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raise, before anything changes, if a state holds samples of another shape than ours."""
        waiting = state.get("waiting", {}).get("x", ())
        found: list[tuple[tuple[int, ...], tuple[int, ...]]]
        found = [(tuple(x.shape), self.setting.image_shape) for x in waiting]
        memory = state.get("memory", {})  # of samples, or of the means of classes
        kept = memory.get("columns", {}).get("x", memory.get("means"))
        if kept is not None and len(kept):
            found.append((tuple(kept.shape[1:]), self.shape_kept(state)))
        for shape, ours in found:
            if shape != ours:
                raise InvalidSetting(
                    f"the stored state holds samples of shape {shape}, this learner takes {ours}: "
                    "it belongs to other images. Nothing was changed"
                )

    def shape_kept(self, state: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the shape of what the memory of a learner in this state keeps of a sample."""
        return self.setting.image_shape


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What every method in a comparison shares."""

    image_shape: tuple[int, int, int]  # (C, H, W)
    dtype: torch.dtype = torch.uint8  # of raw images; float32 where embeddings take their place
    view: Callable[[Tensor], Tensor]  # raw -> normalised
    augment: Callable[[Tensor, Generator], Tensor]  # raw -> augmented, normalised
    memory_size: int = 500
    batch_size: int = 16
    iterations: float = 1.0
    lr: float = 3e-4
    seed: int = 1
    device: str = "cpu"
    samples: int | None = None  # of the whole stream, where that is known
    flops: float | None = None  # that a sample earns for training, instead of `iterations`
    precision: Literal["float32", "bfloat16"] = "float32"  # of products within networks
    ranks: Ranks | None = None  # the processes that train together

    def __post_init__(self) -> None:
        for name in ("memory_size", "batch_size"):
            if getattr(self, name) < 1:
                raise InvalidSetting(f"{name} = {getattr(self, name)} must be at least 1")
        for name in ("iterations", "lr"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidSetting(f"{name} = {getattr(self, name)} must be positive and finite")
        if takes_bfloat16_on_cpu(self.precision, self.device):
            require_bfloat16()

    def check_images(self, x: Tensor) -> None:
        """Raise InvalidInput unless x is a batch of raw images of the right shape."""
        check_images(x, self.image_shape, self.dtype)

    def check_samples(self, x: Tensor, y: Tensor) -> None:
        """Raise InvalidInput unless x and y are a batch of raw images with class ids."""
        check_images(x, self.image_shape, self.dtype)
        check_labels(y, len(x))


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
        new = [c for c in dict.fromkeys(y.tolist()) if c not in self._number]
        if self.capacity is not None and len(self) + len(new) > self.capacity:
            raise ClassCapacityError(
                f"class {new[self.capacity - len(self)]} is new, but all {self.capacity} "
                "classifier vectors are taken; nothing was learned. Start with more dimensions: d "
                "of them give d + 1 vectors"
            )

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
            yield None
            if self.work.flops == spent:
                raise EarlError("an update cost no FLOPs: the method must count its passes in work")

    def state_dict(self) -> dict[str, Any]:
        return {"samples": self.samples}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.samples = state["samples"]


def ask(network: nn.Module, setting: Setting, x: Tensor) -> Tensor:
    """Return what a network makes of raw images, in evaluation mode; changes nothing."""
    setting.check_images(x)
    with evaluating(network), torch.inference_mode(), precisely(setting.precision, setting.device):
        out: Tensor = network(setting.view(x.to(setting.device)))
        return widened(out)


def forward(network: nn.Module, setting: Setting, x: Tensor) -> Tensor:
    """Return what a network makes of a batch that it is trained on, ready as `augment` gives it."""
    with precisely(setting.precision, setting.device):
        out = setting.ranks.forward(network, x) if setting.ranks else train_forward(network, x)
    return widened(out)


def adam(parameters: Any, lr: float) -> torch.optim.Adam:
    """Return the optimiser of every method: Adam with a constant learning rate (Supp.)."""
    return torch.optim.Adam(parameters, lr=lr, fused=True)
