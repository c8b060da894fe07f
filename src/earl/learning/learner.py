"""What every method is: a learner that observes samples and can be asked at any moment."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import prod
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from earl.errors import InvalidSetting
from earl.learning.classes import Classes
from earl.learning.pace import Waiting
from earl.learning.setting import Setting
from earl.learning.work import Pass, Work
from earl.nn.finite import most_likely
from earl.nn.steps import forget_passes

UNKNOWN = -1  # what `predict` answers before anything was learned


class Stateful(Protocol):
    """PyTorch's own pair: modules, optimisers and our parts all have it."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Any, /) -> Any: ...


class Learner(ABC):
    """Learns from a stream, one small batch at a time, and can be asked at any moment."""

    setting: Setting
    classes: Classes
    work: Work
    by_gradient: bool = True  # if not, each sample is one update, and `iterations` means nothing
    own_views: float = 0  # views of its own that a method trains on, for each image of `augment`

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

    def finish(self) -> None:
        """The stream has ended: train on the samples that still wait for more of them."""
        for part in self.parts().values():
            if isinstance(part, Waiting):
                part.flush()

    def named_parts(self, *names: str) -> dict[str, Stateful]:
        """Return the attributes of these names: the parts of a learner that has all as such."""
        return {name: getattr(self, name) for name in names}

    def passes(self) -> Mapping[str, Pass]:
        """Return the passes that `work` counts: training on an image, and looking at one."""
        network, shape = self.parts()["network"], self.setting.image_shape
        assert isinstance(network, nn.Module)
        return {"images": Pass(network, shape), "forwards": Pass(network, shape, trains=False)}

    def sample_bytes(self) -> int:
        """Return the bytes of a sample as this learner keeps it while it waits."""
        return prod(self.setting.image_shape) * self.setting.dtype.itemsize

    def costs(self) -> dict[str, float]:
        """Return what learning has cost so far, and what an answer costs beyond a forward pass."""
        return self.work.costs()

    def predict(self, x: Tensor) -> Tensor:
        """Return the most likely class id of each image, (B,); UNKNOWN before the first sample."""
        self.setting.check_images(x)
        if not len(self.classes):
            return torch.full((len(x),), UNKNOWN)
        return self.classes.ids(most_likely(self.scores(x)))

    def check(self, x: Tensor, y: Tensor) -> None:
        """Raise, before anything changes, unless x and y can be learned.

        Nothing can be if the last updates have all been undone: then it is NoProgress.
        """
        self.setting.check_samples(x, y)
        self.classes.check(y)
        self.work.progress.check()
        forget_passes()

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
