"""Frozen backbones: raw images go in, features come out, and each image passes once.

The front of a network whose last stage learns gives maps, float32 (C, h, w), in place of features.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Generator, Tensor, nn

from earl.errors import InvalidSetting, NotFinite
from earl.learning.passes import ask
from earl.learning.setting import Setting
from earl.learning.work import Pass
from earl.nn.finite import all_finite
from earl.storage.state import digest

AT_ONCE = 64  # images that are encoded together, where a CPU does not do them one by one
REMEMBERED = 256  # features
SHA256 = "sha256"  # of weights that are referred to, and not stored


class Encoder:
    """Makes features of raw images with a frozen backbone; a sample is float32 (features, 1, 1).

    Features of the last images are remembered by the hash of the image, so that asking about an
    image and then learning it takes one pass. On a CPU images are encoded one by one: that is
    fastest there, and the features of an image do not hang on its neighbours.

    The state of a backbone that `name`s where it can be had again is the hash of its weights;
    else it is the weights.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        name: str | None = None,
        maps: bool = False,
        remembered: int = REMEMBERED,
    ) -> None:
        self.setting, self.name, self.remembered = setting, name, remembered
        self.network = backbone.requires_grad_(False).eval().to(setting.device)
        self.known: dict[bytes, Tensor] = {}  # features by the hash of their image
        blank = torch.zeros(2, *setting.image_shape, dtype=torch.uint8)
        self.shape = sample_shape(ask(self.network, setting, blank), maps)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the features of raw images, float32 (B, *shape)."""
        self.setting.check_images(x)
        keys = [hashlib.blake2b(image.numpy().tobytes()).digest() for image in x.cpu().contiguous()]
        # Threads may share an encoder: what is known now may be gone a moment later.
        found = {k: known for k in keys if (known := self.known.get(k)) is not None}
        new = {key: i for i, key in enumerate(keys) if key not in found}
        at_once = 1 if self.setting.device == "cpu" else AT_ONCE
        for rows in torch.tensor(list(new.values()), dtype=torch.int64).split(at_once):
            h = ask(self.network, self.setting, x[rows]).float().cpu() if len(rows) else ()
            found |= {keys[row]: h_i.clone() for row, h_i in zip(rows.tolist(), h, strict=True)}
        if new and not all_finite(*(found[key] for key in new)):
            raise NotFinite(
                "the frozen backbone makes nan or infinity of an image; check its weights"
            )
        self.remember({key: found[key] for key in new})
        return torch.stack([found[key] for key in keys]).view(len(x), *self.shape)

    def remember(self, new: Mapping[bytes, Tensor]) -> None:
        """Take in features that are known by the hash of their image; the oldest leave."""
        self.known.update(new)
        for key in list(self.known)[: max(0, len(self.known) - self.remembered)]:
            self.known.pop(key, None)  # the oldest

    def one_pass(self) -> Pass:
        """Return the pass that encodes an image, to count what it costs."""
        blank = torch.zeros(1, *self.setting.image_shape, dtype=torch.uint8)
        return Pass(self.network, tuple(self.setting.view(blank).shape[1:]), trains=False)

    def nbytes(self) -> int:
        return sum(t.nbytes for t in (*self.network.parameters(), *self.network.buffers()))

    @cached_property
    def _sha256(self) -> str:
        return digest(self.network.state_dict())

    def state_dict(self) -> dict[str, Any]:
        return {SHA256: self._sha256} if self.name else self.network.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the stored weights; those of a backbone with a name must be the ones it has."""
        if self.name is None:
            self.network.load_state_dict(state)
            self.known = {}  # they belong to other weights
            return
        stored = state[SHA256] if SHA256 in state else digest(dict(state))
        if stored != self._sha256:
            raise InvalidSetting(
                f"what is stored was learned behind other weights than those of {self.name} here "
                f"(SHA-256 {stored[:8]}… there, {self._sha256[:8]}… here); put those back"
            )


def on_features(setting: Setting, shape: tuple[int, int, int]) -> Setting:
    """Return the setting of a learner that sees features of this shape in place of images."""
    return replace(setting, image_shape=shape, dtype=torch.float32, view=as_it_is, augment=as_it_is)


def as_it_is(x: Tensor, _: Generator | None = None) -> Tensor:
    """View and augmentation of features: a network reads the features themselves."""
    return x


def sample_shape(out: Tensor, maps: bool) -> tuple[int, int, int]:
    """Return the shape of a sample, from what a backbone, or its front, made of two images."""
    if maps and out.dim() == 4:
        return int(out.shape[1]), int(out.shape[2]), int(out.shape[3])
    if out.dim() != 2 or len(out) != 2:
        raise InvalidSetting(
            f"the backbone maps 2 images to shape {tuple(out.shape)}; it must map (B, C, H, W) to "
            "(B, features): end it with global pooling and flatten"
        )
    return int(out.shape[1]), 1, 1
