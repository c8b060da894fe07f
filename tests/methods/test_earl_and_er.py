"""EARL and ER against their papers: updates recomputed naively, and the details easy to lose."""

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from earl.data.dataset import Dataset, Split
from earl.data.streams import Schedule, Stream
from earl.errors import ClassCapacityError, InvalidSetting, UnknownName
from earl.evaluation.loop import Exam, learn_online
from earl.experiments.catalogue import METHOD_FACTS
from earl.learning.learner import Learner
from earl.learning.setting import Setting
from earl.methods.earl.earl import EARL
from earl.methods.earl.negatives import NEGATIVES
from earl.methods.er import ER
from earl.nn.augment import Augment, View
from earl.nn.modes import train_forward
from earl.randomness import Randomness
from earl.storage.state import digest, flatten

Make = Callable[..., Learner]


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Collects the images of every training pass."""
    inputs: list[Tensor] = []

    def forward(network: nn.Module, setting: Setting, x: Tensor) -> Tensor:
        inputs.append(x.detach().clone())
        return train_forward(network, x)

    for module in ("earl.earl", "er", "er_memory_only"):
        monkeypatch.setattr(f"earl.methods.{module}.forward", forward)
    return inputs


@pytest.fixture
def plain(dataset: Dataset) -> Callable[[Tensor, Generator], Tensor]:
    """An augmentation that leaves images as they are, so that they can be recognised."""
    view = View(dataset.mean, dataset.std)
    return lambda x, generator: view(x)


def observe(learner: Learner, dataset: Dataset, start: int, stop: int, step: int = 37) -> None:
    """Observe some samples; the step visits the classes in turn."""
    for i in range(start, stop):
        at = torch.tensor([i * step % len(dataset.train)])
        learner.observe(dataset.train.images[at], dataset.train.labels[at])


def one_adam_step(parameters: list[Tensor], loss: Tensor, lr: float) -> list[Tensor]:
    """Adam's first step: its corrected moments are g and g², so every entry moves by lr·sign."""
    gradients = torch.autograd.grad(loss, parameters)
    return [
        (p - lr * g / (g.square().sqrt() + 1e-8)).detach()
        for p, g in zip(parameters, gradients, strict=True)
    ]


