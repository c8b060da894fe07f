"""The loop: ask, learn, and now and then sit the exam."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from earl.datasets.dataset import Split
from earl.errors import InvalidSetting
from earl.history import Evaluation
from earl.learner import Learner
from earl.streams import Stream

Probe = Callable[[Learner, Split, Tensor], dict[str, float]]
"""Measures a learner on test samples of seen classes, given by their indices."""


@dataclass(frozen=True)
class Moment:
    """Where a run stands after a sample: enough to go on from here, given the learner's state."""

    step: int = 0
    total: int = 0  # samples of the whole stream
    online_correct: int = 0
    evaluation: Evaluation | None = None


class Exam:
    """The test set, which learners never touch: it asks about the classes seen so far."""

    def __init__(self, test: Split, batch: int = 500) -> None:
        self.test = test
        self.batch = batch

    def questions(self, seen: Tensor) -> Tensor:
        """Return the indices of the test images of the seen classes."""
        return torch.isin(self.test.labels, seen).nonzero().flatten()

    def grade(self, learner: Learner, asked: Tensor) -> tuple[dict[int, int], dict[int, int]]:
        """Return the numbers of right answers and of questions by class id."""
        if not len(asked):
            return {}, {}
        y = self.test.labels[asked]
        answers = [learner.predict(self.test.images[part]) for part in asked.split(self.batch)]
        right = torch.cat(answers) == y
        ids = y.unique().tolist()
        of = {c: y == c for c in ids}
        return {c: int(right[of[c]].sum()) for c in ids}, {c: int(of[c].sum()) for c in ids}


def learn_online(
    learner: Learner,
    stream: Stream,
    exam: Exam,
    *,
    every: int,
    start: Moment | None = None,
    probes: Mapping[str, Probe] | None = None,
) -> Generator[Moment]:
    """Yield after every sample: predict it, learn it, and every `every` samples sit the exam.

    The last moment always holds an evaluation. To go on from a moment, pass it as `start` with a
    learner that has the state it had then.
    """
    if every < 1:
        raise InvalidSetting(f"every = {every} must be at least 1 sample")
    moment = start or Moment()
    schedule, T = stream.schedule, len(stream)
    hits = moment.online_correct
    for step, (x, y) in enumerate(stream.since(moment.step), start=moment.step + 1):
        hits += int((learner.predict(x) == y).sum())  # ask first
        learner.observe(x, y)  # then learn
        evaluation = None
        if step == T:
            learner.finish()
        if step % every == 0 or step == T:
            seen = stream.split.labels[schedule.order[:step]].unique()
            asked = exam.questions(seen)
            correct, total = exam.grade(learner, asked)
            extra = learner.costs()
            for probe in (probes or {}).values():
                extra |= probe(learner, exam.test, asked)
            evaluation = Evaluation(step, schedule.task(step), correct, total, hits, step, extra)
        if step in schedule.boundaries:
            learner.end_task()
        yield Moment(step, T, hits, evaluation)
