"""EARL and ER against their papers: updates recomputed naively, and the details easy to lose."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch
from torch import Generator, Tensor, nn

from earl.data.dataset import Dataset, Split
from earl.data.streams import Schedule, Stream
from earl.errors import ClassCapacityError, InvalidSetting
from earl.evaluation.loop import Exam, learn_online
from earl.learning.learner import Learner
from earl.methods.earl.earl import EARL
from earl.randomness import Randomness
from earl.storage.state import digest, flatten
from kin import CLOSED_FORM, every_method
from small_networks import THREE_STAGES
from teaching import observe

Make = Callable[..., Learner]

NEW_WEIGHTS = ("head",)  # replicas of one network are meant to begin with the same rows


@pytest.mark.parametrize("name", every_method(but=CLOSED_FORM))
def test_no_random_numbers_are_used_for_two_things(
    name: str, make: Make, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what is drawn says how it is augmented, or every insertion takes the same place."""
    handed: list[tuple[tuple[int, str], Generator, Tensor]] = []
    original = Randomness.at

    def at(self: Randomness, step: int, purpose: str) -> Generator:
        generator = original(self, step, purpose)
        handed.append(((step, purpose), generator, generator.get_state()))
        return generator

    monkeypatch.setattr(Randomness, "at", at)
    learner = make(name)
    for start, stop in ((0, 22), (22, 34)):
        observe(learner, dataset, start, stop)
        learner.end_task()
    learner.finish()
    used = Counter(key for key, g, fresh in handed if not torch.equal(g.get_state(), fresh))
    asked = {purpose.partition(" ")[0] for (_, purpose), _, _ in handed}
    assert {"insert", "draw", "augment"} <= asked and len(used) > 30
    assert [k for k, times in used.items() if times > 1 and k[1] not in NEW_WEIGHTS] == []


@pytest.mark.parametrize("name", ["earl", "er-memory-only"])
def test_the_memory_of_earl_and_of_its_control_is_balanced_unless_told_otherwise(
    name: str, make: Make, dataset: Dataset
) -> None:
    """The paper's is greedy balanced: a class that comes three times as often has no more room.

    A reservoir would follow the stream and drop newcomers.
    """
    learner = make(name, memory_size=20, iterations=0.01)
    often = torch.arange(36)  # of class 0
    some = torch.cat([c * 40 + torch.arange(12) for c in (1, 2, 3)])
    order = torch.stack((often, some), dim=1).flatten()
    y = dataset.train.labels[order]
    assert y.bincount().tolist() == [36, 12, 12, 12]
    learner.observe(dataset.train.images[order], y)
    x, held = learner.memory.take(torch.arange(20), "x", "y")
    assert held.bincount().tolist() == [5, 5, 5, 5]
    assert (x == dataset.train.images[order[-1]]).flatten(1).all(dim=1).any()


def test_only_real_samples_enter_the_rings_and_never_more_than_ten(
    make: Make, dataset: Dataset
) -> None:
    learner = make("earl")
    assert isinstance(learner, EARL)
    observe(learner, dataset, 0, 60)
    h, y = learner.residuals.pairs()
    assert len(h) == 10 * len(learner.classes) == len(learner.residuals)
    assert Counter(y.tolist()) == dict.fromkeys(range(4), 10)
    torch.testing.assert_close(h.norm(dim=1), torch.ones(len(h)))


def test_correction_moves_scores_by_the_residuals_of_the_nearest(
    make: Make, dataset: Dataset
) -> None:
    learner = make("earl", k=3, tau=0.5)
    assert isinstance(learner, EARL)
    observe(learner, dataset, 0, 25)
    x = dataset.test.images[::7]
    h, y = learner.residuals.pairs()
    W = learner.vectors()
    for f, scores in zip(learner.features(x), learner.scores(x), strict=True):
        distance = torch.stack([(f - row).norm() for row in h])
        near = distance.argsort()[:3]
        s = torch.exp(-distance[near] / 0.5)
        s /= s.sum()
        r = sum(s[j] * (W[y[i]] - h[i]) for j, i in enumerate(near))
        torch.testing.assert_close(scores, W @ (f + r), atol=1e-4, rtol=1e-4)


def test_refreshed_pairs_are_memory_images_as_the_network_sees_them_now(
    make: Make, dataset: Dataset
) -> None:
    learner = make("earl", residual_source="refresh", pairs_per_class=2, k=1, tau=0.01)
    assert isinstance(learner, EARL)
    observe(learner, dataset, 0, 30)
    assert len(learner.residuals) == 0  # training stores nothing
    assert learner.costs()["reencoded"] == 8
    rows = torch.tensor([learner.memory.rows_of(c)[0] for c in range(4)])
    x, y = learner.memory.take(rows, "x", "y")
    expected = learner.vectors()[y] @ learner.vectors().T  # its own residual: exactly on w_y
    torch.testing.assert_close(learner.scores(x), expected, atol=1e-4, rtol=1e-4)
    observe(learner, dataset, 30, 33)  # the network has moved, the pairs with it
    x, y = learner.memory.take(rows, "x", "y")
    kept = torch.tensor([r in learner.memory.rows_of(int(c))[:2] for r, c in zip(rows, y)])  # noqa: B905
    expected = learner.vectors()[y] @ learner.vectors().T
    torch.testing.assert_close(learner.scores(x)[kept], expected[kept], atol=1e-4, rtol=1e-4)


