"""The losses that several methods share, against loops and values known by hand."""

import math

import pytest
import torch
from torch.nn import functional as F

from earl.nn.losses import known_mse, supervised_contrastive


def unit_rows(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(n, d, generator=generator, dtype=torch.float64), dim=1)


def by_loops(z, y, temperature):
    """The printed formula, anchor by anchor and positive by positive."""
    losses = []
    for i in range(len(z)):
        others = [a for a in range(len(z)) if a != i]
        positive = [p for p in others if y[p] == y[i]]
        below = sum(math.exp(float(z[i] @ z[a]) / temperature) for a in others)
        terms = [math.log(math.exp(float(z[i] @ z[p]) / temperature) / below) for p in positive]
        losses.append(-sum(terms) / len(positive) if positive else 0.0)
    return torch.tensor(losses, dtype=torch.float64)


@pytest.mark.parametrize("temperature", [0.07, 0.5, 2.0])
@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 2, 0], [3, 3], [0, 1, 2], [5] * 7])
def test_the_contrastive_loss_is_the_double_loop(labels, temperature):
    y = torch.tensor(labels)
    z = unit_rows(len(y), 5, seed=len(y))
    torch.testing.assert_close(
        supervised_contrastive(z, y, temperature), by_loops(z, y, temperature)
    )


def test_its_gradient_is_finite_even_for_an_anchor_without_positives():
    z = unit_rows(4, 3).requires_grad_()
    loss = supervised_contrastive(z, torch.tensor([0, 0, 1, 2]), 0.07)
    loss.sum().backward()
    assert loss[2:].tolist() == [0, 0]
    assert torch.isfinite(z.grad).all() and z.grad.any()


def test_its_gradient_is_the_derivative():
    y = torch.tensor([0, 1, 0, 1, 1])
    z = unit_rows(5, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: supervised_contrastive(z, y, 0.3), (z,))


def test_known_mse_is_a_mean_over_what_is_known() -> None:
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(5, 4, generator=generator, requires_grad=True)
    stored = torch.randn(5, 4, generator=generator)
    stored[torch.rand(5, 4, generator=generator) < 0.4] = math.nan
    pairs = [(i, j) for i in range(5) for j in range(4) if not math.isnan(stored[i, j])]
    loss = known_mse(z, stored)
    expected = sum((z[i, j] - stored[i, j]) ** 2 for i, j in pairs) / len(pairs)
    torch.testing.assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, z)
    assert gradient[stored.isnan()].eq(0).all() and gradient[~stored.isnan()].ne(0).all()
    nothing = known_mse(z, torch.full((5, 4), math.nan))
    assert float(nothing.detach()) == 0 and torch.autograd.grad(nothing, z)[0].eq(0).all()
    assert float(known_mse(z[:0], stored[:0]).detach()) == 0
