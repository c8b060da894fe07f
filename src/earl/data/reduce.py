"""Data sets made from others: with fewer images, with images held out for validation, rotated."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from earl.data.dataset import Dataset, Images, Split, batches
from earl.errors import InvalidSetting
from earl.randomness import Randomness

SEED = 0  # not the seed of the run: every run on a reduced set sees the same images


@dataclass(frozen=True)
class Chosen:
    """Some of the images, by their rows (n,)."""

    images: Images
    rows: Tensor

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self.rows), *self.images.shape[1:]))

    def __getitem__(self, index: Tensor) -> Tensor:
        return self.images[self.rows[index]]

    def batches(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield the images of each index tensor in turn."""
        return batches(self.images, (self.rows[index] for index in indices))


@dataclass(frozen=True)
class Rotated:
    """Images rotated anticlockwise by quarter turns."""

    images: Images
    quarters: int

    @property
    def shape(self) -> torch.Size:
        n, c, h, w = self.images.shape
        return torch.Size((n, c, w, h) if self.quarters % 2 else (n, c, h, w))

    def __getitem__(self, index: Tensor) -> Tensor:
        return self.images[index].rot90(self.quarters, (2, 3))

    def batches(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield the images of each index tensor in turn."""
        return (x.rot90(self.quarters, (2, 3)) for x in batches(self.images, indices))


def reduced(dataset: Dataset, *, limit: int = 0, per_class: int = 0) -> Dataset:
    """Keep at most `per_class` training images of each class, then at most `limit` in all.

    0 keeps all. The images are the first of one random order that depends on nothing but the size
    of the data set, so that a larger limit keeps what a smaller one kept. The test set stays whole.
    """
    for name, value in (("limit", limit), ("per_class", per_class)):
        if value < 0:
            raise InvalidSetting(f"{name} = {value} must be a number of images, or 0 for all")
    if not limit and not per_class:
        return dataset
    train = dataset.train
    order = torch.randperm(len(train), generator=Randomness(SEED).at(0, "reduce"))
    if per_class:
        order = order[ranks(train.labels[order]) < per_class]
    rows = (order[:limit] if limit else order).sort().values
    if len(train.labels[rows].unique()) < 2 <= len(train.labels.unique()):
        raise InvalidSetting(
            f"limit = {limit} leaves {len(rows)} of {len(train)} training images, of 1 class only; "
            "take more with --limit, or some of each class with --per-class"
        )
    return replace(dataset, train=choose(train, rows))


def with_smaller_exam(dataset: Dataset, per_class: int) -> Dataset:
    """Keep at most `per_class` test images of each class, always the same ones; 0 keeps all."""
    if per_class < 0:
        raise InvalidSetting(f"exam_per_class = {per_class} must be a number of images, or 0")
    if not per_class:
        return dataset
    test = dataset.test
    order = torch.randperm(len(test), generator=Randomness(SEED).at(0, "exam"))
    rows = order[ranks(test.labels[order]) < per_class].sort().values
    return replace(dataset, test=choose(test, rows))


def with_validation(dataset: Dataset, share: float) -> Dataset:
    """Put a share of the training images of each class in the place of the test images.

    So settings can be chosen without looking at the test images. The images that are held out are
    always the same ones and are never streamed. 0 leaves the data set as it is.
    """
    if not 0 <= share < 1:
        raise InvalidSetting(f"validation = {share} must be a share from 0 to below 1")
    if not share:
        return dataset
    train = dataset.train
    order = torch.randperm(len(train), generator=Randomness(SEED).at(0, "validation"))
    groups = strata(train)[order]
    held = ranks(groups) < (groups.bincount()[groups] * share).round()
    if held.all() or not held.any():
        raise InvalidSetting(
            f"validation = {share} of {len(train)} training images leaves "
            f"{'nothing to learn' if held.all() else 'no images to ask about'}"
        )
    asked, kept = order[held].sort().values, order[~held].sort().values
    note = f"exams ask about {len(asked)} training images that are held out, not test images"
    return replace(
        dataset,
        train=choose(train, kept),
        test=choose(train, asked),
        notes=(*dataset.notes, note),
    )


def strata(split: Split) -> Tensor:
    """Number the pairs of class and time bucket of each image, (N,)."""
    if split.domains is None:
        return split.labels
    return split.labels * (1 + int(split.domains.max())) + split.domains


def ranks(labels: Tensor) -> Tensor:
    """Return for each element how many of the same label come before it, (N,)."""
    rank = torch.empty_like(labels)
    for c in labels.unique():
        members = (labels == c).nonzero().flatten()
        rank[members] = torch.arange(len(members))
    return rank


def choose(split: Split, rows: Tensor) -> Split:
    """Return some rows (n,) of a split."""
    return Split(
        Chosen(split.images, rows),
        split.labels[rows],
        None if split.domains is None else split.domains[rows],
        None if split.names is None else tuple(split.names[row] for row in rows.tolist()),
    )


def rotated(dataset: Dataset, degrees: int) -> Dataset:
    """Turn every image of both splits anticlockwise by 0, 90, 180 or 270 degrees."""
    if degrees not in (0, 90, 180, 270):
        raise InvalidSetting(f"rotate = {degrees} must be 0, 90, 180 or 270 degrees")
    if not degrees:
        return dataset

    def turned(split: Split) -> Split:
        return replace(split, images=Rotated(split.images, degrees // 90))

    return replace(dataset, train=turned(dataset.train), test=turned(dataset.test))
