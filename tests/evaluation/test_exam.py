"""The exam on data with time buckets: pairs of class and bucket that have been seen."""

import pytest
import torch

from earl.data.dataset import Split
from earl.data.setups import clear
from earl.data.streams import Schedule, Stream
from earl.errors import InvalidInput
from earl.evaluation.loop import Exam, learn_online
from earl.evaluation.metrics import a_auc, a_auc_all, a_last, a_last_all


def split_of(labels, domains=None):
    """Images whose pixels tell class and bucket."""
    y = torch.tensor(labels)
    t = torch.zeros_like(y) if domains is None else torch.tensor(domains)
    images = torch.stack([y, t], dim=1).byte().view(-1, 2, 1, 1)
    return Split(images, y, None if domains is None else t)


class Nostalgic:
    """Is right about the first bucket only."""

    def predict(self, x):
        return torch.where(x[:, 1, 0, 0] == 0, x[:, 0, 0, 0].long(), -1)

    def observe(self, x, y): ...
    def end_task(self): ...
    def finish(self): ...
    def costs(self):
        return {"updates": 0}

    def parts(self):
        return {}


PAIRS = [(c, t) for c in range(3) for t in range(3)]
TEST = split_of([c for c, _ in PAIRS for _ in range(2)], [t for _, t in PAIRS for _ in range(2)])
TRAIN = split_of([c for c, _ in PAIRS for _ in range(4)], [t for _, t in PAIRS for _ in range(4)])


def test_only_seen_pairs_are_asked_about():
    exam = Exam(TEST)
    asked = exam.questions(torch.tensor([0, 0, 2]), torch.tensor([0, 1, 1]))
    found = set(zip(TEST.labels[asked].tolist(), TEST.domains[asked].tolist(), strict=True))
    assert found == {(0, 0), (0, 1), (2, 1)} and len(asked) == 6


def test_a_bucket_that_the_test_set_does_not_have_asks_nothing():
    assert len(Exam(TEST).questions(torch.tensor([1]), torch.tensor([9]))) == 0


def test_without_buckets_on_either_side_classes_are_asked_about():
    seen = torch.tensor([2, 2, 0])
    assert len(Exam(TEST).questions(seen)) == 12
    assert len(Exam(split_of([0, 1, 2])).questions(seen, torch.tensor([0, 1, 0]))) == 2


def test_the_headline_counts_seen_pairs_and_the_other_reading_is_beside_it():
    stream = Stream(TRAIN, clear(TRAIN, seed=1))
    moments = learn_online(Nostalgic(), stream, Exam(TEST), every=4)
    evaluations = [m.evaluation for m in moments if m.evaluation]
    for e in evaluations:
        seen = stream.schedule.order[: e.step]
        pairs = set(zip(TRAIN.labels[seen].tolist(), TRAIN.domains[seen].tolist(), strict=True))
        classes = {c for c, _ in pairs}
        assert e.total == {c: 2 * sum(k == c for k, _ in pairs) for c in classes}
        assert e.correct == {c: 2 * sum(pair == (c, 0) for pair in pairs) for c in classes}
        assert e.extra["accuracy_all_domains"] == pytest.approx(1 / 3)
    assert evaluations[0].accuracy == 1 and evaluations[-1].accuracy == pytest.approx(1 / 6)
    assert a_auc_all(evaluations) == a_last_all(evaluations) == pytest.approx(1 / 3)
    assert a_auc(evaluations) > a_auc_all(evaluations) > a_last(evaluations)


def test_each_test_image_is_asked_about_once_for_both_readings():
    asked = []

    class Counting(Nostalgic):
        def predict(self, x):
            asked.append(len(x))
            return super().predict(x)

    stream = Stream(TRAIN, Schedule(torch.arange(6)))
    for _ in learn_online(Counting(), stream, Exam(TEST), every=6):
        pass
    assert sum(asked) == 6 + 6  # the stream's samples, then all buckets of class 0


def test_a_boundary_is_announced_after_its_evaluation_and_the_end_before_the_last():
    """What is measured at a boundary is the learner that its task has left."""
    heard = []

    class Listening(Nostalgic):
        def predict(self, x):
            heard.append("ask")
            return super().predict(x)

        def observe(self, x, y):
            heard.append("learn")

        def end_task(self):
            heard.append("boundary")

        def finish(self):
            heard.append("end")

    stream = Stream(TRAIN, Schedule(torch.arange(5), boundaries=(2, 3)))
    exam = Exam(split_of([0, 1, 2]))
    for _ in learn_online(Listening(), stream, exam, every=2):
        heard.append("|")
    samples = " ".join(heard).split("|")
    assert [sample.split() for sample in samples] == [
        ["ask", "learn"],
        ["ask", "learn", "ask", "boundary"],  # the exam of step 2, then the boundary
        ["ask", "learn", "boundary"],
        ["ask", "learn", "ask"],
        ["ask", "learn", "end", "ask"],
        [],
    ]


@pytest.mark.parametrize("where", ["train", "test"])
def test_one_side_without_buckets_is_an_exam_about_classes(where):
    plain = split_of([0, 1, 2] * 4)
    train, test = (plain, TEST) if where == "train" else (TRAIN, plain)
    stream = Stream(train, Schedule(torch.arange(len(train))))
    *_, last = learn_online(Nostalgic(), stream, Exam(test), every=100)
    assert sum(last.evaluation.total.values()) == len(test)
    assert "accuracy_all_domains" not in last.evaluation.extra


def test_a_split_needs_a_name_for_every_image_or_none():
    images, labels = torch.zeros(2, 1, 1, 1, dtype=torch.uint8), torch.tensor([0, 1])
    assert Split(images, labels, names=("a", "b")).names == ("a", "b")
    with pytest.raises(InvalidInput, match="2 images need as many names, not 1"):
        Split(images, labels, names=("a",))
