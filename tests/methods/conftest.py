"""Shared by the tests of the methods: learners whose images can be recognised."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Generator, Tensor, nn

from earl.data.dataset import Dataset
from earl.learning import Learner, Setting
from earl.nn import View
from earl.nn.modes import train_forward
from small_networks import THREE_STAGES
from teaching import training_passes

Make = Callable[..., Learner]
Augmentation = Callable[[Tensor, Generator], Tensor]
TRAINED = ("er", "er_mir", "er_memory_only", "derpp", "ewc", "memo", "polrs", "scr", "xder")
TRAINED += ("earl.earl", "frozen.nc_fscil", "frozen.remind")


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Collects what every training pass is given: images, or maps behind a front."""
    return training_passes(monkeypatch, *TRAINED)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor]]:
    """Collects the images and the logits of every training pass of DER++ and X-DER."""
    seen: list[tuple[Tensor, Tensor]] = []

    def forward(network: nn.Module, setting: Setting, x: Tensor) -> Tensor:
        z = train_forward(network, x)
        seen.append((x.detach().clone(), z.detach().clone()))
        return z

    for module in ("derpp", "xder"):
        monkeypatch.setattr(f"earl.methods.{module}.forward", forward)
    return seen


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


@pytest.fixture
def mir(make: Make, plain: Augmentation) -> Make:
    """Makes a learner of this method, with images as they are."""
    return partial(make, "er-mir", augment=plain)


@pytest.fixture
def ewc(make: Make, plain: Augmentation) -> Make:
    """Makes a learner of this method, with images as they are."""
    return partial(make, "ewc", augment=plain)


@pytest.fixture
def derpp(make: Make, plain: Augmentation) -> Make:
    """Makes a learner of this method, with images as they are."""
    return partial(make, "der++", augment=plain)


@pytest.fixture
def scr(make: Make, plain: Augmentation) -> Make:
    """Makes a learner of this method, with images as they are."""
    return partial(make, "scr", augment=plain, head_width=6)


@pytest.fixture
def polrs(make: Make, plain: Augmentation) -> Make:
    """Makes a learner of this method, with images as they are."""
    return partial(make, "polrs", augment=plain)
