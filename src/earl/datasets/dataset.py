"""What a data set is: two splits of raw images, the names of the classes, how to normalise them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from earl.errors import InvalidInput


@dataclass(frozen=True)
class Split:
    """Raw images, uint8 (N, C, H, W), and their class ids, int64 (N,)."""

    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.dim() != 4:
            raise InvalidInput(
                f"images must be uint8 of shape (N, C, H, W), not {self.images.dtype} of shape "
                f"{tuple(self.images.shape)}"
            )
        if self.labels.dtype != torch.int64 or self.labels.shape != (len(self.images),):
            raise InvalidInput(
                f"{len(self.images)} images need int64 labels of shape ({len(self.images)},), not "
                f"{self.labels.dtype} of shape {tuple(self.labels.shape)}"
            )

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """A training and a test split with the same classes."""

    name: str
    train: Split
    test: Split
    class_names: tuple[str, ...]
    mean: tuple[float, ...]  # of the channels, for images scaled to 0..1
    std: tuple[float, ...]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(C, H, W)"""
        c, h, w = self.train.images.shape[1:]
        return c, h, w