def assert_parameters(module: nn.Module, expected: list[Tensor]) -> None:
    for p, e in zip(module.parameters(), expected, strict=True):
        torch.testing.assert_close(p.detach(), e, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("lam", [None, 0.7])  # λ = 1 unless told otherwise (Supp.)
@pytest.mark.parametrize("samples", [4, 2])  # as many real images as preparatory ones, and fewer
def test_an_update_of_earl_is_an_adam_step_on_equation_4(
    samples: int,
    lam: float | None,
    make: Make,
    dataset: Dataset,
    passed: list[Tensor],
    plain: Callable[..., Tensor],
) -> None:
    given = {} if lam is None else {"lam": lam}
    learner = make("earl", iterations=1 / samples, augment=plain, **given)
    assert isinstance(learner, EARL) and learner.prepare is not None
    observe(learner, dataset, 0, samples - 1)
    before = copy.deepcopy(learner.f)
    observe(learner, dataset, samples - 1, samples)  # the first update
    (images,) = passed
    assert len(images) == samples + 4  # what the memory has of B_r = 4, and B_p = 4

    x, y = learner.memory.take(torch.arange(samples), "x", "y")
    stored = learner.setting.view(x)
    W = learner.frame.etf.vectors(torch.arange(16)).float()  # (K, d)
    cosine = F.normalize(train_forward(before, images), dim=1) @ W.T  # (8, K)
    real, prepared = [], []
    for row, image in enumerate(images):
        for turn in range(4):
            back = torch.rot90(image, -turn, (-2, -1))
            found = [i for i in range(samples) if torch.allclose(stored[i], back)]
            if found and turn == 0:
                real.append(0.5 * (cosine[row, y[found[0]]] - 1) ** 2)
            elif found:
                target = learner.prepare.m[y[found[0]], turn - 1]
                assert target >= len(learner.classes)  # a vector of no seen class
                prepared.append(0.5 * (cosine[row, target] - 1) ** 2)
    assert len(real) == samples and len(prepared) == 4
    loss = torch.stack(real).mean() + (lam or 1) * torch.stack(prepared).mean()
    # Adam's first step knows signs alone; the gradients know how the two means are weighed.
    gradients = torch.autograd.grad(loss, list(before.parameters()), retain_graph=True)
    for p, gradient in zip(learner.f.parameters(), gradients, strict=True):
        torch.testing.assert_close(p.grad, gradient, atol=1e-5, rtol=1e-3)
    expected = one_adam_step(list(before.parameters()), loss, learner.setting.lr)
    assert_parameters(learner.f, expected)


@pytest.mark.parametrize("negative", ["rotation", "permutation", "cutmix"])  # noise is all its own
@pytest.mark.parametrize("count", ["inside", "on-top"])
def test_every_image_that_earl_trains_on_is_augmented_the_preparatory_ones_too(
    negative: str, count: str, make: Make, dataset: Dataset, passed: list[Tensor]
) -> None:
    view, far = View(dataset.mean, dataset.std), 100.0  # no image as it is stored comes near

    def marked(x: Tensor, generator: Generator) -> Tensor:
        return view(x) + far

    learner = make("earl", augment=marked, negative=negative, preparatory_count=count)
    observe(learner, dataset, 0, 12)
    assert any(len(images) > held for held, images in enumerate(passed, start=1))  # prepared ones
    for images in passed:
        assert bool((images > far / 2).all())


@pytest.mark.parametrize("negative", NEGATIVES)
@pytest.mark.parametrize("count", ["inside", "on-top"])
def test_augmenting_both_parts_of_a_batch_at_once_changes_no_bit(
    make: Make, dataset: Dataset, negative: str, count: str
) -> None:
    augment = Augment(view=View(dataset.mean, dataset.std), padding=2)
    digests = set()
    for one_by_one in (False, True):  # a function of another kind is called for each part
        given = (lambda x, generator: augment(x, generator)) if one_by_one else augment
        learner = make("earl", negative=negative, preparatory_count=count, augment=given)
        observe(learner, dataset, 0, 30)
        digests.add(digest(learner.state_dict()))
    assert len(digests) == 1


def test_a_learnable_classifier_is_trained_by_dot_regression_and_cross_entropy(
    make: Make, dataset: Dataset, passed: list[Tensor], plain: Callable[..., Tensor]
) -> None:
    learner = make("earl-learnable", iterations=0.25, preparatory=False, augment=plain)
    observe(learner, dataset, 0, 3)
    before, rows = copy.deepcopy(learner.f), learner.learned.weight.detach().clone()
    observe(learner, dataset, 3, 4)  # the first update
    (images,) = passed
    x, y = learner.memory.take(torch.arange(4), "x", "y")
    place = [
        next(i for i in range(4) if torch.allclose(learner.setting.view(x)[i], image))
        for image in images
    ]
    n, weight = len(learner.classes), rows.clone().requires_grad_()
    f = train_forward(before, images)
    losses = []
    for k, i in enumerate(place):
        cosine = torch.stack([F.cosine_similarity(f[k], weight[c], dim=0) for c in range(n)])
        own = cosine[y[i]]
        losses.append(0.5 * (own - 1) ** 2 - 10 * own + (10 * cosine).exp().sum().log())
    loss = torch.stack(losses).mean()
    expected = one_adam_step([*before.parameters(), weight], loss, learner.setting.lr)
    assert_parameters(learner.f, expected[:-1])
    torch.testing.assert_close(
        learner.learned.weight[:n].detach(), expected[-1][:n], atol=2e-5, rtol=0
    )
    assert torch.equal(learner.learned.weight[n:].detach(), rows[n:])  # of no class yet
    norms = learner.vectors().norm(dim=1)
    torch.testing.assert_close(norms, torch.ones(n))


def test_an_update_of_er_is_an_adam_step_on_the_cross_entropy_of_seen_classes(
    make: Make, dataset: Dataset, passed: list[Tensor], plain: Callable[..., Tensor]
) -> None:
    learner = make("er", iterations=0.125, augment=plain)
    assert isinstance(learner, ER)
    observe(learner, dataset, 0, 7)  # one block of four is in memory, three samples wait
    before = copy.deepcopy(learner.network)
    assert not passed
    observe(learner, dataset, 7, 8)
    (images,) = passed
    order = [i * 37 % len(dataset.train) for i in (4, 5, 6, 7, 0, 1, 2, 3)]
    raw = learner.setting.view(dataset.train.images[torch.tensor(order)])
    place = [next(i for i in range(8) if torch.allclose(raw[i], image)) for image in images]
    assert place[:4] == [0, 1, 2, 3] and sorted(place[4:]) == [4, 5, 6, 7]  # new ones, then memory
    labels = learner.classes.numbers(dataset.train.labels[torch.tensor(order)])[place]
    logits = train_forward(before, images)[:, : len(learner.classes)]
    loss = -torch.stack([logits[i].log_softmax(0)[c] for i, c in enumerate(labels)]).mean()
    parameters = list(before.parameters())
    expected = one_adam_step(parameters, loss, learner.setting.lr)
    assert_parameters(learner.network, expected)


def test_the_memory_part_of_a_waiting_block_is_drawn_anew_every_step(
    make: Make, dataset: Dataset, passed: list[Tensor], plain: Callable[..., Tensor]
) -> None:
    learner = make("er", iterations=3, augment=plain, memory_size=40)
    observe(learner, dataset, 0, 40)
    block = passed[-12:]  # 3 iterations times a block of four samples
    assert all(torch.equal(images[:4], block[0][:4]) for images in block)
    assert len({images[4:].numpy().tobytes() for images in block}) == 12


NEW_WEIGHTS = ("head",)  # replicas of one network are meant to begin with the same rows


@pytest.mark.parametrize("name", list(METHOD_FACTS))
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
    for half in (0, 30):
        observe(learner, dataset, half, half + 30)
        learner.end_task()
    learner.finish()
    used = Counter(key for key, g, fresh in handed if not torch.equal(g.get_state(), fresh))
    asked = {purpose.partition(" ")[0] for (_, purpose), _, _ in handed}
    assert {"insert", "draw", "augment"} <= asked and len(used) > 30
    assert [k for k, times in used.items() if times > 1 and k[1] not in NEW_WEIGHTS] == []


def test_random_insertions_into_earl_s_memory_let_no_old_sample_stay_for_ever(
    make: Make, dataset: Dataset
) -> None:
    """A sample of M = 8 stays with probability 7/8 each time: after 72 times, 1 in 15 000."""
    learner = make("earl", memory_size=8, iterations=0.01)
    assert isinstance(learner, EARL)
    x = torch.arange(80, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, *dataset.image_shape)
    learner.observe(x.contiguous(), torch.zeros(80, dtype=torch.int64))
    (held,) = learner.memory.take(torch.arange(8), "x")
    assert len(held[:, 0, 0, 0].unique()) == 8 and int(held.min()) >= 8


def test_earl_s_memory_is_balanced_unless_told_otherwise(make: Make, dataset: Dataset) -> None:
    """The paper's is greedy balanced: a class that comes three times as often has no more room."""
    learner = make("earl", memory_size=20, iterations=0.01)
    assert isinstance(learner, EARL)
    often = torch.arange(36)  # of class 0
    some = torch.cat([c * 40 + torch.arange(12) for c in (1, 2, 3)])
    order = torch.stack((often, some), dim=1).flatten()
    y = dataset.train.labels[order]
    assert y.bincount().tolist() == [36, 12, 12, 12]
    learner.observe(dataset.train.images[order], y)
    _, held = learner.memory.take(torch.arange(20), "x", "y")
    assert held.bincount().tolist() == [5, 5, 5, 5]


def test_a_batch_holds_no_sample_twice(
    make: Make, dataset: Dataset, passed: list[Tensor], plain: Callable[..., Tensor]
) -> None:
    for name in ("er", "er-memory-only", "vanilla-etf"):
        observe(make(name, augment=plain), dataset, 0, 30)
    assert all(len({i.numpy().tobytes() for i in images}) == len(images) for images in passed)


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


def test_on_top_adds_up_to_three_times_the_batch_and_counts_it(
    make: Make, dataset: Dataset, passed: list[Tensor]
) -> None:
    inside, on_top = make("earl"), make("earl", preparatory_count="on-top")
    observe(inside, dataset, 0, 40)
    assert all(len(images) == 8 for images in passed[8:])
    assert inside.work.images == sum(len(images) for images in passed)
    passed.clear()
    observe(on_top, dataset, 0, 40)
    # from the second update on: min(4, n) classes, B/n images of each in three forms
    assert all(len(images) == 8 + 4 * 2 * 3 for images in passed[-10:])
    assert on_top.work.images == sum(len(images) for images in passed)


def test_on_top_takes_each_image_of_a_class_at_most_once(
    make: Make, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = make("earl", preparatory_count="on-top", augment=lambda x, generator: x.float())
    same = dataset.train.labels == dataset.train.labels[0]
    for x, y in zip(dataset.train.images[same][:5].split(1), torch.zeros(5, 1).long(), strict=True):
        learner.observe(x, y)
    # the first update prepares nothing; n images are there at the n-th, each real and in 3 forms
    assert [len(images) for images in passed] == [1, *(n + 3 * n for n in range(2, 6))]
    assert all(len(images.unique(dim=0)) == len(images) for images in passed)


def pairs() -> Iterator[object]:
    """Yield every transformation with every policy; those with neither default are slow."""
    policies = ("greedy_balanced", "reservoir", "class_reservoir", "gdumb")
    for negative, policy in product(("rotation", "permutation", "cutmix", "noise"), policies):
        usual = negative == "rotation" or policy == "greedy_balanced"
        yield pytest.param(negative, policy, marks=() if usual else pytest.mark.slow)


@pytest.mark.parametrize(("negative", "policy"), list(pairs()))
def test_every_transformation_and_policy_learns(
    negative: str, policy: str, make: Make, dataset: Dataset
) -> None:
    learner = make("earl", negative=negative, policy=policy)
    observe(learner, dataset, 0, 120)
    right = learner.predict(dataset.test.images) == dataset.test.labels
    assert float(right.float().mean()) > 0.5  # twice chance; a reservoir drops most newcomers


def test_a_class_too_many_is_refused_and_changes_nothing(make: Make, dataset: Dataset) -> None:
    learner = make("earl", d=2, hidden=0)  # three vectors
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


@pytest.mark.parametrize("name", ["earl", "er"])
def test_a_label_does_not_influence_the_answer_about_its_own_sample(
    name: str, make: Make, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AOA asks before it learns: another label for a sample changes only the answers after it."""
    order, at = torch.arange(0, 160, 4), 21
    answers = []
    for label in (0, 3):
        labels = dataset.train.labels.clone()
        labels[order[at]] = label
        stream = Stream(Split(dataset.train.images, labels), Schedule(order))
        learner, scores = make(name), []
        predict = learner.predict
        monkeypatch.setattr(
            learner, "predict", lambda x, p=predict, s=scores: s.append(p(x)) or s[-1]
        )
        for _ in learn_online(learner, stream, Exam(dataset.test), every=1000):
            pass
        answers.append((scores[: at + 1], digest(learner.state_dict())))
    assert len(answers[0][0]) == at + 1 and answers[0][0] == answers[1][0]
    assert answers[0][1] != answers[1][1]  # the label did matter, later


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"k": 0}, InvalidSetting),
        ({"tau": 0.0}, InvalidSetting),
        ({"lam": -1.0}, InvalidSetting),
        ({"d": 0}, InvalidSetting),
        ({"hidden": -1}, InvalidSetting),
        ({"pairs_per_class": 0}, InvalidSetting),
        ({"negative": "rotated"}, UnknownName),
        ({"policy": "balanced"}, UnknownName),
        ({"residual_source": "training"}, UnknownName),
        ({"memory_size": 0}, InvalidSetting),
        ({"iterations": float("nan")}, InvalidSetting),
        ({"lr": 0.0}, InvalidSetting),
    ],
)
def test_impossible_settings_are_refused(
    given: dict[str, object], error: type[Exception], make: Make
) -> None:
    with pytest.raises(error):
        make("earl", **given)


def test_any_module_can_be_the_backbone(dataset: Dataset, make: Make) -> None:
    setting = make("er").setting
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(192, 24), nn.BatchNorm1d(24), nn.ReLU())
    learner = EARL(backbone, setting, d=7, hidden=0)
    observe(learner, dataset, 0, 10)  # a first batch of one sample does not trouble batch norm
    assert learner.features(dataset.test.images[:3]).shape == (3, 7)
    with pytest.raises(InvalidSetting, match="global pooling"):
        EARL(nn.Conv2d(3, 4, 3), setting)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("name", list(METHOD_FACTS))
def test_half_as_many_bits_in_networks_change_answers_a_little_and_what_is_kept_stays_precise(
    name: str, make: Make, dataset: Dataset
) -> None:
    order = torch.arange(160).view(4, 40).T.flatten()[:24]  # the classes by turns
    precise, coarse = (make(name, precision=p, lr=1e-4) for p in ("float32", "bfloat16"))
    for learner in (precise, coarse):
        for i in order.split(1):
            learner.observe(dataset.train.images[i], dataset.train.labels[i])
        learner.finish()
    right, scores = precise.scores(dataset.test.images), coarse.scores(dataset.test.images)
    assert scores.dtype == torch.float32 and not torch.equal(scores, right)
    assert (scores - right).abs().median() < 0.1 * right.std()
    kept = flatten(coarse.state_dict())[0].values()
    assert {t.dtype for t in kept if t.is_floating_point()} <= {torch.float32, torch.float64}
