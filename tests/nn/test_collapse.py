"""Collapse: zero on exact frames, the textbook formulas elsewhere, and a probe that agrees."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.data.dataset import Split
from earl.errors import EarlError
from earl.evaluation.loop import ProbeInput
from earl.evaluation.probes import MOST_PER_CLASS, collapse
from earl.learning.classes import Classes
from earl.nn.collapse import nc1, nc2, nc3
from earl.nn.etf import SimplexETF
from seeds import generator


def random(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def shuffled(labels, seed=0):
    return labels[torch.randperm(len(labels), generator=generator(seed))]


def clusters(sizes, d, spread=0.3, seed=0):
    """Return features around random means with the given class sizes, their labels, and vectors."""
    labels = torch.cat([torch.full((size,), c) for c, size in enumerate(sizes)])
    labels = shuffled(labels, seed)
    mu = random(len(sizes), d, seed=seed + 1)
    h = mu[labels] + spread * random(len(labels), d, seed=seed + 2)
    return h, labels, random(len(sizes), d, seed=seed + 3)


def means_of(h, labels):
    n = int(labels.max()) + 1
    mu = torch.stack([h[labels == c].mean(dim=0) for c in range(n)])
    return mu, mu.mean(dim=0)


def dense_nc1(h, labels):
    """Return tr(Sigma_W Sigma_B^+) / n with both d x d matrices written out."""
    mu, mu_G = means_of(h, labels)
    n, d = mu.shape
    Sigma_W, Sigma_B = torch.zeros(2, d, d, dtype=torch.float64)
    for c in range(n):
        of_class = h[labels == c]
        for x in of_class:
            Sigma_W += torch.outer(x - mu[c], x - mu[c]) / (len(of_class) * n)
        Sigma_B += torch.outer(mu[c] - mu_G, mu[c] - mu_G) / n
    inverse = torch.linalg.pinv(Sigma_B, rtol=1e-10, hermitian=True)
    return float(torch.trace(Sigma_W @ inverse)) / n


def simplex(n):
    return (torch.eye(n, dtype=torch.float64) - 1 / n) / (n - 1) ** 0.5


def loop_nc2(h, labels):
    mu, mu_G = means_of(h, labels)
    n = len(mu)
    G = torch.empty(n, n, dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            a, b = mu[i] - mu_G, mu[j] - mu_G
            G[i, j] = (a @ b) / (a.norm() * b.norm())
    return float((G / G.norm() - simplex(n)).norm())


def loop_nc3(h, labels, W):
    mu, mu_G = means_of(h, labels)
    n = len(mu)
    G = torch.stack([torch.stack([W[i] @ (mu[j] - mu_G) for j in range(n)]) for i in range(n)])
    return float((G / G.norm() - simplex(n)).norm())


# ---- acceptance


@pytest.mark.parametrize("d", [1, 2, 7, 64])
def test_exact_frame_features_are_collapsed_for_any_number_of_classes(d):
    for n in {2, 3, d // 2, d, d + 1} & set(range(2, d + 2)):
        W = SimplexETF(d, 0).vectors(torch.arange(n))
        labels = shuffled(torch.arange(n).repeat(3))
        assert nc1(W[labels], labels) == pytest.approx(0, abs=1e-20)
        assert nc2(W[labels], labels) == pytest.approx(0, abs=1e-12)
        assert nc3(W[labels], labels, W) == pytest.approx(0, abs=1e-12)


def test_exact_frame_features_in_single_precision_are_nearly_collapsed():
    W = SimplexETF(64, 0).vectors(torch.arange(10)).float()
    labels = torch.arange(10).repeat(4)
    assert nc1(W[labels], labels) < 1e-10
    assert nc2(W[labels], labels) < 1e-5
    assert nc3(W[labels], labels, W) < 1e-5


@pytest.mark.parametrize("seed", range(5))
def test_random_features_are_not_collapsed(seed):
    h, W = random(300, 16, seed=seed), random(10, 16, seed=seed + 100)
    labels = torch.arange(10).repeat(30)
    assert nc1(h, labels) > 1
    assert nc2(h, labels) > 0.1 and nc3(h, labels, W) > 0.1


def test_spread_inside_classes_raises_nc1_by_its_square():
    mu, noise = random(5, 8), random(50, 8, seed=1)
    labels = torch.arange(5).repeat(10)
    for c in range(5):
        noise[labels == c] -= noise[labels == c].mean(dim=0)  # the means stay where they are
    narrow, wide = (nc1(mu[labels] + s * noise, labels) for s in (0.1, 0.2))
    assert wide == pytest.approx(4 * narrow)


# ---- the formulas


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=6),
    d=st.integers(2, 12),
    seed=st.integers(0, 999),
)
def test_measures_equal_their_formulas(sizes, d, seed):
    h, labels, W = clusters(sizes, d, seed=seed)
    assert nc1(h, labels) == pytest.approx(dense_nc1(h, labels), rel=1e-6, abs=1e-12)
    assert nc2(h, labels) == pytest.approx(loop_nc2(h, labels), abs=1e-9)
    assert nc3(h, labels, W) == pytest.approx(loop_nc3(h, labels, W), abs=1e-9)


def test_nc1_ignores_the_directions_that_no_mean_moves_in():
    h, labels, _ = clusters([4, 4, 4], 5)
    flat = torch.cat((h, torch.zeros(12, 3, dtype=torch.float64)), dim=1)
    noisy = flat.clone()
    noisy[:, 5:] = random(12, 3, seed=9)
    for c in range(3):
        noisy[labels == c, 5:] -= noisy[labels == c, 5:].mean(dim=0)
    assert nc1(flat, labels) == pytest.approx(nc1(h, labels))
    assert nc1(noisy, labels) == pytest.approx(nc1(h, labels))


@pytest.mark.parametrize("spread", [0, 0.3])
@pytest.mark.parametrize("n", [2, 5])
def test_class_means_that_coincide_are_not_called_collapsed(n, spread):
    """Every class has the same samples: none is told from another, which is no perfect collapse."""
    samples = random(7, 6) * spread + random(6, seed=1)
    h, labels = samples.repeat(n, 1), torch.arange(n).repeat_interleave(7)
    W = random(n, 6, seed=2)
    assert all(math.isnan(value) for value in (nc1(h, labels), nc2(h, labels), nc3(h, labels, W)))
    turned = h @ torch.linalg.qr(random(6, 6, seed=3)).Q  # coincide but for rounding
    order = torch.randperm(len(h), generator=generator(4))
    assert math.isnan(nc1(turned[order], labels[order]))
    assert nc1(h + 1e-3 * W[labels], labels) >= 0  # as soon as they differ they are measured


# ---- invariances


def measures(h, labels, W):
    return pytest.approx([nc1(h, labels), nc2(h, labels), nc3(h, labels, W)], rel=1e-9)


def test_rotation_scale_and_origin_do_not_matter():
    h, labels, W = clusters([5, 3, 8, 4], 9)
    expected = measures(h, labels, W)
    Q = torch.linalg.qr(random(9, 9, seed=7)).Q
    assert [nc1(h @ Q, labels), nc2(h @ Q, labels), nc3(h @ Q, labels, W @ Q)] == expected
    larger = 37 * h
    assert [nc1(larger, labels), nc2(larger, labels), nc3(larger, labels, 0.2 * W)] == expected
    moved = h + random(9, seed=8)
    assert [nc1(moved, labels), nc2(moved, labels), nc3(moved, labels, W)] == expected


def test_the_order_of_samples_and_of_classes_does_not_matter():
    h, labels, W = clusters([5, 3, 8, 4], 9)
    expected = measures(h, labels, W)
    order = torch.randperm(20, generator=generator(3))
    a, b = h[order], labels[order]
    assert [nc1(a, b), nc2(a, b), nc3(a, b, W)] == expected
    rename = torch.tensor([2, 0, 3, 1])
    b, V = rename[labels], W[rename.argsort()]
    assert [nc1(h, b), nc2(h, b), nc3(h, b, V)] == expected


def test_nothing_given_is_changed():
    h, labels, W = clusters([3, 4], 5)
    before = h.clone(), labels.clone(), W.clone()
    nc1(h, labels), nc2(h, labels), nc3(h, labels, W)
    assert all(torch.equal(a, b) for a, b in zip((h, labels, W), before, strict=True))


# ---- the probe


class Embedding:
    """A learner that knows the feature of every image by its one pixel."""

    def __init__(self, table, W, ids):
        self.table, self.W, self.asked = table, W, []
        self.classes = Classes()
        self.classes.index(torch.tensor(ids))

    def features(self, x):
        self.asked.append(x.flatten().tolist())
        return self.table[x.flatten().long()]

    def vectors(self):
        return self.W


def one_pixel_split(labels):
    return Split(torch.arange(len(labels)).byte().view(-1, 1, 1, 1), torch.tensor(labels))


def input_of(learner, test, asked):
    return ProbeInput(learner, step=0, test=test, asked=asked, train=test, seen=asked, coming=asked)


def test_the_probe_measures_the_asked_samples_of_seen_classes():
    labels = [30, 10, 20, 30, 10, 20, 40, 10]
    test = one_pixel_split(labels)
    table, W = random(8, 6), random(4, 6, seed=1)
    learner = Embedding(table, W, ids=[20, 30, 50, 10])  # 50 is seen but not in the test set
    asked = torch.tensor([7, 0, 2, 1, 5, 3])  # never the class 40
    result = collapse(input_of(learner, test, asked))
    number = {20: 0, 30: 1, 10: 2}  # without gaps, in the order of the learner's numbers
    y = torch.tensor([number[labels[i]] for i in asked])
    h, rows = table[asked], W[[0, 1, 3]]
    assert result == {
        "NC1": pytest.approx(nc1(h, y)),
        "NC2": pytest.approx(nc2(h, y)),
        "NC3": pytest.approx(nc3(h, y, rows)),
    }
    assert sorted(i for part in learner.asked for i in part) == sorted(asked.tolist())


def test_the_probe_looks_at_a_limited_number_of_images_per_class():
    labels = [0] * (MOST_PER_CLASS + 30) + [1] * 5
    learner = Embedding(random(len(labels), 4), random(2, 4), ids=[0, 1])
    collapse(input_of(learner, one_pixel_split(labels), torch.arange(len(labels))))
    looked = [labels[i] for part in learner.asked for i in part]
    assert looked.count(0) == MOST_PER_CLASS and looked.count(1) == 5


def test_the_probe_leaves_out_what_is_not_defined():
    labels = [0, 0, 1, 1]
    learner = Embedding(random(2, 4).repeat(2, 1), random(2, 4), ids=[0, 1])
    assert collapse(input_of(learner, one_pixel_split(labels), torch.arange(4))) == {}


@pytest.mark.parametrize("asked", [[], [0], [0, 1]])
def test_fewer_than_two_classes_have_no_geometry(asked):
    learner = Embedding(random(3, 4), random(2, 4), ids=[7, 8])
    test = one_pixel_split([7, 7, 8])
    assert collapse(input_of(learner, test, torch.tensor(asked, dtype=torch.int64))) == {}


def test_a_learner_without_features_cannot_be_probed():
    class Blind:
        classes = Classes()

    with pytest.raises(EarlError, match="Blind"):
        collapse(input_of(Blind(), one_pixel_split([0, 1]), torch.arange(2)))
