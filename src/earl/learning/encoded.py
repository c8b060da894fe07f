"""A front for frozen backbones: every image is encoded once, and learners learn from features."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from earl.errors import InvalidSetting, NotFinite
from earl.learning.learner import Learner, Stateful
from earl.learning.passes import ask
from earl.learning.setting import Setting
from earl.learning.work import Pass
from earl.nn.finite import all_finite

AT_ONCE = 64  # images that are encoded together, where a CPU does not do them one by one
REMEMBERED = 256  # features


class Encoded(Learner):
    """Encodes raw images with a frozen backbone; a learner behind it sees nothing but features.

    To that learner a sample is float32 (features, 1, 1), and it keeps samples as such: its memory
    holds features instead of images. So any method can stand there, as it is. Nothing is augmented.

    Features of the last images are remembered by the hash of the image, so that asking about an
    image and then learning it takes one pass. On a CPU images are encoded one by one: that is
    fastest there, and the features of an image do not hang on its neighbours.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        method: Callable[[nn.Module, Setting], Learner],
        *,
        remembered: int = REMEMBERED,
    ) -> None:
        self.setting = setting
        self.backbone = backbone.requires_grad_(False).eval().to(setting.device)
        self.remembered = remembered
        self._known: dict[bytes, Tensor] = {}
        blank = torch.zeros(2, *setting.image_shape, dtype=torch.uint8)
        size = feature_length(ask(self.backbone, setting, blank))
        self.inner = method(nn.Flatten(), on_features(setting, size))
        self.classes, self.work = self.inner.classes, self.inner.work
        self.by_gradient = self.inner.by_gradient
        self.work.also("encoded", self._encoding)

    def encode(self, x: Tensor) -> Tensor:
        """Return the features of raw images, float32 (B, size, 1, 1)."""
        self.setting.check_images(x)
        keys = [hashlib.blake2b(image.numpy().tobytes()).digest() for image in x.cpu().contiguous()]
        new = {key: i for i, key in enumerate(keys) if key not in self._known}
        found = {key: self._known[key] for key in keys if key in self._known}
        at_once = 1 if self.setting.device == "cpu" else AT_ONCE
        for rows in torch.tensor(list(new.values()), dtype=torch.int64).split(at_once):
            h = ask(self.backbone, self.setting, x[rows]).float().cpu() if len(rows) else ()
            found |= {keys[row]: h_i.clone() for row, h_i in zip(rows.tolist(), h, strict=True)}
        if new and not all_finite(*(found[key] for key in new)):
            raise NotFinite(
                "the frozen backbone makes nan or infinity of an image; check its weights"
            )
        self._remember({key: found[key] for key in new})
        return torch.stack([found[key] for key in keys])[:, :, None, None]

    def _remember(self, new: Mapping[bytes, Tensor]) -> None:
        self._known |= new
        for key in list(self._known)[: max(0, len(self._known) - self.remembered)]:
            del self._known[key]  # the oldest

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
        return {**self.inner.passes(), "encoded": self._encoding()}

    def _encoding(self) -> Pass:
        blank = torch.zeros(1, *self.setting.image_shape, dtype=torch.uint8)
        shape = tuple(self.setting.view(blank).shape[1:])
        return Pass(self.backbone, shape, trains=False)

    def parts(self) -> Mapping[str, Stateful]:
        return {"backbone": self.backbone, **self.inner.parts()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if "backbone" not in state:
            raise InvalidSetting(
                "the stored state has no backbone: it belongs to a learner that was not behind a "
                "frozen one"
            )
        self.inner.load_state_dict({k: v for k, v in state.items() if k != "backbone"})
        self.backbone.load_state_dict(state["backbone"])
        self._known = {}  # they may belong to other weights


def on_features(setting: Setting, size: int) -> Setting:
    """Return the setting of a learner that sees features of this length in place of images."""
    return replace(
        setting,
        image_shape=(size, 1, 1),
        dtype=torch.float32,
        view=as_it_is,
        augment=as_it_is,
    )


def as_it_is(x: Tensor, _: Generator | None = None) -> Tensor:
    """View and augmentation of features: a network reads the features themselves."""
    return x


def feature_length(out: Tensor) -> int:
    """Return the length of the features that a backbone made of two images."""
    if out.dim() != 2 or len(out) != 2:
        raise InvalidSetting(
            f"the backbone maps 2 images to shape {tuple(out.shape)}; it must map (B, C, H, W) to "
            "(B, features): end it with global pooling and flatten"
        )
    return int(out.shape[1])
