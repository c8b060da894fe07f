"""Memory-only ER: trained from what is kept alone; with `begin` at the end of a stream, offline."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from contract_again import repeated, shorten_networks
from earl.data.dataset import Dataset
from earl.errors import InvalidSetting
from earl.evaluation.loop import learn_online
from earl.experiments.catalogue import METHODS
from earl.experiments.contract import CHECKS, maker
from earl.experiments.experiment import Experiment
from earl.experiments.sweeps.sweepfile import SweepFile, bundled
from earl.learning.learner import Learner
from earl.learning.setting import Setting
from earl.methods.er import ER
from earl.methods.er_memory_only import MemoryOnlyER
from earl.nn.build import build
from earl.nn.resnet import ResNet
from earl.randomness import Randomness
from small_networks import DIVIDED

Make = Callable[..., Learner]
CIFAR10 = 50_000  # training images
BEGIN = 8  # fewer than the samples of any check that counts updates


@pytest.mark.parametrize("check", repeated("updates_follow_the_iterations"))
def test_the_contract_holds_if_training_begins_later(
    check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that a saved learner goes on exactly, and that updates follow the FLOPs earned."""
    shorten_networks(monkeypatch)
    CHECKS[check](maker(METHODS["er-memory-only"], begin=BEGIN))


@pytest.mark.parametrize("iterations", [0.25, 1, 2.25])
def test_no_update_is_made_before_it_begins_and_none_is_lost(
    iterations: float, make: Make, dataset: Dataset
) -> None:
    learner = make("er-memory-only", iterations=iterations, begin=7)
    for n in range(1, 12):
        learner.observe(dataset.train.images[n - 1 : n], dataset.train.labels[n - 1 : n])
        assert learner.work.updates == (math.floor(iterations * n) if n >= 7 else 0)


class Counting:
    """An augmentation that counts how often each image was trained on, told by its first pixel."""

    def __init__(self, images: int) -> None:
        self.counts = np.zeros(images, dtype=int)

    def __call__(self, x: Tensor, generator: Generator) -> Tensor:
        np.add.at(self.counts, x[:, 0, 0, 0].numpy(), 1)
        return x.float() / 255


def times_trained_on(experiment: Experiment, images: int) -> np.ndarray:
    """Train on fewer images as an experiment would; return how often on each of them.

    The memory, the batch and the first update keep their proportion to the number of images.
    """
    values, count = experiment.values(), Counting(images)
    share = images / values["memory_size"]
    setting = Setting(
        image_shape=(1, 4, 4),
        view=lambda x: x.float() / 255,
        augment=count,
        memory_size=images,
        batch_size=8,
        iterations=values["iterations"] * values["batch_size"] / 8,
        samples=images,
    )
    backbone = build(lambda: ResNet(depth=8, width=1, channels=1), Randomness(1).at(0, "backbone"))
    learner = MemoryOnlyER(backbone, setting, begin=round(share * values["begin"]))
    x = torch.arange(images, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 4, 4)
    learner.observe(x, torch.arange(images) % 10)
    return count.counts


@pytest.mark.parametrize(
    ("name", "each"), [("transform_effect", 32), ("transform_effect-small", 16)]
)
def test_offline_training_sees_every_image_of_the_memory_about_equally_often(
    name: str, each: int
) -> None:
    """Chi-square within 5 s.d. of its mean, and none is seen seldom."""
    experiments = SweepFile.open(bundled()[name]).experiments
    for values in (experiment.values() for experiment in experiments):
        images = 10 * values["per_class"] or CIFAR10
        assert values["begin"] == values["memory_size"] == images
    counts, freedom = times_trained_on(experiments[0], 50), 49
    assert counts.mean() == each and counts.min() >= each / 3
    assert ((counts - each) ** 2 / each).sum() <= freedom + 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize(("begin", "wrong"), [(-1, "negative"), (41, "beyond the 40 samples")])
def test_a_beginning_that_never_comes_is_refused(begin: int, wrong: str, make: Make) -> None:
    with pytest.raises(InvalidSetting, match=f"begin = {begin} .*{wrong}"):
        make("er-memory-only", begin=begin, samples=40)


@pytest.mark.parametrize("match", ["flops", "bytes"])
def test_a_late_beginning_changes_nothing_in_an_equal_budget(match: str) -> None:
    settings = {"per_class": 10, "every": 40, "batch_size": 4, **DIVIDED}
    budgets, spent = [], []
    for begin in (0, 40):
        built = Experiment(
            method="er-memory-only",
            dataset="shapes",
            stream="iid",
            settings={**settings, "begin": begin},
            match=match,
            to="er",
        ).build()
        budgets.append(built.budget)
        if match == "flops":
            for _ in learn_online(built.learner, built.stream, built.exam, every=built.every):
                pass
        spent.append(built.learner.work.flops)
    assert budgets[0] == budgets[1]
    assert abs(spent[0] - spent[1]) <= built.learner.work.last


def test_with_the_policy_of_er_the_memory_follows_the_stream_as_that_of_er(
    make: Make, dataset: Dataset
) -> None:
    """So that nothing but training from memory alone is compared."""
    ours = make("er-memory-only", policy="reservoir", memory_size=12, iterations=0.1)
    er = make("er", memory_size=12, iterations=0.1)
    assert isinstance(ours, MemoryOnlyER) and isinstance(er, ER)
    assert ours.memory.policy is er.memory.policy
    (often,) = (dataset.train.labels == 0).nonzero(as_tuple=True)
    rows = torch.cat([often[:40], (dataset.train.labels == 1).nonzero()[:6, 0]])
    ours.observe(dataset.train.images[rows], dataset.train.labels[rows])
    assert ours.memory.counts[0] > 6  # a balanced one has six of each
