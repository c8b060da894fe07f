"""Measuring images: the size that fits them, their mean and standard deviation."""

import contextlib

import torch

from earl.data import decode as images
from earl.data.dataset import Images
from earl.data.parts import EncodedPart
from earl.data.source import Listing
from earl.errors import BrokenImage

SAMPLE = 2000  # training images from which mean and std are computed


def mean_and_std(train: Images) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of the channels over a fixed sample of the images."""
    count = train.shape[0]
    step = max(1, count // SAMPLE)
    total = torch.zeros(2, 3, dtype=torch.float64)
    rows = torch.arange(0, count, step)
    for index in rows.split(16):
        x = train[index].double() / 255
        total += torch.stack([x.mean((2, 3)).sum(0), x.square().mean((2, 3)).sum(0)])
    mean, square = total / len(rows)
    std = (square - mean.square()).clamp(min=1e-6).sqrt()
    return [round(v, 4) for v in mean.tolist()], [round(v, 4) for v in std.tolist()]


def fitting_size(train: Listing) -> int:
    """Return the side for images of any size: 32, 64 or 224, by the median of a sample."""
    sides = []
    for part in train.parts[:: max(1, len(train.parts) // 20)]:
        if isinstance(part, EncodedPart):
            load = part.loader()
            for row in range(0, len(part), max(1, len(part) // 10)):
                with contextlib.suppress(BrokenImage):  # named later
                    sides.append(images.side(load(row)))
    median = sorted(sides)[len(sides) // 2] if sides else 32
    return 32 if median <= 48 else 64 if median <= 96 else 224
