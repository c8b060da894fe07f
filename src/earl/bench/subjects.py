"""Subjects: learners as runs have them, fed with noise, and the bare step beside them."""

import copy
from collections.abc import Iterator
from itertools import cycle

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.bench.timing import Thing, once
from earl.experiments.catalogue import METHODS
from earl.experiments.experiment import Experiment
from earl.experiments.learners import learner_without_data
from earl.experiments.matching import random_images, warmed_up
from earl.experiments.recipes import Value
from earl.learning.learner import Learner
from earl.methods.earl.earl import EARL
from earl.nn.build import build
from earl.nn.modes import eval_mode
from earl.randomness import Randomness

CIFAR = (3, 32, 32)
CLASSES = 10
MEMORY_FULL = 600  # samples, more than the memory of CIFAR-10's recipe holds
SAMPLES = 64  # different images; they are repeated


def on(dataset: str, method: str = "earl", **settings: Value) -> Experiment:
    """Return an experiment with a data set's recipe; its images are never needed."""
    return Experiment(method=method, dataset=dataset, stream="disjoint", settings=settings)


def narrow(width: int) -> Experiment:
    """Return EARL on CIFAR-10 with a network of this width and a projection in proportion."""
    return on("cifar10", width=width, d=64 * width, hidden=32 * width)


def midway(
    experiment: Experiment,
    shape: tuple[int, int, int] = CIFAR,
    classes: int = CLASSES,
    samples: int = MEMORY_FULL,
) -> Learner:
    """Return a learner in the middle of a stream: classes and a task seen, the memory full."""
    return warmed_up(experiment, shape, classes, tasks=2, at_least=samples)


def earl_midway(
    experiment: Experiment,
    shape: tuple[int, int, int] = CIFAR,
    classes: int = CLASSES,
    samples: int = MEMORY_FULL,
) -> EARL:
    """Return EARL as `midway` does, but quickly: its parts get the samples, nothing is trained."""
    learner = learner_without_data(experiment, shape, samples)
    assert isinstance(learner, EARL) and learner.prepare is not None
    x, y = random_images(shape, classes, samples)
    y = learner.classes.index(y)
    learner.residuals.extend(classes)
    learner.prepare.assign(classes)
    learner.memory.add(Randomness(0).at(0, "insert"), x=x, y=y)
    learner.frame.preparatory_vectors(
        learner.prepare.m.flatten()
    )  # vectors are made once, before this moment
    return learner


def tiny_earl(experiment: Experiment, shape: tuple[int, int, int]) -> Learner:
    """Return EARL on two convolutions: next to nothing but what the method itself costs."""
    setting = learner_without_data(experiment, shape, SAMPLES).setting
    backbone = build(lambda: two_convolutions(shape[0]), Randomness(1).at(0, "backbone"))
    return METHODS["earl"](backbone, setting, d=64, hidden=64)


def two_convolutions(channels: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, 2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def arrivals(learner: Learner, classes: int = CLASSES) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield samples of noise one by one, without end, in mixed order."""
    x, y = random_images(learner.setting.image_shape, classes, max(SAMPLES, classes))
    order = torch.randperm(len(y), generator=Randomness(0).at(0, "order"))
    return cycle(zip(x[order].split(1), y[order].split(1), strict=True))


def network_of(learner: Learner) -> nn.Module:
    network = learner.parts()["network"]
    assert isinstance(network, nn.Module)
    return network


def observing(learner: Learner, samples: int = 1, classes: int = CLASSES) -> Thing:
    """Return a function that lets a learner observe some samples, and returns how many."""
    coming = arrivals(learner, classes)

    def observe() -> float:
        for _ in range(samples):
            learner.observe(*next(coming))
        return samples

    return observe


def updating(learner: Learner) -> Thing:
    """Return a function that lets a learner observe until it has trained, and returns the FLOPs."""
    coming = arrivals(learner)

    def observe() -> float:
        updates, flops = learner.work.updates, learner.work.flops
        while learner.work.updates == updates:  # methods that wait train on a block at once
            learner.observe(*next(coming))
        return learner.work.flops - flops

    return observe


def bare_pass(network: nn.Module, x: Tensor) -> Thing:
    """Return a forward pass of images that are ready."""

    @once
    def forward() -> None:
        with eval_mode(network), torch.inference_mode():
            network(x)

    return forward


def bare_step(learner: Learner) -> Thing:
    """Return the bare step: forward, backward, fused Adam of a learner's network, a ready batch."""
    network = copy.deepcopy(network_of(learner)).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=learner.setting.lr, fused=True)
    generator = Randomness(0).at(0, "batch")
    x = torch.randn(learner.setting.batch_size, *learner.setting.image_shape, generator=generator)
    x = x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        target = torch.randn(network(x).shape, generator=generator)

    @once
    def step() -> None:
        optimizer.zero_grad()
        F.mse_loss(network(x), target).backward()
        optimizer.step()

    return step
