"""Rows about the training step: EARL's and other methods' beside the bare one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from earl.bench.measured import Measured, ratio_of
from earl.bench.subjects import (
    CIFAR,
    bare_step,
    earl_midway,
    midway,
    narrow,
    observing,
    on,
    tiny_earl,
    updating,
)
from earl.bench.timing import Effort, Times, take_turns
from earl.experiments.catalogue import METHODS
from earl.learning.learner import Learner

FAMILY = ("earl", "vanilla-etf", "earl-no-rc", "earl-no-pdt", "earl-learnable")
QUICKLY = ("er", "scr")  # the methods of a quick run
EMBEDDING = (1280, 1, 1)  # of EfficientNet-Lite0
ON_EMBEDDINGS = {"ncm": 2000.0, "slda": 2000.0, "ranpac": None, "knn": None, "earl": None}
STREAM = 200_000  # samples
BARE_STEPS = 4  # samples of a turn for methods that train on a block of samples at once
SAMPLES = 50  # samples of a turn if a step takes very little time


def step(effort: Effort) -> Iterator[Measured]:
    """Time EARL's step with the paper's network, ResNet-18, and CIFAR-10's settings."""
    times = beside_bare(earl_midway(on("cifar10")), effort)
    yield ratio_of("ResNet-18, 32 px, B = 16", times, "observe", "bare", target=1.05)


def small(effort: Effort) -> Iterator[Measured]:
    """Time EARL's step with the small networks that are used on CPUs."""
    for width in (16,) if effort.quick else (16, 20):
        times = beside_bare(earl_midway(narrow(width)), effort)
        case = f"width {width}, 32 px, B = 16"
        yield ratio_of(case, times, "observe", "bare", target=1.15)
    times = beside_bare(earl_midway(on("digits"), (1, 16, 16)), effort, samples=10)
    yield ratio_of("digits, 16 px, B = 16", times, "observe", "bare", target=1.3)


def tiny(effort: Effort) -> Iterator[Measured]:
    """Time what EARL's step costs beyond a network that costs next to nothing."""
    learner = tiny_earl(on("cifar10"), CIFAR)
    observing(learner, 100)()
    times = beside_bare(learner, effort, samples=10)
    yield Measured(
        case="observe − bare",
        value=1e3 * times.difference("observe", "bare"),
        unit="ms",
        target=4.0,
        times={name: 1e3 * times.median(name) for name in times.seconds},
    )
    more = times.ratio("observe", "bare").value - 1
    yield Measured(case="(observe − bare) ÷ bare", value=more, target=3.0)


def beside_bare(learner: Learner, effort: Effort, samples: int = 1) -> Times:
    """Time `observe` and the bare step of the same network by turns."""
    bare = bare_step(learner)

    def bare_steps() -> float:
        return sum(bare() for _ in range(samples))

    return take_turns({"observe": observing(learner, samples), "bare": bare_steps}, effort)


def methods(effort: Effort) -> Iterator[Measured]:
    """Time the updates of other methods beside what their FLOPs would cost at the bare pace."""
    er = midway(on("cifar10", "er", width=16))
    bare, flops = bare_step(er), er.setting.batch_size * er.work.flops_per_input("images")

    def bare_steps() -> float:
        return flops * sum(bare() for _ in range(BARE_STEPS))

    effort = replace(effort, seconds=effort.seconds / 2)  # there are many of them
    for name in QUICKLY if effort.quick else METHODS.names():
        if name in FAMILY:
            continue
        learner = midway(on("cifar10", name, width=16))
        if not learner.by_gradient:  # see `embeddings`
            continue
        times = take_turns({name: updating(learner), "bare": bare_steps}, effort)
        yield ratio_of(name, times, name, "bare", target=1.15, show=False)


def embeddings(effort: Effort) -> Iterator[Measured]:
    """Time how many embeddings a second are learned, one by one and without questions."""
    for name, least in ON_EMBEDDINGS.items():
        learner = midway(on("embeddings:none", name), EMBEDDING)
        times = take_turns({name: observing(learner, SAMPLES)}, effort)
        value = 1 / times.median(name)
        yield Measured(case=name, value=value, unit="samples/s", target=least, at_least=True)


def classes(effort: Effort) -> Iterator[Measured]:
    """Time EARL's step with 1 000 classes beside that with 10."""
    experiment = on("cifar10", d=4096, width=16, memory_size=1000)
    things = {
        f"{n} classes": observing(earl_midway(experiment, CIFAR, n, samples=1000), classes=n)
        for n in (10, 1000)
    }
    times = take_turns(things, effort)
    case = "1 000 classes ÷ 10, d = 4096, width 16"
    yield ratio_of(case, times, "1000 classes", "10 classes", target=1.05)


def stream(effort: Effort) -> Iterator[Measured]:
    """Time the end of a long stream beside its beginning, and see what memory has grown.

    One in ten samples is trained on. Begin and end would not meet on the clock, so a second learner
    has lived through the first hundredth only and takes turns with the one that has seen it all.
    """
    total = STREAM // 40 if effort.quick else STREAM
    young, old = (tiny_earl(on("shapes", iterations=0.1), (3, 8, 8)) for _ in range(2))
    for learner in (young, old):
        observing(learner, total // 100)()
    before = resident()
    observing(old, total - total // 100)()
    grown = resident() - before
    things = {"last": observing(old, SAMPLES), "first": observing(young, SAMPLES)}
    times = take_turns(things, effort)
    yield ratio_of(f"last ÷ first 1 % of {total:,}", times, "last", "first", target=1.05)
    if before:
        yield Measured(case="resident memory", value=grown / 1e6, unit="MB", target=10.0)


def resident() -> int:
    """Return the bytes that this process has in memory; 0 where the system does not say."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return 0
    from resource import getpagesize

    return int(statm.read_text(encoding="ascii").split()[1]) * getpagesize()
