"""What a data set is: two splits of raw images, names of the classes, mean and std of pixels."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from earl.errors import InvalidInput
from earl.storage.printable import titles


class Images(Protocol):
    """Raw images, in memory (a uint8 tensor) or not (a list of files, for example)."""

    @property
    def shape(self) -> torch.Size:
        """(N, C, H, W)"""
        ...

    def __getitem__(self, index: Tensor, /) -> Tensor:
        """Return the images of the given indices (n,), uint8 (n, C, H, W)."""
        ...


@runtime_checkable
class Prefetching(Images, Protocol):
    """Images that are worth fetching before their turn."""

    def batches(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield the images of each index tensor in turn."""
        ...


def batches(images: Images, indices: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield the images of each index tensor; those not in memory are fetched ahead."""
    if isinstance(images, Tensor) or not isinstance(images, Prefetching):
        return (images[index] for index in indices)
    return images.batches(indices)


@dataclass(frozen=True)
class Split:
    """Raw images, uint8 (N, C, H, W), their class ids, int64 (N,), perhaps their time buckets.

    A split made of files gives their names without folder and ending ("n01443537_0"): by them a
    stream file that names images finds them. Without names, images keep the order of the original
    files, so that the k-th of a class is the same image everywhere.
    """

    images: Images
    labels: Tensor
    domains: Tensor | None = None  # int64 (N,), counted from 0
    names: tuple[str, ...] | None = None  # N file names

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
        if self.names is not None and len(self.names) != shape[0]:
            raise InvalidInput(f"{shape[0]} images need as many names, not {len(self.names)}")

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
    source: str = ""  # where the images come from
    skipped: tuple[str, ...] = ()  # broken images that were left out, and why
    notes: tuple[str, ...] = ()  # what else the user should know
    words: tuple[str, ...] = ()  # what the names of the classes mean, such as "goldfish, Carassius"
    images_sha256: str = ""  # of all images as they were loaded, before any were chosen or rotated

    @property
    def titles(self) -> tuple[str, ...]:
        """The names of the classes for people: with their words, where there are any."""
        return titles(self.class_names, self.words)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(C, H, W)"""
        _, c, h, w = self.train.images.shape
        return c, h, w
