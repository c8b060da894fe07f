"""Streams: the order in which a training set arrives, each sample at most once."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from earl.data.dataset import Split, batches
from earl.errors import InvalidSetting


@dataclass(frozen=True)
class Schedule:
    """An order of arrival, and the steps after which a task is announced as over."""

    order: Tensor  # indices into the training split, each at most once
    boundaries: tuple[int, ...] = ()
    artificial: bool = False  # boundaries that coincide with no change of classes
    notes: tuple[str, ...] = ()  # what the user of this order should know

    def task(self, step: int) -> int:
        """Return the number of the task that the step-th sample (counted from 1) belongs to."""
        return sum(boundary < step for boundary in self.boundaries)


@dataclass(frozen=True)
class Stream:
    """Yields (x, y), one raw sample at a time: uint8 (1, C, H, W) and int64 (1,)."""

    split: Split
    schedule: Schedule

    def __len__(self) -> int:
        return len(self.schedule.order)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return self.since(0)

    def since(self, step: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the samples after the first `step` ones."""
        order = self.schedule.order
        images = batches(self.split.images, (order[p : p + 1] for p in range(step, len(self))))
        for place, image in enumerate(images, start=step):
            yield image, self.split.labels[order[place : place + 1]]


def without_boundaries(order: Tensor, tasks: int) -> Schedule:
    """Return an order with artificial boundaries at equal distances, one fewer than `tasks`."""
    check_tasks(tasks, len(order), "samples")
    step = len(order) / tasks
    boundaries = tuple(round(step * task) for task in range(1, tasks))
    return Schedule(order, boundaries=boundaries, artificial=True)


def images_by_class(labels: Tensor) -> dict[int, Tensor]:
    """Return the indices of the images of every class, in order."""
    classes, sizes = labels.unique(return_counts=True)
    groups = labels.argsort(stable=True).split(sizes.tolist())
    return dict(zip(classes.tolist(), groups, strict=True))


def classes_seen(labels: Tensor) -> Tensor:
    """Return how many classes have arrived after each sample of a stream, int64 (T,)."""
    _, numbers = labels.unique(return_inverse=True)
    steps = torch.arange(len(labels))
    first = torch.full((int(numbers.max()) + 1,), len(labels)).scatter_reduce(
        0, numbers, steps, reduce="amin"
    )
    return torch.isin(steps, first).cumsum(0)


def check_tasks(tasks: int, most: int, what: str) -> None:
    if not 1 <= tasks <= most:
        raise InvalidSetting(
            f"tasks = {tasks} must be from 1 to {most}, since the stream has {most} {what}; say so "
            "with --set tasks=N, or take more images where --limit or --per-class left few"
        )
