"""300 classes for EARL with d = 8, one after the other: what old classes lose when the frame grows.

`python tests/more_classes.py` writes results/growing.json, of which `earl results` makes the table
in docs/methods/earl.md. Each class is a random picture of 8 pixels with noise, seen five times; the
network has one hidden layer. The control has from the beginning the 575 dimensions that the other
one ends with, so that it never grows.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import torch
from torch import Tensor, nn

from earl.data.sets import shapes
from earl.learning import Learner, Setting
from earl.methods.earl import EARL
from earl.nn import Augment, View, build
from earl.nn.etf import SimplexETF
from earl.randomness import Randomness
from earl.storage.files import replace_text

OUT = Path(__file__).resolve().parents[1] / "results" / "growing.json"
CLASSES, EACH, ASKED = 300, 5, 4  # samples and test images of a class
FIRST, LAST = 8, SimplexETF(8, 0).for_classes(CLASSES).d
GROWING = (9, 18, 36, 72, 144, 288)  # classes that are there when one comes that makes d = 8 grow
NEAR = 3  # arrivals before and after each of these, to compare with
SEEDS = (1, 2, 3, 4, 5)
T = {5: 2.776}  # Student's t, 97.5 %, by the number of seeds


@dataclass(frozen=True)
class Course:
    """How a learner fared: accuracy on all old classes before and after each arrival, in percent.

    `before[n]` and `after[n]` are about the first n classes, as the next one arrives.
    """

    before: dict[int, float]
    after: dict[int, float]
    end: float

    def loss(self, n: int) -> float:
        return self.before[n] - self.after[n]


def learner_of(d: int, seed: int) -> EARL:
    view = View((0.5, 0.5, 0.5), (0.3, 0.3, 0.3))
    augment = Augment(view=view, padding=0, flip=False, rand_augment=False)
    setting = Setting(
        image_shape=(3, 8, 8), view=view, augment=augment, seed=seed, lr=3e-3, memory_size=600
    )
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 256), nn.ReLU())
    backbone = build(lambda: network, Randomness(seed).at(0, "backbone"))
    return EARL(backbone, setting, d=d, hidden=0)


def course(d: int, seed: int, classes: int = CLASSES) -> Course:
    """Teach the classes one after the other, in an order that the seed decides."""
    data = shapes.load(classes=classes, train=EACH, test=ASKED)
    order = torch.randperm(classes, generator=Randomness(seed).at(0, "order")).tolist()
    watched = {n + k for n in GROWING for k in range(-NEAR, NEAR + 1)}
    learner, before, after = learner_of(d, seed), {}, {}
    for n, c in enumerate(order):
        test = torch.isin(data.test.labels, torch.tensor(order[:n]))
        asked = data.test.images[test.nonzero().flatten()], data.test.labels[test]
        if n in watched:
            before[n] = accuracy(learner, *asked)
        rows = (data.train.labels == c).nonzero().flatten()
        learner.observe(data.train.images[rows], data.train.labels[rows])
        if n in watched:
            after[n] = accuracy(learner, *asked)
    everything = torch.arange(len(data.test.labels))
    end = accuracy(learner, data.test.images[everything], data.test.labels)
    return Course(before, after, end)


def accuracy(learner: Learner, x: Tensor, y: Tensor) -> float:
    return 100 * float((learner.predict(x) == y).float().mean())


def interval(values: list[float]) -> tuple[float, float]:
    """Return the mean and half the width of its 95 % interval."""
    return mean(values), T[len(values)] * stdev(values) / math.sqrt(len(values))


def main() -> None:
    grown, fixed = both = [[course(d, seed) for seed in SEEDS] for d in (FIRST, LAST)]
    lines = []
    for n in GROWING:
        cells = [(percent(c.before[n] for c in some), change(n, some)) for some in both]
        lines.append([f"{n}", *cells[0], *cells[1]])
    ends = [percent(c.end for c in some) for some in both]
    lines.append([f"all {CLASSES}, at the end", ends[0], "", ends[1], ""])
    beyond, beside = interval(excess(grown, fixed)), interval(beside_others(grown))
    below = (
        f"Percent right of all old classes just before a class arrives at which d = {FIRST} grows, "
        "and the points by which that changes while the samples of the class are learned; means "
        f"over seeds {', '.join(map(str, SEEDS))}. A growth step costs {points(beyond)} points "
        f"more than the same arrival of the control, and {points(beside)} points more than the "
        f"{NEAR} arrivals before it and after it (mean over the steps, 95 % interval over the "
        "seeds)."
    )
    titles = ["old classes", f"d = {FIRST}, which grows", "change", f"d = {LAST}", "change"]
    record = {"titles": titles, "lines": lines, "below": below}
    replace_text(OUT, json.dumps(record, indent=1) + "\n")


def percent(values: Iterable[float]) -> str:
    return f"{mean(values):.1f}"


def change(n: int, some: list[Course]) -> str:
    return f"{-mean(one.loss(n) for one in some):+.1f}".replace("-", "−")


def points(of: tuple[float, float]) -> str:
    return f"{of[0]:.2f} ± {of[1]:.2f}".replace("-", "−")


def excess(grown: list[Course], fixed: list[Course]) -> list[float]:
    """Return for each seed what a growth step costs more than the same arrival of the control."""
    pairs = zip(grown, fixed, strict=True)
    return [mean(one.loss(n) - other.loss(n) for n in GROWING) for one, other in pairs]


def beside_others(grown: list[Course]) -> list[float]:
    """Return for each seed what a growth step costs more than the arrivals around it."""
    near = [k for k in range(-NEAR, NEAR + 1) if k]
    return [
        mean(one.loss(n) - mean(one.loss(n + k) for k in near) for n in GROWING) for one in grown
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
