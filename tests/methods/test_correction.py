"""The correction by residuals, beside loops that do the same."""

import math

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from earl.methods.earl.residuals import ResidualMemory, correct
from earl.nn.etf import SimplexETF
from residual_tools import filled, unit
from seeds import generator

close = torch.testing.assert_close


def problem(B, N, n, d, seed=0, dtype=torch.float64):
    """Return queries, stored features, their classes and the class vectors."""
    y = torch.randint(n, (N,), generator=generator(seed + 1))
    W = SimplexETF(d, 0).vectors(torch.arange(n)).to(dtype)
    return unit(B, d, seed + 2, dtype), unit(N, d, seed + 3, dtype), y, W


def naive(f_hat, h_hat, y, W, k, tau):
    """Eq. (5) and (6) with plain numbers: sort, weigh, add up."""
    result = []
    for f in f_hat.tolist():
        stored = [(math.dist(f, h), i) for i, h in enumerate(h_hat.tolist())]
        near = sorted(stored)[:k]
        weights = [math.exp(-distance / tau) for distance, _ in near]
        corrected = list(f)
        for weight, (_, i) in zip(weights, near, strict=True):
            for c in range(len(f)):
                residual = float(W[y[i], c] - h_hat[i, c])
                corrected[c] += weight / sum(weights) * residual
        result.append(corrected)
    return torch.tensor(result, dtype=f_hat.dtype)


# ---- correction


@settings(max_examples=60, deadline=None)
@given(
    B=st.integers(1, 5),
    N=st.integers(1, 12),
    d=st.integers(2, 9),
    k=st.integers(1, 15),
    tau=st.floats(0.05, 1e9),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_correction_equals_a_triple_loop(B, N, d, k, tau, seed, data):
    n = data.draw(st.integers(1, d + 1))
    f_hat, h_hat, y, W = problem(B, N, n, d, seed)
    result = correct(f_hat, h_hat, y, W, k=k, tau=tau)
    close(result, naive(f_hat, h_hat, y, W, k, tau), atol=1e-9, rtol=0)


def test_a_stored_query_with_one_neighbour_becomes_its_class_vector():
    _, h_hat, y, W = problem(1, 10, 6, 16, dtype=torch.float32)
    close(correct(h_hat, h_hat, y, W, k=1, tau=0.9), W[y], atol=1e-6, rtol=0)


def test_at_a_low_temperature_only_the_nearest_pair_counts():
    f_hat, h_hat, y, W = problem(4, 9, 4, 8)
    nearest = torch.cdist(f_hat, h_hat).argmin(dim=1)
    expected = f_hat + (W[y] - h_hat)[nearest]
    close(correct(f_hat, h_hat, y, W, k=9, tau=1e-5), expected, atol=1e-6, rtol=0)


def test_without_pairs_nothing_is_corrected():
    f_hat, _, _, W = problem(3, 1, 4, 8)
    nothing, none = torch.empty(0, 8, dtype=torch.float64), torch.empty(0, dtype=torch.int64)
    assert torch.equal(correct(f_hat, nothing, none, W, k=15, tau=0.9), f_hat)


def test_correction_changes_none_of_its_inputs():
    given_tensors = problem(4, 9, 4, 8)
    before = [t.clone() for t in given_tensors]
    correct(*given_tensors, k=5, tau=0.9)
    assert all(torch.equal(a, b) for a, b in zip(given_tensors, before, strict=True))


class Largest(TorchDispatchMode):
    """Context that notes how many numbers an operation gives that did not lie there before."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        before = {t.untyped_storage().data_ptr() for t in tensors((args, kwargs))}
        new = [t for t in tensors(out) if t.untyped_storage().data_ptr() not in before]
        self.numel = max([self.numel, *(t.numel() for t in new)])
        return out


def tensors(tree):
    return [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor)]


def test_correction_makes_no_tensor_of_a_residual_per_query_and_neighbour():
    B, N, d, k = 64, 100, 256, 15
    given_tensors = problem(B, N, 10, d, dtype=torch.float32)
    with Largest() as largest:
        correct(*given_tensors, k=k, tau=0.9)
    assert largest.numel <= max(B * N, B * d, N * d) < B * k * d


def coarse(n, d, seed):
    """Return unit vectors of four halves each: sums of products are exact, and many are equal."""
    places = torch.rand(n, d, generator=generator(seed)).argsort(dim=1)[:, :4]
    signs = torch.randint(2, (n, 4), generator=generator(seed + 1)).float() - 0.5
    return torch.zeros(n, d).scatter_(1, places, signs)


@settings(max_examples=100, deadline=None)
@given(
    counts=st.lists(st.integers(0, 6), min_size=1, max_size=9),
    per_class=st.integers(1, 4),
    B=st.integers(1, 5),
    k=st.integers(1, 15),
    seed=st.integers(0, 999),
)
@example(counts=[4, 4, 1, 4], per_class=4, B=3, k=5, seed=0)
@example(counts=[0, 0], per_class=4, B=3, k=5, seed=0)
def test_empty_slots_change_no_bit_and_no_tie(counts, per_class, B, k, seed):
    memory, n, d = ResidualMemory(per_class, 8), len(counts), 8
    memory.extend(n)
    y = torch.arange(n).repeat_interleave(torch.tensor(counts))
    memory.push(coarse(len(y), d, seed), y[torch.randperm(len(y), generator=generator(seed))])
    f_hat, W = coarse(B, d, seed + 2), SimplexETF(d, 0).vectors(torch.arange(n)).float()
    copied = correct(f_hat, *filled(memory), W, k=k, tau=0.9)
    assert torch.equal(correct(f_hat, *memory.pairs(), W, k=k, tau=0.9), copied)


def test_a_class_that_is_short_of_pairs_makes_no_copy_of_the_store():
    n, d, B = 20, 256, 4
    memory = ResidualMemory(10, d)
    memory.extend(n)
    y = torch.arange(n).repeat_interleave(10)[3:]
    memory.push(unit(len(y), d, dtype=torch.float32), y)
    f_hat, W = unit(B, d, dtype=torch.float32), SimplexETF(d, 0).vectors(torch.arange(n)).float()
    with Largest() as largest:
        correct(f_hat, *memory.pairs(), W, k=15, tau=0.9)
    assert largest.numel <= max(B * d, B * 10 * n, n * d) < 10 * n * d / 8
