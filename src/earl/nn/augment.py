"""From stored bytes to network input (Supp.).

`View` is what a test image goes through, `Augment` what a training image goes through.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from earl.errors import InvalidInput, InvalidSetting
from earl.nn.randaugment import rand_augment
from earl.randomness import Shares, drawn


@dataclass(frozen=True)
class View:
    """Normalises stored images, channel by channel: (x / 255 - mean) / std, uint8 to float32."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not all(s > 0 for s in self.std):
            raise InvalidSetting(
                f"mean {self.mean} and std {self.std} need one value per channel, std above 0"
            )

    def check(self, x: Tensor) -> None:
        """Raise InvalidInput unless x is a batch of stored images, uint8 (B, C, H, W)."""
        if x.dtype != torch.uint8 or x.ndim != 4 or x.shape[1] != len(self.mean):
            raise InvalidInput(
                f"expected uint8 images (B, {len(self.mean)}, H, W), found {x.dtype} "
                f"{tuple(x.shape)}; mean and std need one value per channel of the images"
            )

    def __call__(self, x: Tensor) -> Tensor:
        self.check(x)
        mean, std = _on(x.device, self.mean, self.std)
        return (x / 255).sub_(mean).div_(std)


@lru_cache
def _on(device: torch.device, *values: tuple[float, ...]) -> tuple[Tensor, ...]:
    """Return numbers of every channel as tensors (C, 1, 1) on a device."""
    return tuple(torch.tensor(v).view(-1, 1, 1).to(device, non_blocking=True) for v in values)


def random_crop(x: Tensor, source: Generator | Shares, padding: int) -> Tensor:
    """Pad every image with zeros and cut out a window of the old size at a place of its own."""
    places = 2 * padding + 1
    corner = drawn(lambda n, g: torch.randint(places, (2, n), generator=g), len(x), source)
    cut = windows_one_by_one if x.device.type == "cpu" else windows_at_once
    return cut(F.pad(x, [padding] * 4), corner, *x.shape[2:])


def windows_at_once(x: Tensor, corner: Tensor, h: int, w: int) -> Tensor:
    """Return of each image the window of h x w with this upper left corner (2, B)."""
    top, left = corner.to(x.device, non_blocking=True)
    windows = x.unfold(2, h, 1).unfold(3, w, 1)  # (B, C, places, places, h, w)
    return windows[torch.arange(len(x), device=x.device), :, top, left]


def windows_one_by_one(x: Tensor, corner: Tensor, h: int, w: int) -> Tensor:
    """Return the same, on a CPU in less time: there a call of numpy costs next to nothing."""
    cut = np.empty((*x.shape[:2], h, w), np.uint8)
    for to, image, top, left in zip(cut, x.numpy(), *corner.tolist(), strict=True):
        to[:] = image[:, top : top + h, left : left + w]
    return torch.from_numpy(cut)


def random_flip(x: Tensor, source: Generator | Shares, p: float = 0.5) -> Tensor:
    """Mirror every image left to right with probability p, each by its own coin."""
    coins = drawn(lambda n, g: torch.rand(n, generator=g), len(x), source)
    heads = (coins.view(-1, 1, 1, 1) < p).to(x.device, non_blocking=True)
    return x ^ ((x ^ x.flip(3)) * heads)  # where() on bytes takes twice as long


@dataclass(frozen=True, kw_only=True)
class Augment:
    """Augments and normalises stored images: crop, flip, RandAugment, view; uint8 to float32."""

    view: View
    padding: int = 4
    flip: bool = True
    rand_augment: bool = True

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise InvalidSetting(f"padding is a number of pixels, 0 or more, not {self.padding}")

    def __call__(self, x: Tensor, source: Generator | Shares) -> Tensor:
        self.view.check(x)
        if self.padding:
            x = random_crop(x, source, self.padding)
        if self.flip:
            x = random_flip(x, source)
        if self.rand_augment:
            x = rand_augment(x, source)
        return self.view(x)


def augment_together(
    augment: Callable[[Tensor, Generator], Tensor], *batches: tuple[Tensor, Generator]
) -> tuple[Tensor, ...]:
    """Return augment(x, generator) of every batch; an `Augment` takes all at once: fewer calls."""
    if not isinstance(augment, Augment):
        return tuple(augment(x, generator) for x, generator in batches)
    shares = [(len(x), generator) for x, generator in batches]
    X = augment(torch.cat([x for x, _ in batches]), shares)
    return torch.split(X, [n for n, _ in shares])
