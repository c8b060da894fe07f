"""Rows about the parts: augmentation, exam, residual correction, memory, bytes, and the peak."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from earl.bench.measured import Measured, ratio_of
from earl.bench.subjects import (
    CIFAR,
    CLASSES,
    arrivals,
    bare_pass,
    bare_step,
    earl_midway,
    midway,
    narrow,
    network_of,
    on,
)
from earl.bench.timing import Effort, Thing, once, take_turns
from earl.data.dataset import Split
from earl.evaluation.loop import Exam
from earl.experiments.learners import learner_without_data
from earl.experiments.matching import random_images
from earl.learning.memory import Memory
from earl.learning.policies import greedy_balanced
from earl.methods.earl.earl import EARL
from earl.methods.earl.residuals import ResidualMemory
from earl.randomness import Randomness

REPEATS = 200  # repetitions of what takes microseconds


def augment(effort: Effort) -> Iterator[Measured]:
    """Time the augmentation of a batch beside the bare step of ResNet-18."""
    learner = learner_without_data(on("cifar10"), CIFAR, 1)
    setting, randomness = learner.setting, Randomness(0)
    x, _ = random_images(setting.image_shape, CLASSES, setting.batch_size)

    def batches() -> float:
        for t in range(10):
            setting.augment(x, randomness.at(t, "augment"))
        return 10

    times = take_turns({"augment": batches, "bare": bare_step(learner)}, effort)
    yield ratio_of("B = 16 ÷ bare step, ResNet-18", times, "augment", "bare", target=0.02)


def exam(effort: Effort) -> Iterator[Measured]:
    """Time the exam beside a forward pass of the same images, prepared, in one large batch."""
    cases = {16: 200} if effort.quick else {16: 1000, 64: 250}
    for width, n in cases.items():
        learner = midway(narrow(width))
        x, y = random_images(CIFAR, CLASSES, n)
        ready = (x / 255).to(memory_format=torch.channels_last)
        things = {
            "exam": once(partial(Exam(Split(x, y)).grade, learner, torch.arange(n))),
            "forward": bare_pass(network_of(learner), ready),
        }
        times = take_turns(things, effort)
        case = f"÷ forward, {n:,} images, width {width}"
        yield ratio_of(f"exam {case}", times, "exam", "forward", target=1.10)


def correction(effort: Effort) -> Iterator[Measured]:
    """Time residual correction beside answers without it: N = 2 000 pairs, k = 15.

    What it adds is timed alone: the difference of two long answers would drown in their noise.
    """
    shape, classes = (3, 224, 224), 200
    experiment = on("imagenet-200", d=4096, k=15)
    learner = earl_midway(experiment, shape, classes, samples=classes)
    y = torch.arange(classes).repeat_interleave(10)
    features = torch.randn(len(y), 4096, generator=Randomness(0).at(0, "features"))
    learner.residuals.push(F.normalize(features, dim=1), y)
    for batch in (1,) if effort.quick else (1, 64):
        x, _ = random_images(shape, 1, batch)
        without, correction = answering(learner, x)
        times = take_turns({"correction": correction, "without": without}, effort)
        more = times.ratio("correction", "without")
        yield Measured(
            case=f"ResNet-18, 224 px, batch {batch}",
            value=1 + more.value,
            target=1.02,
            spread=(1 + more.low, 1 + more.high),
            times={name: 1e3 * times.median(name) for name in times.seconds},
        )


def answering(learner: EARL, x: Tensor) -> tuple[Thing, Thing]:
    """Return a function that answers about images x uncorrected, and one that corrects."""
    f_hat = learner.features(x)
    learner.correction = False
    return once(lambda: learner.predict(x)), once(lambda: learner.corrected(f_hat))


def short(effort: Effort) -> Iterator[Measured]:
    """Time answers while one of 500 classes is a pair short, beside answers when none is."""
    classes, d = 500, 4096
    learner = earl_midway(on("cifar100", d=d, width=16), CIFAR, classes, samples=classes)
    x, _ = random_images(CIFAR, 1, 1)
    things = {"full": asking(learner, x, d), "short": asking(learner, x, d, missing=1)}
    times = take_turns(things, effort)
    case = f"a pair short ÷ full, {classes} classes, d = {d}"
    yield ratio_of(case, times, "short", "full", target=1.1)


def asking(learner: EARL, x: Tensor, d: int, missing: int = 0) -> Thing:
    """Return a function that asks about images x; some of ten pairs per class may be missing."""
    store = ResidualMemory(10, d)
    store.extend(len(learner.classes))
    y = torch.arange(len(learner.classes)).repeat_interleave(10)[missing:]
    features = torch.randn(len(y), d, generator=Randomness(0).at(0, "features"))
    store.push(F.normalize(features, dim=1), y)

    @once
    def ask() -> None:
        learner.residuals = store
        learner.predict(x)

    return ask


def memory(effort: Effort) -> Iterator[Measured]:
    """Time an insert and a draw of 16 in small and large memories, of few and many classes."""
    sizes = [(1000, 10), (1000, 1000), (100_000, 10), (100_000, 1000)]
    named = {f"{n:,} images, {c:,} classes": remembering(n, c) for n, c in sizes}
    times = take_turns(named, effort)
    for case in named:
        yield Measured(case=case, value=1e6 * times.median(case), unit="µs", target=50.0)
    first, *_, last = named
    yield ratio_of("largest ÷ smallest", times, last, first, target=1.2, show=False)


def remembering(n: int, classes: int) -> Thing:
    """Return a function that inserts into a full memory of n images and draws 16, repeatedly."""
    store, randomness = Memory(n, greedy_balanced), Randomness(0)
    y = torch.arange(n) % classes
    counts = torch.bincount(y)
    store.load_state_dict(
        {
            "columns": {"x": torch.zeros(n, *CIFAR, dtype=torch.uint8), "y": y},
            "rows": y.argsort(stable=True),
            "counts": counts,
            "seen_of": counts,
            "seen": n,
        }
    )
    x_new, _ = random_images(CIFAR, 1, 1)
    labels = (torch.arange(REPEATS) % classes).split(1)

    def insert_and_draw() -> float:
        for t in range(REPEATS):
            store.add(randomness.at(store.seen, "insert"), x=x_new, y=labels[t])
            store.sample(16, "x", "y", generator=randomness.at(t, "draw"))
        return REPEATS

    return insert_and_draw


def held(effort: Effort) -> Iterator[Measured]:
    """Weigh the ETF and the residual store of 100 classes, and the largest tensor ever made."""
    d, classes = 4096, 100
    experiment = on("shapes", d=d, hidden=64)
    learner = learner_without_data(experiment, (3, 8, 8), classes)
    assert isinstance(learner, EARL) and learner.prepare is not None
    coming = arrivals(learner, classes)
    with LargestTensor() as seen:
        for _ in range(classes):
            learner.observe(*next(coming))
        learner.predict(next(coming)[0])
        targets = learner.prepare.m.flatten()
        learner.frame.preparatory_vectors(targets)  # every vector that may be a target
    size = (learner.frame.nbytes() + learner.residuals.nbytes()) / 1e6
    yield Measured(
        case="ETF + residuals, 100 classes, d = 4096", value=size, unit="MB", target=25.0
    )
    yield Measured(case="largest tensor ÷ (d × K)", value=seen.numbers / (d * (d + 1)), target=0.5)


class LargestTensor(TorchDispatchMode):
    """A context that records the size of the largest tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, tuple | list) else (out,):
            if isinstance(value, Tensor):
                self.numbers = max(self.numbers, value.untyped_storage().nbytes() // 4)
        return out


def peak(effort: Effort) -> Iterator[Measured]:
    """Compare the pace of the bare step with that of a large matrix product, in FLOPs a second."""
    n = 1024
    a, b = torch.randn(2, n, n, generator=Randomness(0).at(0, "matrices"))

    def multiply() -> float:
        for _ in range(5):
            a @ b
        return 5 * 2 * n**3

    for width in (16,) if effort.quick else (16, 64):
        learner = learner_without_data(narrow(width), CIFAR, 1)
        bare = bare_step(learner)
        flops = learner.setting.batch_size * learner.work.flops_per_input("images")
        things: dict[str, Thing] = {
            "product": multiply,
            "bare": lambda bare=bare, flops=flops: bare() * flops,  # type: ignore[misc]
        }
        times = take_turns(things, effort)
        ratio = times.ratio("product", "bare")
        yield Measured(
            case=f"bare step, width {width} ÷ matrix product",
            value=ratio.value,
            spread=(ratio.low, ratio.high),
        )
        pace = 1e-9 / times.median("product")
        yield Measured(case=f"matrix product beside width {width}", value=pace, unit="GFLOP/s")
