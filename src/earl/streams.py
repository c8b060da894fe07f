"""Streams: the order in which a training set arrives, each sample exactly once."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from earl.datasets.dataset import Split
from earl.errors import InvalidSetting
from earl.randomness import Randomness


@dataclass(frozen=True)
class Schedule:
    """An order of arrival, and the steps after which a task is announced as over."""

    order: Tensor  # indices into the training split, each at most once
    boundaries: tuple[int, ...] = ()
    artificial: bool = False  # boundaries that coincide with no change of classes

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
        for index in self.schedule.order[step:].split(1):
            yield self.split.images[index], self.split.labels[index]


def disjoint(train: Split, *, seed: int, tasks: int = 5) -> Schedule:
    """Cut a random order of the classes into tasks; inside a task all samples are shuffled."""
    randomness = Randomness(seed)
    classes = shuffled_classes(train, randomness)
    check_tasks(tasks, len(classes))
    order = []
    for task, group in enumerate(classes.tensor_split(tasks)):
        members = torch.isin(train.labels, group).nonzero().flatten()
        shuffle = torch.randperm(len(members), generator=randomness.at(task, "stream"))
        order.append(members[shuffle])
    ends = torch.tensor([len(part) for part in order]).cumsum(0).tolist()
    return Schedule(torch.cat(order), boundaries=tuple(ends[:-1]))


def gaussian(train: Split, *, seed: int, sigma: float = 0.1, tasks: int = 5) -> Schedule:
    """Draw each sample's time of arrival from N(i/N, sigma), i the place of its class; then sort.

    The stream has no boundaries; methods that need some are told of artificial ones, at equal
    distances, as many as the disjoint stream with `tasks` tasks has.
    """
    if not 0 <= sigma < float("inf"):
        raise InvalidSetting(f"sigma = {sigma} must be a finite number from 0 up")
    randomness = Randomness(seed)
    classes = shuffled_classes(train, randomness)
    check_tasks(tasks, len(train))
    mu = torch.empty(int(classes.max()) + 1, dtype=torch.float64)
    mu[classes] = torch.arange(len(classes), dtype=torch.float64) / len(classes)
    deviation = torch.randn(len(train), generator=randomness.at(0, "stream"), dtype=torch.float64)
    order = (mu[train.labels] + sigma * deviation).argsort(stable=True)
    step = len(train) / tasks
    boundaries = tuple(round(step * task) for task in range(1, tasks))
    return Schedule(order, boundaries=boundaries, artificial=True)


def shuffled_classes(train: Split, randomness: Randomness) -> Tensor:
    """Return the class ids of a split in the order of this seed."""
    classes: Tensor = train.labels.unique()
    return classes[torch.randperm(len(classes), generator=randomness.at(0, "classes"))]


def check_tasks(tasks: int, most: int) -> None:
    if not 1 <= tasks <= most:
        raise InvalidSetting(f"tasks = {tasks} must be from 1 to {most}")