def pairs() -> Iterator[object]:
    """Yield every transformation with every policy; each comes once that is not slow."""
    policies = ("gdumb", "reservoir", "class_reservoir", "greedy_balanced")
    negatives = ("rotation", "permutation", "cutmix", "noise")
    for negative, policy in product(negatives, policies):
        first = negatives.index(negative) == policies.index(policy)
        yield pytest.param(negative, policy, marks=() if first else pytest.mark.slow)


@pytest.mark.parametrize(("negative", "policy"), list(pairs()))
def test_every_transformation_and_policy_learns(
    negative: str, policy: str, make: Make, dataset: Dataset
) -> None:
    learner = make("earl", negative=negative, policy=policy)
    observe(learner, dataset, 0, 80)
    right = learner.predict(dataset.test.images) == dataset.test.labels
    assert float(right.float().mean()) > 0.5  # twice chance; a reservoir drops most newcomers


def test_a_class_too_many_is_refused_and_changes_nothing(make: Make, dataset: Dataset) -> None:
    learner = make("earl", d=2, hidden=0, growth=False)  # three vectors
    x = dataset.train.images[:4]
    learner.observe(x[:2], torch.tensor([5, 9]))
    before = digest(learner.state_dict())
    with pytest.raises(ClassCapacityError, match="class 8 is new, but all 3"):
        learner.observe(x[:2], torch.tensor([7, 8]))
    assert digest(learner.state_dict()) == before
    learner.observe(x[2:3], torch.tensor([7]))  # the third still fits; nothing is left to prepare
    learner.observe(x[:3], torch.tensor([5, 9, 7]))
    assert set(learner.predict(x).tolist()) <= {5, 7, 9}
    assert torch.isfinite(learner.scores(x)).all()


def test_an_answer_may_have_a_negative_cosine(make: Make, dataset: Dataset) -> None:
    learner = make("vanilla-etf", hidden=0)
    assert isinstance(learner, EARL)
    observe(learner, dataset, 0, 30)
    x = dataset.test.images
    with torch.no_grad():
        away = -learner.vectors().sum(dim=0)  # from every class; features are never negative
        learner.f[1].linear.weight.copy_(away[:, None].expand_as(learner.f[1].linear.weight))
    assert float(learner.scores(x).max()) < 0
    assert set(learner.predict(x).tolist()) <= {0, 1, 2, 3}


def test_a_label_does_not_influence_the_answer_about_its_own_sample(
    make: Make, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AOA asks before it learns: another label for a sample changes only the answers after it."""
    order, at = torch.arange(0, 160, 4), 21
    answers = []
    for label in (0, 3):
        labels = dataset.train.labels.clone()
        labels[order[at]] = label
        stream = Stream(Split(dataset.train.images, labels), Schedule(order))
        learner, scores = make("earl"), []
        predict = learner.predict
        monkeypatch.setattr(
            learner, "predict", lambda x, p=predict, s=scores: s.append(p(x)) or s[-1]
        )
        for _ in learn_online(learner, stream, Exam(dataset.test), every=1000):
            pass
        answers.append((scores[: at + 1], digest(learner.state_dict())))
    assert len(answers[0][0]) == at + 1 and answers[0][0] == answers[1][0]
    assert answers[0][1] != answers[1][1]  # the label did matter, later


def test_any_module_can_be_the_backbone(dataset: Dataset, make: Make) -> None:
    setting = make("er").setting
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(192, 24), nn.BatchNorm1d(24), nn.ReLU())
    learner = EARL(backbone, setting, d=7, hidden=0)
    observe(learner, dataset, 0, 10)  # a first batch of one sample does not trouble batch norm
    assert learner.features(dataset.test.images[:3]).shape == (3, 7)
    with pytest.raises(InvalidSetting, match="global pooling"):
        EARL(nn.Conv2d(3, 4, 3), setting)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("name", every_method())
def test_half_as_many_bits_in_networks_change_answers_a_little_and_what_is_kept_stays_precise(
    name: str, make: Make, dataset: Dataset
) -> None:
    order = torch.arange(160).view(4, 40).T.flatten()[:12]  # the classes by turns
    shared = {"lr": 1e-4} | ({"network": THREE_STAGES} if name == "slda" else {})
    shared |= {"base": 8} if name in ("remind", "nc-fscil") else {}
    precise, coarse = (make(name, precision=p, **shared) for p in ("float32", "bfloat16"))
    for learner in (precise, coarse):
        for i in order.split(1):
            learner.observe(dataset.train.images[i], dataset.train.labels[i])
        learner.finish()
    right, scores = precise.scores(dataset.test.images), coarse.scores(dataset.test.images)
    assert scores.dtype == torch.float32 and not torch.equal(scores, right)
    assert (scores - right).abs().median() < 0.1 * right.std()
    kept = flatten(coarse.state_dict())[0].values()
    assert {t.dtype for t in kept if t.is_floating_point()} <= {torch.float32, torch.float64}
