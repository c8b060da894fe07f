"""The frame against Eq. (2), its growth against the recursion, the loss against its formula."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from earl.errors import InvalidSetting
from earl.nn.etf import SimplexETF, dot_regression
from seeds import generator

DIMENSIONS = [1, 2, 3, 7, 64, 300]


close = torch.testing.assert_close


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=generator(seed), dtype=dtype)


def whole(etf):
    """Return all K vectors as rows."""
    return etf.vectors(torch.arange(etf.K))


def simplex_gram(K):
    """Return Eq. (2): ones on the diagonal, -1/(K-1) elsewhere."""
    G = torch.full((K, K), -1 / (K - 1), dtype=torch.float64)
    return G.fill_diagonal_(1)


# ---- the vectors


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_vectors_are_unit_and_equiangular(d, seed):
    W = whole(SimplexETF(d, seed))
    assert W.shape == (d + 1, d) and W.dtype == torch.float64
    close(W @ W.T, simplex_gram(d + 1), atol=1e-12, rtol=0)


def test_single_precision_vectors_are_equiangular_at_4096_dimensions():
    some = torch.tensor([0, 1, 2, 63, 2047, 2048, 4000, 4096])
    W = SimplexETF(4096, 0).vectors(some).float()
    expected = torch.full((8, 8), -1 / 4096).fill_diagonal_(1)
    close((W.double() @ W.double().T).float(), expected, atol=1e-6, rtol=0)  # no sum in float32


@settings(max_examples=40, deadline=None)
@given(d=st.integers(1, 40), seed=st.integers(0, 5), data=st.data())
def test_a_vector_has_the_same_bits_alone_and_among_others(d, seed, data):
    etf = SimplexETF(d, seed)
    indices = torch.tensor(data.draw(st.lists(st.integers(0, d), min_size=1, max_size=6)))
    assert torch.equal(etf.vectors(indices), whole(etf)[indices])


def test_no_index_asks_for_no_vector():
    assert SimplexETF(5, 0).vectors(torch.empty(0, dtype=torch.int64)).shape == (0, 5)


@pytest.mark.parametrize("index", [-1, 8, 100])
def test_an_index_outside_the_frame_is_an_error(index):
    with pytest.raises(IndexError, match="0 to 7"):
        SimplexETF(7, 0).vectors(torch.tensor([0, index]))


@pytest.mark.parametrize("d", [0, -3])
def test_a_frame_needs_a_dimension(d):
    with pytest.raises(InvalidSetting, match=str(d)):
        SimplexETF(d, 0)


# ---- the rotation


@pytest.mark.parametrize("d", [64, 300])
def test_another_seed_gives_another_frame(d):
    one, other = whole(SimplexETF(d, 4)), whole(SimplexETF(d, 5))
    cosine = (one * other).sum(dim=1)  # of unrelated directions: about 1/sqrt(d)
    assert cosine.abs().mean() < 2 / math.sqrt(d)


def test_the_global_random_state_has_no_influence_and_is_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one = whole(SimplexETF(20, 1))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert torch.equal(whole(SimplexETF(20, 1)), one)


@pytest.mark.parametrize("d", [512, 513, 640, 768, 1000, 1024, 1025])
def test_no_coordinate_dominates_a_vector(d):
    # Of d^2 coordinates of evenly spread directions the largest is about sqrt(2 log(d^2) / d),
    # and the fourth powers of each vector sum to about 3/d; an axis has 1 and 1.
    W = whole(SimplexETF(d, 0))
    assert W.abs().max() < 1.5 * math.sqrt(2 * math.log(d * d) / d)
    assert W.pow(4).sum(dim=1).max() < 12 / d


# ---- growth


def test_growth_from_5_to_11_vectors_is_exact():
    old = SimplexETF(4, 0)
    new = old.grow(6)
    assert (old.K, new.K, new.d) == (5, 11, 10)
    close(whole(new) @ whole(new).T, simplex_gram(11), atol=1e-12, rtol=0)


@settings(max_examples=30, deadline=None)
@given(d=st.integers(1, 20), by=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_every_added_dimension_shrinks_the_old_coordinates_by_the_same_factor(d, by):
    # w' = (sqrt(1 - 1/K^2) w, -1/K) for every added dimension, K the vectors before it
    old = SimplexETF(d, 2)
    new = old
    for step in by:
        new = new.grow(step)
    factor = math.prod(math.sqrt(1 - 1 / K**2) for K in range(old.K, new.K))
    kept = new.vectors(torch.arange(old.K))
    close(kept[:, :d], factor * whole(old), atol=1e-12, rtol=0)
    close(whole(new) @ whole(new).T, simplex_gram(new.K), atol=1e-12, rtol=0)


@settings(max_examples=40, deadline=None)
@given(d=st.integers(1, 12), n=st.integers(0, 100))
def test_a_frame_for_more_classes_has_doubled_and_turned_old_vectors_by_the_stated_angle(d, n):
    # K - 1, ..., K' - 1 telescope: the squared cosine is (1 - 1/K) / (1 - 1/K')
    old = SimplexETF(d, 3)
    new = old.for_classes(n)
    assert n <= new.K and (new is old or 2 * n > new.K)
    assert new.K % old.K == 0 and (new.K // old.K).bit_count() == 1
    close(whole(new) @ whole(new).T, simplex_gram(new.K), atol=1e-12, rtol=0)
    padded = F.pad(whole(old), (0, new.d - d))
    cosine = (padded * new.vectors(torch.arange(old.K))).sum(dim=1)
    angle = math.sqrt((1 - 1 / old.K) / (1 - 1 / new.K))
    close(cosine, torch.full_like(cosine, angle), atol=1e-12, rtol=0)
    added = new.vectors(torch.arange(old.K, new.K))
    assert not added[:, :d].any()  # what a padded feature has nothing in common with


@settings(max_examples=40, deadline=None)
@given(d=st.integers(1, 9), times=st.integers(0, 4), now=st.integers(0, 4))
def test_a_frame_is_found_again_by_its_dimensions_whatever_it_has_grown_to(d, times, now):
    first = SimplexETF(d, 3)
    wanted, held = (first.for_classes(first.K << n) for n in (times, now))
    assert held.of_dimensions(wanted.d) == wanted
    with pytest.raises(InvalidSetting, match="never has"):
        held.of_dimensions(wanted.d + 1 if wanted.d > 1 else 2)


def test_growing_leaves_the_old_frame_as_it_was():
    old = SimplexETF(6, 0)
    before = whole(old)
    old.grow(3)
    assert old.d == 6 and torch.equal(whole(old), before)


@pytest.mark.parametrize("by", [0, -1])
def test_growing_by_nothing_is_refused(by):
    with pytest.raises(InvalidSetting):
        SimplexETF(6, 0).grow(by)


@pytest.mark.parametrize("blocks", [(3, 2), (3, 2, 2), (7, -1), (6, 0)])
def test_blocks_that_do_not_make_up_the_space_are_refused(blocks):
    with pytest.raises(InvalidSetting, match="blocks"):
        SimplexETF(6, 0, blocks)


# ---- any subset is a simplex after centring


@settings(max_examples=60, deadline=None)
@given(d=st.integers(1, 50), data=st.data())
def test_a_centred_subset_is_a_simplex_of_its_own(d, data):
    K = d + 1
    n = data.draw(st.integers(2, K))
    chosen = torch.tensor(data.draw(st.permutations(range(K))))[:n]
    W = SimplexETF(d, 0).vectors(chosen)
    A = W - W.mean(dim=0)
    c = -1 / (K - 1)
    expected = torch.full((n, n), -(1 - c) / n, dtype=torch.float64)
    expected.fill_diagonal_((1 - c) * (1 - 1 / n))
    close(A @ A.T, expected, atol=1e-12, rtol=0)
    unit = F.normalize(A, dim=1)
    close(unit @ unit.T, simplex_gram(n), atol=1e-12, rtol=0)


# ---- dot regression, Eq. (3)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_dot_regression_is_zero_at_the_class_vector_and_only_there(d):
    W = whole(SimplexETF(d, 0))
    close(dot_regression(W, W), torch.zeros(d + 1, dtype=torch.float64), atol=1e-24, rtol=0)
    wrong = dot_regression(W, W.roll(1, dims=0))
    close(wrong, torch.full_like(wrong, 0.5 * (1 / d + 1) ** 2), atol=1e-12, rtol=0)


@settings(max_examples=40, deadline=None)
@given(d=st.integers(1, 30), B=st.integers(1, 6), seed=st.integers(0, 1000))
def test_dot_regression_and_its_gradient_follow_the_formula(d, B, seed):
    w_y = SimplexETF(d, 0).vectors(torch.arange(B) % (d + 1))
    f = (random(B, d, seed=seed) + 0.1).requires_grad_()
    f_hat = F.normalize(f, dim=1)
    loss = dot_regression(f_hat, w_y)
    assert loss.shape == (B,)
    (gradient,) = torch.autograd.grad(loss.sum(), f)
    f, loss = f.detach(), loss.tolist()
    for b in range(B):
        length = math.sqrt(sum(v**2 for v in f[b].tolist()))
        unit = f[b] / length
        dot = sum(a * c for a, c in zip(unit.tolist(), w_y[b].tolist(), strict=True))
        assert loss[b] == pytest.approx((dot - 1) ** 2 / 2, abs=1e-12)
        # (<w_y, f_hat> - 1) w_y, projected by the Jacobian (I - f_hat f_hat') / |f|
        expected = (dot - 1) * (w_y[b] - dot * unit) / length
        close(gradient[b], expected, atol=1e-9, rtol=1e-9)


@settings(max_examples=30, deadline=None)
@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 100))
def test_dot_regression_does_not_depend_on_the_length_of_the_feature(scale, seed):
    f, w_y = random(4, 9, seed=seed), SimplexETF(9, 0).vectors(torch.arange(4))
    short = dot_regression(F.normalize(f, dim=1), w_y)
    close(dot_regression(F.normalize(scale * f, dim=1), w_y), short, atol=1e-12, rtol=0)
