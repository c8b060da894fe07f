"""The loop: ask, learn, and now and then sit the exam."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from earl.data.dataset import Split, batches
from earl.data.streams import Stream
from earl.errors import InvalidSetting, NotFinite
from earl.evaluation.history import Evaluation, Reading
from earl.learning.bytes_held import bytes_held
from earl.learning.learner import Learner
from earl.nn.finite import check_finite
from earl.nn.ranks import ALONE, Alone


@dataclass(frozen=True)
class ProbeInput:
    """A learner at an evaluation, and all that a probe may look at."""

    learner: Learner
    step: int  # samples learned
    test: Split
    asked: Tensor  # indices of the test images of what was seen so far
    train: Split
    seen: Tensor  # indices of the training images that have arrived, in that order
    coming: Tensor  # indices of those that have not


Probe = Callable[[ProbeInput], dict[str, Reading]]
"""Measures a learner, and changes nothing in it."""


@dataclass(frozen=True)
class Moment:
    """Where a run stands after a sample: enough to go on from here, given the learner's state."""

    step: int = 0
    total: int = 0  # samples of the whole stream
    online_correct: int = 0
    evaluation: Evaluation | None = None


class Exam:
    """The test set, which learners never touch: it asks about what was seen so far.

    Where several ranks learn together each of them asks its own learner about a share.
    """

    def __init__(self, test: Split, batch: int = 500, ranks: Alone = ALONE) -> None:
        self.test = test
        self.batch = batch
        self.ranks = ranks

    def questions(self, labels: Tensor, domains: Tensor | None = None) -> Tensor:
        """Return the indices of the test images of the seen classes.

        Given the time buckets of the seen samples too, and if the test images have theirs, only
        those of the seen pairs of class and bucket. Both name what was seen, once or many times.
        """
        if domains is None or self.test.domains is None:
            return torch.isin(self.test.labels, labels.unique()).nonzero().flatten()
        width = 1 + int(torch.cat([domains, self.test.domains]).max())
        pairs = self.test.labels * width + self.test.domains
        return torch.isin(pairs, (labels * width + domains).unique()).nonzero().flatten()

    def grade(self, learner: Learner, asked: Tensor) -> tuple[dict[int, int], dict[int, int]]:
        """Return the numbers of right answers and of questions by class id."""
        if not len(asked):
            return {}, {}
        y = self.test.labels[asked]
        right = torch.zeros(len(y), dtype=torch.int64)  # beforehand, or memory falls to pieces
        parts = torch.arange(len(y)).split(self.batch)
        shares = (part.tensor_split(self.ranks.size)[self.ranks.rank] for part in parts)
        parts = tuple(share for share in shares if len(share))
        questions = batches(self.test.images, [asked[part] for part in parts])
        for part, x in zip(parts, questions, strict=True):
            right[part] = (learner.predict(x) == y[part]).long()
        right = self.ranks.total(right)
        ids = y.unique().tolist()
        of = {c: y == c for c in ids}
        return {c: int(right[of[c]].sum()) for c in ids}, {c: int(of[c].sum()) for c in ids}


def networks_of(learner: Learner) -> list[nn.Module]:
    return [part for part in learner.parts().values() if isinstance(part, nn.Module)]


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
        evaluation = None
        with naming_the_step(step):
            hits += int((learner.predict(x) == y).sum())  # ask first
            learner.observe(x, y)  # then learn
            if step == T:
                learner.finish()
            if step % every == 0 or step == T:
                correct, total, extra = examine(learner, stream, exam, step, probes or {})
                task = schedule.task(step)
                evaluation = Evaluation(step, task, correct, total, hits, step, extra)
            if step in schedule.boundaries:
                learner.end_task()
        yield Moment(step, T, hits, evaluation)


@contextmanager
def naming_the_step(step: int) -> Iterator[None]:
    """Within this context an error about numbers that are not finite names the step."""
    try:
        yield
    except NotFinite as error:
        raise type(error)(f"at step {step}: {error}") from error


def examine(
    learner: Learner, stream: Stream, exam: Exam, step: int, probes: Mapping[str, Probe]
) -> tuple[dict[int, int], dict[int, int], dict[str, Reading]]:
    """Return right answers and questions by class id, and the costs and probes, after `step`.

    Where stream and test images have time buckets, the counts are over the seen pairs of class and
    bucket; `accuracy_all_domains` adds the images of the seen classes from all other buckets.
    """
    check_finite(learner.parts())
    seen = stream.schedule.order[:step]
    labels, domains = stream.split.labels[seen], stream.split.domains
    asked = exam.questions(labels, None if domains is None else domains[seen])
    exam.ranks.check_equal(networks_of(learner))
    correct, total = exam.grade(learner, asked)
    extra: dict[str, Reading] = {**learner.costs(), "bytes": sum(bytes_held(learner).values())}
    if domains is not None and exam.test.domains is not None:
        every = exam.questions(labels)
        right, others = exam.grade(learner, every[~torch.isin(every, asked)])
        hits = sum(correct.values()) + sum(right.values())
        extra["accuracy_all_domains"] = hits / max(1, sum(total.values()) + sum(others.values()))
    coming = stream.schedule.order[step:]
    given = ProbeInput(learner, step, exam.test, asked, stream.split, seen, coming)
    for probe in probes.values():
        extra |= probe(given)
    return correct, total, extra
