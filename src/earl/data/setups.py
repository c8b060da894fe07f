"""Setups: seven ways to make a stream of a training set; each gives one order for each seed."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from earl.data.dataset import Split
from earl.data.streams import Schedule, check_tasks, images_by_class, without_boundaries
from earl.errors import InvalidSetting
from earl.randomness import Randomness


def disjoint(train: Split, *, seed: int, tasks: int = 5) -> Schedule:
    """Cut a random order of the classes into tasks; inside a task all samples are shuffled."""
    randomness = Randomness(seed)
    classes = shuffled_classes(train, randomness)
    check_tasks(tasks, len(classes), "classes")
    groups = classes.tensor_split(tasks)
    return one_after_another((torch.isin(train.labels, group) for group in groups), randomness)


def gaussian(train: Split, *, seed: int, sigma: float = 0.1, tasks: int = 5) -> Schedule:
    """Draw each sample's time of arrival from N(i/N, sigma), i the place of its class; then sort.

    The stream has no boundaries; methods that need some are told of artificial ones, at equal
    distances, as many as the disjoint stream with `tasks` tasks has.
    """
    order = gaussian_times(train, Randomness(seed), sigma).argsort(stable=True)
    return without_boundaries(order, tasks)


def periodic_gaussian(
    train: Split, *, seed: int, sigma: float = 0.1, periods: int = 4, tasks: int = 5
) -> Schedule:
    """Repeat the Gaussian schedule: classes come, go and come again, each time with new samples.

    A sample arrives at N(i/N, sigma) + U{0, ..., periods - 1}: each draws one period for itself, so
    none arrives twice. This is the periodic Gaussian stream of Koh et al., "Online Boundary-Free
    Continual Learning by Scheduled Data Prior" (ICLR 2023), with all classes from the first period.
    """
    if periods < 1:
        raise InvalidSetting(f"periods = {periods} must be at least 1")
    randomness = Randomness(seed)
    times = gaussian_times(train, randomness, sigma)
    period = torch.randint(periods, (len(train),), generator=randomness.at(0, "periods"))
    return without_boundaries((times + period).argsort(stable=True), tasks)


def iid(train: Split, *, seed: int, tasks: int = 5) -> Schedule:
    """Shuffle all samples: every class arrives all the time, which is the easiest stream."""
    order = torch.randperm(len(train), generator=Randomness(seed).at(0, "stream"))
    return without_boundaries(order, tasks)


def iblurry(
    train: Split, *, seed: int, disjoint: int = 50, blur: int = 10, tasks: int = 5
) -> Schedule:
    """Let `disjoint` % of the classes live in one task only and leak `blur` % of the others.

    i-Blurry-N-M of Koh et al., "Online Continual Learning on Class Incremental Blurry Task
    Configuration with Anytime Inference" (ICLR 2022): N % of the classes, and with them all their
    samples, are dealt out to the tasks; so are the other classes, but M % of the samples of each
    are dealt out evenly to the tasks that are not its own. Every sample arrives once.
    """
    for name, value in (("disjoint", disjoint), ("blur", blur)):
        if not 0 <= value <= 100:
            raise InvalidSetting(f"{name} = {value} must be a percentage from 0 to 100")
    randomness = Randomness(seed)
    classes = shuffled_classes(train, randomness)
    check_tasks(tasks, len(classes), "classes")
    pure = round(len(classes) * disjoint / 100)
    task, members_of = torch.empty(len(train), dtype=torch.int64), images_by_class(train.labels)
    for place, c in enumerate(classes.tolist()):
        members, home = members_of[c], place % tasks
        task[members] = home
        if place >= pure and tasks > 1:
            leaving = round(len(members) * blur / 100)
            shuffle = torch.randperm(len(members), generator=randomness.at(c, "blur"))
            away = 1 + (place + torch.arange(leaving)) % (tasks - 1)  # tasks to go on from home
            task[members[shuffle[:leaving]]] = (home + away) % tasks
    return one_after_another((task == t for t in range(tasks)), randomness)


def longtail(
    train: Split, *, seed: int, imbalance: float = 100.0, sigma: float = 0.1, tasks: int = 5
) -> Schedule:
    """Thin the Gaussian stream out until the largest class is `imbalance` times the smallest.

    Of the class in place j of a random order of K, n_max * imbalance^(-j/(K-1)) random samples
    stay, at least one and at most all it has (the profile of Cui et al., "Class-Balanced Loss Based
    on Effective Number of Samples", CVPR 2019); the others never arrive. The place in this order
    has nothing to do with the time of arrival.
    """
    if not 1 <= imbalance < math.inf:
        raise InvalidSetting(f"imbalance = {imbalance} must be a finite number from 1 up")
    randomness = Randomness(seed)
    classes = images_by_class(train.labels)
    ranks = torch.randperm(len(classes), generator=randomness.at(0, "sizes"))
    largest = max(map(len, classes.values()))
    kept = torch.zeros(len(train), dtype=torch.bool)
    for (c, members), rank in zip(classes.items(), ranks.tolist(), strict=True):
        most = largest * imbalance ** (-rank / max(1, len(classes) - 1))
        shuffle = torch.randperm(len(members), generator=randomness.at(c, "longtail"))
        kept[members[shuffle[: max(1, round(most))]]] = True
    order = gaussian_times(train, randomness, sigma).argsort(stable=True)
    return without_boundaries(order[kept[order]], tasks)


def clear(train: Split, *, seed: int, new_classes: int = 0) -> Schedule:
    """Go through the time buckets; the t-th holds the first t * new_classes classes, shuffled.

    The domain-class-incremental stream of EARL's experiments on CLEAR (Lin et al., NeurIPS 2021):
    in each bucket new classes join, and the old ones come back as they look by then. Samples of a
    class from before it joined never arrive. With 0, `new_classes` is the least number that lets
    every class join: 1 on CLEAR-10, 10 on CLEAR-100, whose eleventh bucket then adds none.
    """
    if train.domains is None:
        raise InvalidSetting(
            "the clear stream needs a time bucket for every image, and this data set has none; "
            "clear-10 and clear-100 have them"
        )
    randomness = Randomness(seed)
    classes, buckets = shuffled_classes(train, randomness), train.domains.unique()
    if not 0 <= new_classes <= len(classes):
        raise InvalidSetting(f"new_classes = {new_classes} must be from 0 to {len(classes)}")
    joining = new_classes or math.ceil(len(classes) / len(buckets))
    return one_after_another(
        (
            (train.domains == bucket) & torch.isin(train.labels, classes[: t * joining])
            for t, bucket in enumerate(buckets, start=1)
        ),
        randomness,
    )


def gaussian_times(train: Split, randomness: Randomness, sigma: float) -> Tensor:
    """Return a time of arrival for every sample, float64 (N,)."""
    if not 0 <= sigma < math.inf:
        raise InvalidSetting(f"sigma = {sigma} must be a finite number from 0 up")
    classes = shuffled_classes(train, randomness)
    mu = torch.empty(int(classes.max()) + 1, dtype=torch.float64)
    mu[classes] = torch.arange(len(classes), dtype=torch.float64) / len(classes)
    deviation = torch.randn(len(train), generator=randomness.at(0, "stream"), dtype=torch.float64)
    return mu[train.labels] + sigma * deviation


def one_after_another(parts: Iterable[Tensor], randomness: Randomness) -> Schedule:
    """Shuffle the parts, given as masks (N,), and join them; an empty part makes no boundary."""
    order = []
    for number, mask in enumerate(parts):
        members = mask.nonzero().flatten()
        shuffle = torch.randperm(len(members), generator=randomness.at(number, "stream"))
        order.append(members[shuffle])
    order = [part for part in order if len(part)]
    if not order:
        raise InvalidSetting("with these options the stream holds no sample")
    ends = torch.tensor([len(part) for part in order]).cumsum(0).tolist()
    return Schedule(torch.cat(order), boundaries=tuple(ends[:-1]))


def shuffled_classes(train: Split, randomness: Randomness) -> Tensor:
    """Return the class ids of a split in the order of this seed."""
    classes: Tensor = train.labels.unique()
    return classes[torch.randperm(len(classes), generator=randomness.at(0, "classes"))]
