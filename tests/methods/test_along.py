"""A projection by the class means, which moves features along the vectors of their classes."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import InvalidSetting
from earl.learning import adam
from earl.methods.earl import EARL
from earl.methods.earl.along import ROWS, SHARE, AlongVectors
from earl.methods.earl.frozen_means import FrozenMeans
from earl.methods.earl.growing import make_room
from plain_setting import of_features
from small_networks import random

SIZE = 6


def along(vectors: Tensor, samples: int = 0, size: int = SIZE) -> AlongVectors:
    """Return a projection that has seen so many samples, one of each class."""
    means = FrozenMeans(nn.Flatten(), size)
    for c in range(samples):
        means.add(random(size, seed=c), c)
    return AlongVectors(means, vectors)


def on_features(d: int = 8, **given: object) -> EARL:
    usual = {"preparatory": False, "hidden": 0, "projection": "means", "residual_source": "means"}
    return EARL(nn.Flatten(), of_features(SIZE, lr=0.01), d=d, **(usual | given))  # type: ignore[arg-type]


def taught(classes: int, d: int = 8) -> tuple[EARL, AlongVectors]:
    learner = on_features(d)
    learner.observe(random(3 * classes, SIZE, 1, 1), torch.arange(3 * classes) % classes)
    assert isinstance(learner.p, AlongVectors)
    return learner, learner.p


@pytest.mark.parametrize("d", [SIZE, 9])
def test_before_the_first_class_all_angles_are_kept(d: int) -> None:
    p, x = along(torch.zeros(0, d)), random(20, SIZE)
    before, after = F.normalize(x, dim=1), F.normalize(p(x), dim=1)
    torch.testing.assert_close(after @ after.T, before @ before.T)


def test_longer_features_are_folded() -> None:
    p, x = along(torch.zeros(0, 4)), random(5, SIZE)
    folded = x[:, :4] + F.pad(x[:, 4:], (0, 2))
    torch.testing.assert_close(p(x), p.gain * folded)


def test_features_move_along_the_vectors_by_the_means_and_by_what_is_learned() -> None:
    W, x = random(3, 8), random(5, SIZE)
    p = along(W, samples=3)
    p.weight.data[:3] = random(3, SIZE, seed=1)
    unit = torch.stack([F.normalize(random(SIZE, seed=c), dim=0) for c in range(3)])
    m = F.normalize(unit - unit.mean(dim=0), dim=1)
    expected = p.gain * F.pad(x, (0, 2))
    for c in range(3):
        expected = expected + (x @ (p.gain * SHARE * m[c] + p.weight[c]))[:, None] * W[c]
    torch.testing.assert_close(p(x), expected)


def test_nothing_moves_along_the_vector_of_a_class_without_samples() -> None:
    W, x = random(3, 8), random(5, SIZE)
    p, without = along(W, samples=3), along(W, samples=2)
    p.weight.data[:3] = without.weight.data[:3] = random(3, SIZE, seed=1)
    p.means.empty(2)
    torch.testing.assert_close(p(x), without(x))


def test_a_step_of_adam_turns_features_of_any_size_equally_far() -> None:
    turned = []
    for size in (4, 64):
        p, x = along(torch.eye(size)[:1], samples=1, size=size), torch.ones(1, size)
        optimizer = adam(p.parameters(), 0.001)
        p(x)[:, 0].sum().backward()
        before = p(x).detach()
        optimizer.step()
        turned.append(float((p(x).detach() - before).norm() / (p.gain * x).norm()))
    assert turned[0] == pytest.approx(turned[1], rel=1e-3)


def test_classes_not_yet_seen_have_rows_of_zeros_that_adam_leaves_alone() -> None:
    _, p = taught(4)
    assert p.weight[:4].any(dim=1).all()
    assert not p.weight[4:].any()


def test_more_classes_than_rows_keep_what_was_learned_and_its_moments() -> None:
    _, p = taught(ROWS, d=50)
    rows = p.weight.detach().clone()
    learner, p = taught(ROWS, d=50)
    learner.classes.index(torch.tensor([77]))
    make_room(learner)
    assert torch.equal(p.weight, F.pad(rows, (0, 0, 0, ROWS)))
    assert learner.optimizer.state[p.weight]["exp_avg"].shape == (2 * ROWS, SIZE)


def test_when_the_frame_grows_what_was_moved_turns_with_the_vectors() -> None:
    learner, p = taught(5, d=4)
    x = random(7, SIZE)
    m = F.normalize(p.means.centred(), dim=1)
    z, W, before = x @ (p.gain * SHARE * m + p.weight[:5]).T, p.vectors, p(x)
    learner.classes.index(torch.tensor([77]))
    make_room(learner)
    assert p.vectors.shape == (6, 9)
    torch.testing.assert_close(p(x), F.pad(before - z @ W, (0, 5)) + z @ p.vectors[:5])


def test_a_learner_whose_frame_and_rows_have_grown_goes_on_bit_for_bit() -> None:
    (learner, _), other = taught(40), on_features()
    other.load_state_dict(learner.state_dict())
    x, y = random(9, SIZE, 1, 1, seed=3), torch.arange(9)
    assert torch.equal(learner.scores(x), other.scores(x))
    for each in (learner, other):
        each.observe(x, y)
    assert torch.equal(learner.scores(x), other.scores(x))


def test_a_pass_costs_a_product_with_a_row_and_one_with_a_vector_for_each_class() -> None:
    for n in (3, 4):
        assert taught(n)[0].work.flops_per_input("forwards") == 2 * n * (SIZE + 8)


def test_it_learns_a_row_for_each_class_and_no_matrix() -> None:
    learner, _ = taught(4)
    assert [tuple(p.shape) for p in learner.f.parameters()] == [(ROWS, SIZE)]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"preparatory": True, "negative": "noise"}, "preparatory=false"),
        ({"residual_source": "train"}, "residual_source=means"),
    ],
)
def test_what_it_cannot_work_with_is_refused(given: dict[str, object], wanted: str) -> None:
    with pytest.raises(InvalidSetting, match=wanted):
        on_features(**given)
