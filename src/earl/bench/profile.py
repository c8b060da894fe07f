"""The profile of a step: the share of its time that each part takes."""

import cProfile
import pstats
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from earl.bench.subjects import CIFAR, earl_midway, narrow, observing, on, tiny_earl
from earl.learning.learner import Learner

Function = tuple[str, int, str]  # its file, its line and its name

# What a step is made of: the name of a function and the file it is in, from the step's beginning.
PARTS: Mapping[str, tuple[str, str]] = {
    "check": ("learning/learner.py", "check"),
    "insert": ("learning/memory.py", "add"),
    "draw": ("learning/memory.py", "sample"),
    "augment": ("nn/augment.py", "augment_together"),
    "prepare": ("preparatory.py", "transform"),
    "forward": ("nn/modes.py", "train_forward"),
    "loss": ("etf.py", "dot_regression"),
    "backward": ("_tensor.py", "backward"),
    "Adam": ("adam.py", "step"),
    "zero grad": ("optimizer.py", "zero_grad"),
    "residuals": ("residuals.py", "push"),
    "count": ("work.py", "add"),
}
DRAWS = ("earl.py", "_preparatory"), ("preparatory.py", "images_of")  # that `prepare` begins with


@dataclass(frozen=True)
class Profile:
    """Milliseconds of a step by part; `rest` is what no part accounts for."""

    case: str
    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.parts.values())


def profiles() -> list[Profile]:
    """Return the profile of EARL's step with a large, a small and a tiny network."""
    return [
        profile("ResNet-18", earl_midway(on("cifar10")), 3),
        profile("width 16", earl_midway(narrow(16)), 30),
        profile("tiny", tiny_earl(on("cifar10"), CIFAR), 300),
    ]


def profile(case: str, learner: Learner, steps: int) -> Profile:
    """Return where the time of some steps goes; watching makes everything a little slower."""
    observing(learner, 5)()
    watch = cProfile.Profile(time.process_time)
    observe = observing(learner, steps)
    watch.runcall(observe)
    stats = pstats.Stats(watch)
    whole = cumulative(stats, "earl.py", "observe")
    parts = {name: cumulative(stats, *where) for name, where in PARTS.items()}
    parts["prepare"] += sum(cumulative(stats, *where) for where in DRAWS)
    parts["rest"] = whole - sum(parts.values())
    return Profile(case, {name: 1e3 * seconds / steps for name, seconds in parts.items()})


def cumulative(stats: pstats.Stats, file: str, name: str) -> float:
    """Return the seconds in a function and all it calls."""
    total = 0.0
    for (path, _, function), (*_, seconds, _) in entries(stats).items():
        if function == name and path.endswith(f"/{file}"):
            total += seconds
    return total


def entries(stats: pstats.Stats) -> "dict[Function, tuple[Any, ...]]":
    """Return what pstats keeps of every function; its seconds and callers come last."""
    return stats.stats  # type: ignore[attr-defined,no-any-return]
