"""What every learner does: it answers, refuses and continues from a state."""

import pytest
import torch
from torch import nn

from earl.errors import EarlError, InvalidInput, InvalidSetting
from earl.learning.classes import Classes
from earl.learning.learner import UNKNOWN, Learner
from earl.learning.passes import adam
from earl.learning.work import Pass, Work
from plain_setting import ids, setting

# ---- learner


class Tiny(Learner):
    """A linear classifier of four pixels that takes one step per batch."""

    def __init__(self, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.setting = setting(image_shape=(1, 2, 2))
        self.classes, self.work = Classes(capacity=5), Work(self.passes)
        self.network = nn.Linear(4, 5)
        with torch.no_grad():
            self.network.weight.copy_(torch.randn(5, 4, generator=g))
            self.network.bias.zero_()
        self.optimizer = adam(self.network.parameters(), 0.1)

    def observe(self, x, y):
        self.check(x, y)
        y = self.classes.index(y)
        self.optimizer.zero_grad()
        z = self.network(x.flatten(1) / 255)[:, : len(self.classes)]
        nn.functional.cross_entropy(z, y).backward()
        self.optimizer.step()
        self.work.add(images=len(x))

    def passes(self):
        return {"images": Pass(self.network, (4,))}

    def scores(self, x):
        with torch.no_grad():
            return self.network(x.flatten(1) / 255)[:, : len(self.classes)]

    def parts(self):
        return {
            "network": self.network,
            "optimizer": self.optimizer,
            "classes": self.classes,
            "work": self.work,
        }


def pictures(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(256, (n, 1, 2, 2), generator=g).byte()


def test_an_untaught_learner_answers_unknown():
    answer = Tiny().predict(pictures(3))
    assert answer.tolist() == [UNKNOWN] * 3 and answer.dtype == torch.int64 and UNKNOWN == -1


def test_predictions_are_the_ids_of_the_best_scores_even_when_all_are_negative():
    learner = Tiny()
    learner.classes.index(ids(40, 7, 9))
    with torch.no_grad():
        learner.network.bias.fill_(-100)
    x = pictures(20)
    scores = learner.scores(x)
    assert bool((scores < 0).all())
    best = [[40, 7, 9][row.index(max(row))] for row in scores.tolist()]
    assert learner.predict(x).tolist() == best


def test_prediction_refuses_what_is_no_batch_of_images():
    for learner in (Tiny(), taught()):
        with pytest.raises(InvalidInput):
            learner.predict(pictures(1)[0])


def taught():
    learner = Tiny()
    learner.observe(pictures(6), ids(3, 1, 3, 2, 1, 2))
    return learner


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (pictures(2), ids(1)),
        (pictures(2).float(), ids(1, 1)),
        (pictures(2), ids(1, -1)),
        (pictures(4), ids(10, 11, 12, 13)),  # six classes do not fit
    ],
)
def test_a_refused_batch_leaves_the_learner_as_it_was(x, y):
    learner = taught()
    before = learner.scores(pictures(5))
    with pytest.raises(EarlError):
        learner.observe(x, y)
    assert len(learner.classes) == 3 and learner.work.updates == 1
    assert torch.equal(learner.scores(pictures(5)), before)


def test_costs_are_the_work_done():
    costs = {"updates": 1, "images": 6, "forwards": 0, "flops": 6 * 80, "skipped_steps": 0}
    assert taught().costs() == costs


def test_boundaries_and_the_end_are_ignored_by_default():
    learner = taught()
    before = learner.scores(pictures(5))
    learner.end_task()
    learner.finish()
    assert torch.equal(learner.scores(pictures(5)), before)


@pytest.mark.parametrize("change", [lambda s: s.pop("work"), lambda s: s.update(more={})])
def test_the_state_of_another_method_does_not_load(change):
    state = taught().state_dict()
    change(state)
    learner = Tiny()
    with pytest.raises(InvalidSetting, match="another method or other settings"):
        learner.load_state_dict(state)
    assert len(learner.classes) == 0


def test_a_learner_loaded_from_anothers_state_continues_like_it_and_apart_from_it():
    old, new = taught(), Tiny(seed=1)
    new.load_state_dict(old.state_dict())
    x = pictures(9, seed=5)
    assert torch.equal(old.scores(x), new.scores(x))
    for learner in (old, new):  # one after the other: neither may feel the other's steps
        for step in range(3):
            learner.observe(pictures(4, seed=10 + step), ids(3, 1, 8, 2))
    assert torch.equal(old.scores(x), new.scores(x))
    assert old.costs() == new.costs()
