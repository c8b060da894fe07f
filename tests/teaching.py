"""Samples of the small data set, and learners that are taught them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from earl.data.dataset import Dataset
from earl.learning.learner import Learner
from earl.learning.setting import Setting
from earl.nn.modes import train_forward


def observe(learner: Learner, dataset: Dataset, start: int, stop: int, step: int = 37) -> None:
    """Observe some samples; the step visits the classes in turn."""
    for i in range(start, stop):
        at = torch.tensor([i * step % len(dataset.train)])
        learner.observe(dataset.train.images[at], dataset.train.labels[at])


def rows_of(dataset: Dataset, n: int, first: int = 0) -> Tensor:
    """Return the rows of n samples, from the given one on, of the four classes in turn."""
    at = [(dataset.train.labels == i % 4).nonzero()[i // 4 % 40] for i in range(first, first + n)]
    return torch.cat(at)


def teach(learner: Learner, dataset: Dataset, n: int, first: int = 0) -> None:
    """Observe n samples, from the given one on, of the four classes in turn."""
    for row in rows_of(dataset, n, first).split(1):
        learner.observe(dataset.train.images[row], dataset.train.labels[row])


def teach_classes(
    learner: Learner, dataset: Dataset, classes: tuple[int, ...], n: int, first: int = 0
) -> None:
    """Observe n samples of these classes, from the given one on, in turn."""
    rows = [(dataset.train.labels == c).nonzero()[:, 0] for c in classes]
    for i in range(first, first + n):
        at = rows[i % len(rows)][i // len(rows)][None]
        learner.observe(dataset.train.images[at], dataset.train.labels[at])


def training_passes(monkeypatch: pytest.MonkeyPatch, *modules: str) -> list[Tensor]:
    """Return a list that will hold the inputs of every training pass of these methods."""
    inputs: list[Tensor] = []

    def forward(network: nn.Module, setting: Setting, x: Tensor) -> Tensor:
        inputs.append(x.detach().clone())
        return train_forward(network, x)

    for module in modules:
        monkeypatch.setattr(f"earl.methods.{module}.forward", forward)
    return inputs


def check_adam_step(
    before: nn.Module, moments: Any, loss: Tensor, after: nn.Module, lr: float = 3e-3
) -> None:
    """Compare weights with what torch's Adam makes of those before, from these moments on.

    Frozen ones must stay; where a gradient is hardly more than rounding its sign is left open. The
    learning rate is the one that `make` gives.
    """
    loss.backward()
    learned = [p for p in before.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(learned, lr=lr)
    optimizer.load_state_dict(moments)
    optimizer.step()
    for p, found in zip(before.parameters(), after.parameters(), strict=True):
        assert p.grad is not None or not p.requires_grad
        sure = torch.ones_like(p, dtype=torch.bool) if p.grad is None else p.grad.abs() > 1e-6
        assert sure.any()
        torch.testing.assert_close(found[sure], p[sure], atol=2e-5, rtol=1e-4)
