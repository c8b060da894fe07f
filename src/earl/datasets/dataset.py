"""What a data set is: two splits of raw images, the names of the classes, how to normalise them."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from earl.errors import InvalidInput


class Images(Protocol):
    """Raw images that need not be in memory: a uint8 tensor is one, a list of files can be."""

    @property
    def shape(self) -> torch.Size:
        """(N, C, H, W)"""
        ...

    def __getitem__(self, index: Tensor, /) -> Tensor:
        """Return the images of the given indices (n,), uint8 (n, C, H, W)."""
        ...


@dataclass(frozen=True)
class Split:
    """Raw images, uint8 (N, C, H, W), their class ids, int64 (N,), perhaps their time buckets."""

    images: Images
    labels: Tensor
    domains: Tensor | None = None  # int64 (N,), counted from 0

    def __post_init__(self) -> None:
        shape = self.images.shape
        if len(shape) != 4 or (
            isinstance(self.images, Tensor) and self.images.dtype != torch.uint8
        ):
            raise InvalidInput(f"images must be uint8 of shape (N, C, H, W), not {tuple(shape)}")
        for name, values in (("labels", self.labels), ("domains", self.domains)):
            if values is not None and (values.dtype != torch.int64 or values.shape != shape[:1]):
                raise InvalidInput(
                    f"{shape[0]} images need int64 {name} of shape ({shape[0]},), not "
                    f"{values.dtype} of shape {tuple(values.shape)}"
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
        _, c, h, w = self.train.images.shape
        return c, h, w
