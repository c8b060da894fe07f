"""A row about seals and checks: what they add to a step, and to a run on digits."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import nn
from torch.optim import Optimizer

from earl.bench.measured import Measured, ratio_of
from earl.bench.subjects import CLASSES, arrivals, earl_midway, observing, on
from earl.bench.timing import Effort, Thing, take_turns
from earl.data.dataset import Split
from earl.evaluation.history import Evaluation, Reading
from earl.evaluation.loop import Exam
from earl.experiments.matching import random_images
from earl.experiments.runs.historyfile import HistoryFile
from earl.experiments.runs.seals import identity
from earl.learning.learner import Learner
from earl.nn.finite import all_finite, check_finite
from earl.nn.steps import forget_passes, is_sound, remember

DIGITS = (1, 16, 16)
QUESTIONS = 360  # of the exam
TARGET = 0.01
STEPS = 10  # that are made safe in one go
EVERY = 60  # samples between two evaluations, as in the recipe of digits
EVALUATIONS = 60  # that the history holds, more than a run on digits writes


def guards(effort: Effort) -> Iterator[Measured]:
    """Time what makes a step safe beside that step, then all that is checked and sealed in a run.

    It is timed alone: the difference of two runs would drown in their noise. In a run one snapshot
    is counted for each evaluation; runs save every half minute.
    """
    for case, learner, target in subjects(effort):
        times = take_turns({"guard": safe(learner), "step": observing(learner, 1)}, effort)
        yield ratio_of(f"{case}, a step", times, "guard", "step", target=target)
    experiment = on("digits")
    learner = earl_midway(experiment, DIGITS)
    record = {"experiment": experiment.as_dict(), "settings": experiment.values()}
    with tempfile.TemporaryDirectory() as folder:
        things = {
            "guards": guarding(learner, record, Path(folder)),
            "run": running(learner),
        }
        times = take_turns(things, effort)
    yield ratio_of("digits, from evaluation to evaluation", times, "guards", "run", target=TARGET)


def subjects(effort: Effort) -> Iterator[tuple[str, Learner, float]]:
    """Yield learners with names and targets; the one with the paper's network takes long."""
    if not effort.quick:
        yield "ResNet-18, 32 px, B = 16", earl_midway(on("cifar10")), TARGET
    yield "digits, 16 px, B = 16", earl_midway(on("digits"), DIGITS), TARGET


def safe(learner: Learner) -> Thing:
    """Return all that makes steps safe, and no more."""
    network, optimizer = learner.parts()["network"], learner.parts()["optimizer"]
    assert isinstance(network, nn.Module) and isinstance(optimizer, Optimizer)
    loss = torch.rand(())

    def guard() -> float:
        for _ in range(STEPS):
            remember(network)
            is_sound(loss, optimizer)
            forget_passes()
        return STEPS

    return guard


def running(learner: Learner) -> Thing:
    """Return what a run does from one evaluation to the next."""
    coming = arrivals(learner)
    exam = Exam(Split(*random_images(DIGITS, CLASSES, QUESTIONS)))

    def run() -> float:
        for _ in range(EVERY):
            x, y = next(coming)
            learner.predict(x)
            learner.observe(x, y)
        exam.grade(learner, torch.arange(QUESTIONS))
        return 1

    return run


def guarding(learner: Learner, record: Mapping[str, object], folder: Path) -> Thing:
    """Return all checks and seals among that, and no more."""
    few, many = torch.rand(1, CLASSES), torch.rand(QUESTIONS, CLASSES)
    safe_step = safe(learner)
    counts = {c: QUESTIONS // CLASSES for c in range(CLASSES)}
    history = HistoryFile(folder / "history.jsonl", b"")
    for n in range(1, EVALUATIONS + 1):
        costs: dict[str, Reading] = {**learner.costs()}
        history.append(Evaluation(n * EVERY, 0, counts, counts, n, n * EVERY, costs))

    def guard() -> float:
        for _ in range(EVERY):
            all_finite(few.amax(dim=1))
        for _ in range(EVERY // STEPS):
            safe_step()
        all_finite(many.amax(dim=1))
        check_finite(learner.parts())  # at the evaluation
        check_finite(learner.parts())  # at the snapshot
        history.seal()
        json.dumps(identity(record))
        return 1

    return guard
