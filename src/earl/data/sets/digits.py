"""Handwritten digits: real images that come with earl, so that nothing is downloaded."""

import gzip
from importlib.resources import files

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from earl.data.dataset import Dataset, Split
from earl.data.reduce import ranks
from earl.randomness import Randomness

TRAIN_PER_CLASS = 120  # 1 200 training images; the other 597 are the test set


def load(_: object = None) -> Dataset:
    """Return the 1 797 digits, enlarged from 8 to 16 pixels, 120 of each class for training."""
    ink, labels = read()
    grey = ink.float() * (255 / 16)
    large = F.interpolate(grey[:, None], size=(16, 16), mode="bilinear", align_corners=False)
    images = large.round().to(torch.uint8)
    train, test = split_per_class(labels, TRAIN_PER_CLASS)
    pixels = images[train].double() / 255
    return Dataset(
        name="digits",
        train=Split(images[train], labels[train]),
        test=Split(images[test], labels[test]),
        class_names=tuple(str(c) for c in range(10)),
        mean=(round(float(pixels.mean()), 4),),
        std=(round(float(pixels.std()), 4),),
    )


def read() -> tuple[Tensor, Tensor]:
    """Return how much ink from 0 to 16 is at each pixel, (1797, 8, 8), and the labels.

    Where they come from is told in digits.txt beside the file.
    """
    packed = files(__package__).joinpath("digits.csv.gz")
    with packed.open("rb") as file, gzip.open(file, "rt", encoding="ascii") as lines:
        rows = torch.from_numpy(np.loadtxt(lines, delimiter=",", dtype=np.int64))
    return rows[:, :-1].view(-1, 8, 8), rows[:, -1]


def split_per_class(labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the indices of `count` fixed random samples of every class, and of all others."""
    order = torch.randperm(len(labels), generator=Randomness(0).at(0, "digits"))
    rank = torch.empty_like(labels)
    rank[order] = ranks(labels[order])
    return (rank < count).nonzero().flatten(), (rank >= count).nonzero().flatten()
