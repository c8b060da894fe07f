"""SCR against its paper: an update and an answer recomputed naively, and what must not happen."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from earl.data.dataset import Dataset
from earl.learning.setting import Setting
from earl.methods.scr import NO_MEAN, SCR
from earl.nn.augment import View
from earl.nn.contrastive_augment import contrast_augment
from earl.nn.modes import train_forward
from earl.storage.state import digest
from teaching import observe

Scr = Callable[..., SCR]


def loss_by_loops(z: Tensor, y: Tensor, temperature: float) -> Tensor:
    """The printed loss over all views, from scalars; PyTorch differentiates it."""
    total = torch.zeros(())
    for i in range(len(z)):
        others = [a for a in range(len(z)) if a != i]
        below = torch.stack([torch.exp(z[i] @ z[a] / temperature) for a in others]).sum()
        positive = [p for p in others if y[p] == y[i]]
        for p in positive:
            total = total - (torch.exp(z[i] @ z[p] / temperature) / below).log() / len(positive)
    return total / len(z)


def test_an_update_is_an_adam_step_on_the_contrastive_loss_of_two_views(
    scr: Scr, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = scr(iterations=0.125, temperature=0.3)
    observe(learner, dataset, 0, 7)  # one block of four is in memory, three samples wait
    before = copy.deepcopy(learner.network)
    assert not passed
    observe(learner, dataset, 7, 8)
    (images,) = passed
    assert len(images) == 16 == learner.work.images  # both views count
    order = torch.tensor([i * 37 % len(dataset.train) for i in (4, 5, 6, 7, 0, 1, 2, 3)])
    raw = learner.setting.view(dataset.train.images[order])
    place = [next(i for i in range(8) if torch.allclose(raw[i], image)) for image in images[:8]]
    assert place[:4] == [0, 1, 2, 3] and sorted(place[4:]) == [4, 5, 6, 7]  # new ones, then memory
    second = contrast_augment(
        dataset.train.images[order][place], learner.randomness.at(0, "contrast")
    )
    torch.testing.assert_close(images[8:], learner.setting.view(second))

    labels = dataset.train.labels[order][place].repeat(2)
    f = train_forward(before, images)
    z = f / f.norm(dim=1, keepdim=True)
    parameters = list(before.parameters())
    gradients = torch.autograd.grad(loss_by_loops(z, labels, 0.3), parameters)
    moved = large = 0
    for p, g, after in zip(parameters, gradients, learner.network.parameters(), strict=True):
        # Adam's first step is lr·g/(|g| + 1e-8): lr·sign, wherever g is not itself a rounding error
        sure = g.abs() > 1e-5
        expected = p - learner.setting.lr * g / (g.abs() + 1e-8)
        torch.testing.assert_close(after[sure], expected[sure], atol=2e-5, rtol=1e-4)
        moved, large = moved + p.numel(), large + int(sure.sum())
    assert large > 0.8 * moved


@pytest.mark.parametrize("smallest", [0.05, 1.0])
@pytest.mark.parametrize("mirror", [True, False])
def test_the_second_view_is_cropped_and_mirrored_as_the_settings_say(
    smallest: float, mirror: bool, scr: Scr, dataset: Dataset
) -> None:
    learner = scr(smallest_crop=smallest, mirror=mirror)
    x = dataset.train.images[:40]
    first, second = learner._views(x, 3).chunk(2)
    assert torch.equal(first, learner.setting.view(x))

    def strong(**other: object) -> Tensor:
        given = {"smallest": smallest, "mirror": mirror, **other}
        return learner.setting.view(
            contrast_augment(x, learner.randomness.at(3, "contrast"), **given)
        )

    assert torch.equal(second, strong())
    assert not torch.equal(second, strong(smallest=0.2))  # the default
    assert not torch.equal(second, strong(mirror=not mirror))


def test_a_class_mean_is_the_direction_of_the_mean_of_normalised_backbone_features(
    scr: Scr, dataset: Dataset
) -> None:
    learner = scr()
    observe(learner, dataset, 0, 34)
    x, y = learner.memory.take(torch.arange(len(learner.memory)), "x", "y")
    backbone = copy.deepcopy(learner.network[0]).eval()
    with torch.no_grad():
        h = [backbone(learner.setting.view(image[None]))[0] for image in x]
        asked = [backbone(learner.setting.view(i[None]))[0] for i in dataset.test.images[:9]]
    for c in range(4):
        own = [f / f.norm() for f, label in zip(h, y.tolist(), strict=True) if label == c]
        mu = torch.stack(own).mean(dim=0)
        mu = mu / mu.norm()
        torch.testing.assert_close(learner.vectors()[c], mu, atol=1e-4, rtol=1e-4)
        cosines = torch.stack([mu @ f / f.norm() for f in asked])
        found = learner.scores(dataset.test.images[:9])[:, c]
        torch.testing.assert_close(found, cosines, atol=1e-4, rtol=1e-4)


def test_the_projection_head_has_no_part_in_an_answer(scr: Scr, dataset: Dataset) -> None:
    learner = scr()
    observe(learner, dataset, 0, 30)
    before = learner.scores(dataset.test.images)
    other = scr()
    other.load_state_dict(learner.state_dict())
    for p in other.network[1].parameters():
        p.data.fill_(float("nan"))
    assert torch.equal(other.scores(dataset.test.images), before)
    sizes = [p.shape for p in other.network[1].parameters() if p.dim() == 2]
    assert sizes == [(16, 16), (6, 16)]  # size -> size -> head_width


def test_a_class_that_left_the_memory_has_no_mean_and_is_never_the_answer(
    scr: Scr, dataset: Dataset
) -> None:
    learner = scr(memory_size=1)
    observe(learner, dataset, 0, 40)
    held = learner.memory.classes_held().tolist()
    assert len(learner.classes) == 4 and len(held) == 1
    scores = learner.scores(dataset.test.images)
    gone = [c for c in range(4) if c not in held]
    assert (scores[:, gone] == NO_MEAN).all() and not learner.vectors()[gone].any()
    assert set(scores.argmax(dim=1).tolist()) == set(held)
    assert torch.isfinite(scores).all() and float(scores[:, held].min()) > NO_MEAN


def test_a_class_has_a_mean_from_its_first_sample_on(scr: Scr, dataset: Dataset) -> None:
    learner = scr()
    x, y = dataset.train.images, dataset.train.labels
    first = [int((y == c).nonzero()[0, 0]) for c in range(4)]
    for seen, i in enumerate(first[:3], start=1):
        learner.observe(x[i : i + 1], y[i : i + 1])
        own = learner.features(x[torch.tensor(first[:seen])])
        torch.testing.assert_close(learner.vectors(), own, atol=1e-5, rtol=1e-4)
    assert len(learner.memory) == 0  # all three still wait


def test_a_waiting_sample_counts_only_while_its_class_is_not_in_memory(
    scr: Scr, dataset: Dataset
) -> None:
    learner = scr()
    observe(learner, dataset, 0, 8)
    before = learner.vectors()
    known = int(learner.memory.classes_held()[0])
    i = int((learner.classes.numbers(dataset.train.labels) == known).nonzero()[-1, 0])
    learner.observe(dataset.train.images[i : i + 1], dataset.train.labels[i : i + 1])
    assert len(learner.waiting) == 1 and torch.equal(learner.vectors(), before)
    learner.observe(dataset.train.images[i : i + 1], torch.tensor([9]))  # a class never seen
    expected = learner.features(dataset.train.images[i : i + 1])
    torch.testing.assert_close(learner.vectors()[-1:], expected, atol=1e-5, rtol=1e-4)
    assert torch.equal(learner.vectors()[:-1], before)


def test_means_are_encoded_once_per_change_and_never_stored(
    scr: Scr, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = scr()
    observe(learner, dataset, 0, 12)
    assert learner.costs()["reencoded"] == len(learner.memory) == 12
    state, encoded = digest(learner.state_dict()), []
    features = learner.features
    monkeypatch.setattr(learner, "features", lambda x: (encoded.append(len(x)), features(x))[1])
    learner.scores(dataset.test.images[:5])
    learner.scores(dataset.test.images[:5])
    assert encoded == [12, 5, 5]
    assert digest(learner.state_dict()) == state
    observe(learner, dataset, 12, 16)  # the next block
    learner.scores(dataset.test.images[:5])
    assert encoded == [12, 5, 5, 16, 5]


def test_many_memory_images_are_encoded_in_parts(
    scr: Scr, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = scr()
    observe(learner, dataset, 0, 24)
    whole, other = learner.vectors(), scr()
    other.load_state_dict(learner.state_dict())
    monkeypatch.setattr("earl.methods.scr.AT_ONCE", 7)
    torch.testing.assert_close(other.vectors(), whole, atol=1e-5, rtol=1e-4)


def test_loading_another_state_of_the_same_length_forgets_the_means(
    scr: Scr, dataset: Dataset
) -> None:
    one, other = scr(), scr(seed=2)
    x = dataset.test.images[:6]
    for learner in (one, other):
        observe(learner, dataset, 0, 12)
        learner.scores(x)
    one.load_state_dict(other.state_dict())
    assert torch.equal(one.scores(x), other.scores(x))


def test_grey_images_work(dataset: Dataset) -> None:
    view = View((0.5,), (0.5,))
    setting = Setting(
        image_shape=(1, 8, 8), view=view, augment=lambda x, generator: view(x), batch_size=6
    )
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.BatchNorm1d(24), nn.ReLU())
    learner = SCR(backbone, setting)
    x = dataset.train.images[:12, :1]
    learner.observe(x, dataset.train.labels[:12])
    assert torch.isfinite(learner.scores(x)).all()


def test_a_single_class_is_learned_without_a_loss_to_learn_from(scr: Scr, dataset: Dataset) -> None:
    learner = scr(batch_size=1)  # one image, two views: nothing to tell it from
    learner.observe(dataset.train.images[:1], torch.tensor([5]))
    assert learner.predict(dataset.test.images[:3]).tolist() == [5, 5, 5]
    assert all(torch.isfinite(p).all() for p in learner.network.parameters())
