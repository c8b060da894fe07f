"""A frozen backbone before an estimator: images are read as the features that it makes of them."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import torch
from numpy.typing import NDArray
from torch import Tensor

from earl.estimator.images import ImageReader
from earl.learning.encoder import Encoder
from earl.nn.backbones import Backbone, open_backbone

AT_ONCE = 32  # images that are decoded before they are encoded: many large ones fill the memory

_opened: WeakValueDictionary[tuple[str, str], Backbone] = WeakValueDictionary()


def shared_backbone(name: str, device: str) -> Backbone:
    """Return a pretrained backbone to be frozen: one for all models of a process that have it."""
    found = _opened.get((name, device))
    if found is None:
        found = open_backbone(name)
        found.network.requires_grad_(False).to(device)
        _opened[name, device] = found
    return found


class EyeReader:
    """Reads images through a frozen backbone: a sample is float32 (features, 1, 1)."""

    features = None  # a sample is given as an image, not as a vector

    def __init__(self, images: ImageReader, encode: Encoder, owner: Backbone | None) -> None:
        self.images, self.encode = images, encode
        self.owner = owner  # lives as long as somebody has it

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.encode.shape

    def meet(self, X: Sequence[object]) -> "EyeReader":
        """Return the reader for these samples: itself."""
        return self

    def state_dict(self) -> dict[str, Any]:
        return {"backbone": self.encode.state_dict()}

    def restored(self, state: Mapping[str, Any]) -> "EyeReader":
        self.encode.load_state_dict(copy.deepcopy(state["backbone"]))
        return self

    def many(self, X: object) -> list[object]:
        """Return several images one by one; InvalidInput if X is a single one or none."""
        return self.images.many(X)

    def read(self, X: Sequence[object]) -> Tensor:
        """Return the features of images, float32 (n, features, 1, 1)."""
        parts = [X[start : start + AT_ONCE] for start in range(0, len(X), AT_ONCE)]
        return torch.cat([self.encode(self.images.read(part)) for part in parts])

    def shown(self, x: Tensor) -> NDArray[Any]:
        """Return the features of a sample as a vector: the image itself is not kept."""
        return x.flatten().numpy().copy()
