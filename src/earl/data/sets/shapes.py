"""Synthetic patterns for tests: every class is a random picture, every sample a noisy copy."""

import torch
from torch import Tensor

from earl.data.dataset import Dataset, Split
from earl.randomness import Randomness


def load(
    _: object = None, *, classes: int = 4, train: int = 40, test: int = 20, size: int = 8
) -> Dataset:
    """Return `classes` separable classes of `size`-pixel RGB images."""
    generator = Randomness(0).at(0, "shapes")
    pictures = torch.rand(classes, 3, size, size, generator=generator)

    def split(each: int) -> Split:
        labels = torch.arange(classes).repeat_interleave(each)
        noise = torch.randn(len(labels), 3, size, size, generator=generator)
        return Split(to_raw(pictures[labels] + 0.15 * noise), labels)

    return Dataset(
        name="shapes",
        train=split(train),
        test=split(test),
        class_names=tuple(f"shape {c}" for c in range(classes)),
        mean=(0.5, 0.5, 0.5),
        std=(0.3, 0.3, 0.3),
    )


def to_raw(x: Tensor) -> Tensor:
    """Return images in 0..1 as uint8."""
    return (x.clamp(0, 1) * 255).round().to(torch.uint8)
