"""Shared by the tests of the methods: learners whose images can be recognised."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Generator, Tensor

from earl.data.dataset import Dataset
from earl.learning import Learner
from earl.nn import View
from small_networks import THREE_STAGES

Make = Callable[..., Learner]
Augmentation = Callable[[Tensor, Generator], Tensor]


@pytest.fixture
def plain(dataset: Dataset) -> Augmentation:
    """An augmentation that leaves images as they are, so that they can be recognised."""
    view = View(dataset.mean, dataset.std)
    return lambda x, generator: view(x)


@pytest.fixture
def rolled(dataset: Dataset) -> Augmentation:
    """An augmentation that can be repeated, given its generator: images roll by some pixels."""
    view = View(dataset.mean, dataset.std)

    def augment(x: Tensor, generator: Generator) -> Tensor:
        steps = torch.randint(1, 8, (len(x),), generator=generator).tolist()
        return view(torch.stack([image.roll(n, 2) for image, n in zip(x, steps, strict=True)]))

    return augment


@pytest.fixture
def remind(make: Make, plain: Augmentation) -> Make:
    """Makes a learner of this method, with images as they are; its maps have 4 x 4 places."""
    return partial(make, "remind", augment=plain, network=THREE_STAGES)


@pytest.fixture
def ncfscil(make: Make, plain: Augmentation) -> Make:
    """Makes a learner of this method, with images as they are."""
    return partial(make, "nc-fscil", augment=plain)


@pytest.fixture
def memo(make: Make, plain: Augmentation) -> Make:
    """Makes a learner of this method, with images as they are."""
    return partial(make, "memo", augment=plain)


@pytest.fixture
def oddl(make: Make, plain: Augmentation) -> Make:
    """Makes a learner of this method, with images as they are."""
    return partial(make, "oddl", augment=plain)


@pytest.fixture
def xder(make: Make, plain: Augmentation) -> Make:
    """Makes a learner of this method, with images as they are."""
    return partial(make, "x-der", augment=plain, future=5)
