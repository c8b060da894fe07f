"""A front for frozen backbones: every image is encoded once, and learners learn from features."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from earl.errors import InvalidSetting
from earl.learning.encoder import Encoder, on_features
from earl.learning.learner import Learner, Stateful
from earl.learning.setting import Setting
from earl.learning.work import Pass


class Encoded(Learner):
    """Encodes raw images with a frozen backbone; a learner behind it sees nothing but features.

    To that learner a sample is float32 (features, 1, 1), and it keeps samples as such: its memory
    holds features instead of images. So any method can stand there, as it is. Nothing is augmented.
    Where only the front of a network is frozen, the learner has the `rest` of it, and trains that.
    """

    def __init__(
        self,
        encode: Encoder,
        method: Callable[[nn.Module, Setting], Learner],
        rest: nn.Module | None = None,
    ) -> None:
        self.encode, self.setting = encode, encode.setting
        self.inner = method(rest or nn.Flatten(), on_features(encode.setting, encode.shape))
        self.classes, self.work = self.inner.classes, self.inner.work
        self.by_gradient = self.inner.by_gradient
        self.work.also("encoded", encode.one_pass)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Encode new samples, and learn from their features."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            h = self.encode(x_i)
            self.work.count(encoded=1)
            self.inner.observe(h, y_i)

    def scores(self, x: Tensor) -> Tensor:
        return self.inner.scores(self.encode(x))

    def end_task(self) -> None:
        self.inner.end_task()

    def finish(self) -> None:
        self.inner.finish()

    def costs(self) -> dict[str, float]:
        return self.inner.costs()

    def sample_bytes(self) -> int:
        return self.inner.sample_bytes()

    def passes(self) -> Mapping[str, Pass]:
        return {**self.inner.passes(), "encoded": self.encode.one_pass()}

    def parts(self) -> Mapping[str, Stateful]:
        known = self.encode.name is not None  # then its weights are no part of the state
        return {"backbone": self.encode if known else self.encode.network, **self.inner.parts()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if "backbone" not in state:
            raise InvalidSetting(
                "the stored state has no backbone: it belongs to a learner that was not behind a "
                "frozen one"
            )
        self.inner.load_state_dict({k: v for k, v in state.items() if k != "backbone"})
        self.encode.load_state_dict(state["backbone"])
