"""Matched comparisons: what a method's update costs, and settings that give equal budgets."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from earl.errors import InvalidSetting
from earl.experiments.experiment import Experiment
from earl.experiments.learners import Shape, learner_without_data
from earl.experiments.recipes import Value
from earl.learning.bytes_held import bytes_held
from earl.learning.learner import Learner
from earl.methods.earl.earl import EARL
from earl.randomness import Randomness

# Passes are counted on a network of the same depth that costs very little.
TINY: Mapping[str, Value] = {"width": 16}
TINY_LAYERS = ("hidden", "vae_hidden")  # sizes of layers, which have 16 numbers then, too
TINY_SIDE = 8  # pixels
UPDATES = 4  # updates on two images each; afterwards everything that training makes is there
CANDIDATES = 120  # the fewest samples in memory from which methods that choose can choose


@dataclass(frozen=True)
class Cost:
    """What a method costs in the middle of a stream: FLOPs of an update, bytes by name.

    For a method that corrects residuals also the FLOPs of an answer: forward pass and correction.
    """

    flops: float
    bytes: Mapping[str, int]
    forward: int = 0
    correction: int = 0

    @property
    def total_bytes(self) -> int:
        return sum(self.bytes.values())


def cost_of(experiment: Experiment, image_shape: Shape, classes: int, tasks: int = 2) -> Cost:
    """Return what an experiment's method costs on images of this shape, without any data.

    How many passes an update takes does not depend on the network, so they are counted on a tiny
    one; what a pass costs, and what is held, comes from the real one.
    """
    learner = warmed_up(experiment, image_shape, classes, tasks)
    passes = passes_per_update(experiment, image_shape[0], classes, tasks)
    flops = sum(n * learner.work.flops_per_input(name) for name, n in passes.items() if n)
    if not isinstance(learner, EARL):
        return Cost(flops, bytes_held(learner))
    answer = learner.work.flops_per_input("forwards"), learner.correction_flops()
    return Cost(flops, bytes_held(learner), *answer)


def passes_per_update(
    experiment: Experiment, channels: int, classes: int, tasks: int
) -> dict[str, float]:
    """Return how many passes of each name an update takes, once there is enough in memory."""
    side = 1 if experiment.embedded else TINY_SIDE
    shape = (channels, side, side)
    layers = {name: TINY["width"] for name in TINY_LAYERS if experiment.values().get(name)}
    tiny = replace(experiment, settings={**experiment.settings, **TINY, **layers})
    n = int(tiny.values()["batch_size"])
    learner = warmed_up(tiny, shape, classes, tasks, at_least=2 * n + CANDIDATES)
    x, y = random_images(shape, classes, n)
    before, updates = dict(learner.work.counts), learner.work.updates
    while learner.work.updates == updates:  # iterations may be a small part of one
        learner.observe(x, y)
    done = learner.work.updates - updates
    return {name: (n - before.get(name, 0)) / done for name, n in learner.work.counts.items()}


def warmed_up(
    experiment: Experiment,
    image_shape: Shape,
    classes: int,
    tasks: int,
    at_least: int = 0,
) -> Learner:
    """Return a learner that has seen every class and task; another has trained a little for it."""
    n = max(classes, int(experiment.values()["batch_size"]) + 2, at_least)
    x, y = random_images(image_shape, classes, n)
    changes: dict[str, Value] = {"batch_size": 2, "iterations": UPDATES / n}
    if "base" in experiment.options().names():
        changes["base"] = max(1, n // 2)  # a phase that every stream leaves behind
    if "begin" in experiment.options().names():
        changes["begin"] = 0  # likewise
    settings = {**experiment.settings, **changes}
    quick = learner_without_data(replace(experiment, settings=settings), image_shape, n)
    for task, part in enumerate(torch.arange(n).chunk(tasks)):
        if task:
            quick.end_task()
        quick.observe(x[part], y[part])
    quick.finish()
    settings.pop("batch_size"), settings.pop("iterations")
    settings |= {k: v for k, v in experiment.settings.items() if k in ("batch_size", "iterations")}
    learner = learner_without_data(replace(experiment, settings=settings), image_shape, n)
    learner.load_state_dict(quick.state_dict())
    return learner


def random_images(shape: Shape, classes: int, n: int) -> tuple[Tensor, Tensor]:
    """Return n images of noise, (n, C, H, W), and their labels (n,), the classes in turn."""
    generator = Randomness(0).at(0, "noise")
    x = torch.randint(256, (n, *shape), generator=generator, dtype=torch.uint8)
    x = x / 255 if shape[1:] == (1, 1) else x  # embeddings
    return x, torch.arange(n) * classes // n


def reference(experiment: Experiment) -> Experiment:
    """Return the experiment that another is matched to: the same, but with the method `to`."""
    other = replace(experiment, method=experiment.to, settings={}, match="", to="")
    options, mine = other.options(), experiment.options()
    shared = {
        name: value
        for name, value in experiment.settings.items()
        if mine.part(name) != "method" and name in options.names()
    }
    return replace(other, settings=shared)


def matched(experiment: Experiment, shape: Shape, classes: int, tasks: int) -> dict[str, float]:
    """Return the settings that give an experiment the budget of its reference, or none."""
    if not experiment.match:
        return {}
    other = reference(experiment)
    theirs = cost_of(other, shape, classes, tasks)
    if experiment.match == "flops":
        return {"flops": float(other.values()["iterations"]) * theirs.flops}
    return {"memory_size": memory_for(experiment, theirs, shape, classes, tasks)}


def memory_for(
    experiment: Experiment,
    theirs: Cost,
    shape: Shape,
    classes: int,
    tasks: int,
) -> int:
    """Return the number of samples with which a method holds as many bytes as its reference."""
    learner = warmed_up(experiment, shape, classes, tasks)
    mine = bytes_held(learner)
    M = learner.setting.memory_size
    image = learner.sample_bytes()
    rows = sum(
        mine.get(kind, 0) for kind in ("images", "codes", "features", "labels", "logits", "replays")
    )
    size = M + (theirs.total_bytes - sum(mine.values())) / max(rows / M, image)
    if size < 1:
        raise InvalidSetting(
            f"{experiment.method} holds {sum(mine.values()) - rows:,} bytes beside its samples, "
            f"and {experiment.to} with all its samples only {theirs.total_bytes:,}: nothing is "
            f"left for a memory. Match {experiment.to} to {experiment.method} instead, which "
            "gives it more samples, or make the network smaller"
        )
    return int(size)
