"""A row about seals and checks: what they add to a run on digits."""

import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from earl.bench.measured import Measured, ratio_of
from earl.bench.subjects import CLASSES, arrivals, earl_midway, on
from earl.bench.timing import Effort, Thing, take_turns
from earl.data.dataset import Split
from earl.evaluation.history import Evaluation, Reading
from earl.evaluation.loop import Exam
from earl.experiments.matching import random_images
from earl.experiments.runs.historyfile import HistoryFile
from earl.experiments.runs.seals import identity
from earl.learning.learner import Learner
from earl.nn.finite import all_finite, check_finite

DIGITS = (1, 16, 16)
QUESTIONS = 360  # of the exam
EVERY = 60  # samples between two evaluations, as in the recipe of digits
EVALUATIONS = 60  # that the history holds, more than a run on digits writes


def guards(effort: Effort) -> Iterator[Measured]:
    """Time what is checked and sealed from one evaluation to the next, beside all that is done.

    It is timed alone: the difference of two runs would drown in their noise. One snapshot is
    counted for each evaluation; runs save every half minute.
    """
    experiment = on("digits")
    learner = earl_midway(experiment, DIGITS)
    record = {"experiment": experiment.as_dict(), "settings": experiment.values()}
    with tempfile.TemporaryDirectory() as folder:
        things = {
            "guards": guarding(learner, record, Path(folder)),
            "run": running(learner),
        }
        times = take_turns(things, effort)
    yield ratio_of("digits, from evaluation to evaluation", times, "guards", "run", target=0.01)


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
    loss = torch.rand((), requires_grad=True)
    counts = {c: QUESTIONS // CLASSES for c in range(CLASSES)}
    history = HistoryFile(folder / "history.jsonl", b"")
    for n in range(1, EVALUATIONS + 1):
        costs: dict[str, Reading] = {**learner.costs()}
        history.append(Evaluation(n * EVERY, 0, counts, counts, n, n * EVERY, costs))

    def guard() -> float:
        for _ in range(EVERY):
            all_finite(few.amax(dim=1))
            math.isfinite(loss.item())
        all_finite(many.amax(dim=1))
        check_finite(learner.parts())  # at the evaluation
        check_finite(learner.parts())  # at the snapshot
        history.seal()
        json.dumps(identity(record))
        return 1

    return guard
