"""ER-MIR against its paper: the choice recomputed by brute force, and what choosing must not do."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from earl.data.dataset import Dataset
from earl.methods.er_mir import ERMIR
from earl.nn.build import build
from earl.nn.modes import train_forward
from earl.storage.state import digest
from teaching import observe

Mir = Callable[..., ERMIR]


def brute_force(learner: ERMIR, X: Tensor, Y: Tensor, lr: float) -> list[float]:
    """Step a copy of the network on X, Y; return by how much the loss of every row has risen."""
    n = len(learner.classes)
    taught = copy.deepcopy(learner.network)
    loss = F.cross_entropy(train_forward(taught, X)[:, :n], Y)
    gradients = torch.autograd.grad(loss, list(taught.parameters()))
    moved = copy.deepcopy(learner.network)
    with torch.no_grad():
        for p, g in zip(moved.parameters(), gradients, strict=True):
            p -= lr * g
    x, y = learner.memory.take(torch.arange(len(learner.memory)), "x", "y")
    with torch.no_grad():
        before = train_forward(copy.deepcopy(learner.network), learner.setting.view(x))
        after = train_forward(moved, learner.setting.view(x))
    return [
        float(then[:n].double().log_softmax(0)[c].neg() - now[:n].double().log_softmax(0)[c].neg())
        for now, then, c in zip(before, after, y, strict=True)
    ]


def rows_of(learner: ERMIR, images: Tensor) -> list[int]:
    """Return the memory row of each (unaugmented) image."""
    x, _ = learner.memory.take(torch.arange(len(learner.memory)), "x", "y")
    distance = torch.cdist(images.flatten(1), learner.setting.view(x).flatten(1))
    assert float(distance.min(dim=1).values.max()) < 0.1  # others are farther than 5
    return distance.argmin(dim=1).tolist()


def test_frozen_batch_norm_foresees_what_the_update_will_see(mir: Mir, dataset: Dataset) -> None:
    learner = mir()
    observe(learner, dataset, 0, 12)
    learner.network.backbone.requires_grad_(False)
    x, y = learner.memory.take(torch.arange(len(learner.memory)), "x", "y")
    expected = F.cross_entropy(learner.scores(x), y, reduction="none")  # in evaluation mode
    torch.testing.assert_close(learner._losses(learner.setting.view(x), y), expected)


def test_an_update_is_an_adam_step_on_the_new_samples_and_those_they_disturb_most(
    mir: Mir, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = mir(iterations=1 / 16, virtual_lr=0.5)
    observe(learner, dataset, 0, 15)  # twelve samples are in memory, three wait
    assert not passed and len(learner.memory) == 12
    state = copy.deepcopy(learner.state_dict())
    observe(learner, dataset, 15, 16)  # the first update
    (images,) = passed
    before = mir(iterations=1 / 16, virtual_lr=0.5)
    before.load_state_dict(state)
    new = torch.tensor([i * 37 % len(dataset.train) for i in range(12, 16)])
    X, Y = learner.setting.view(dataset.train.images[new]), dataset.train.labels[new]
    torch.testing.assert_close(images[:4], X)

    rises = brute_force(before, X, before.classes.numbers(Y), 0.5)
    chosen = rows_of(before, images[4:])
    assert len(set(chosen)) == 4
    others = [rise for row, rise in enumerate(rises) if row not in chosen]
    assert min(rises[row] for row in chosen) > max(others)

    (Y_m,) = before.memory.take(torch.tensor(chosen), "y")
    labels = torch.cat((before.classes.numbers(Y), Y_m))
    z = train_forward(before.network, images)[:, : len(learner.classes)]
    loss = -torch.stack([z[i].log_softmax(0)[c] for i, c in enumerate(labels)]).mean()
    parameters = list(before.network.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    for p, old, g in zip(learner.network.parameters(), parameters, gradients, strict=True):
        expected = old - learner.setting.lr * g / (g.abs() + 1e-8)  # Adam's first step
        torch.testing.assert_close(p, expected, atol=2e-5, rtol=1e-4)


def test_a_conflict_brings_back_the_samples_it_contradicts(
    mir: Mir, dataset: Dataset, passed: list[Tensor]
) -> None:
    """Images of class 0 that are called class 1 raise the loss of the true images of class 0.

    Without batch norm, which would take from four images of one class what they have in common.
    """
    backbone = build(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU()),
        Generator().manual_seed(0),
    )
    learner = ERMIR(backbone, mir(memory_size=40).setting, virtual_lr=0.1)
    observe(learner, dataset, 0, 80)
    c = int(learner.classes.numbers(torch.tensor([0])))
    assert 4 < learner.memory.counts[c] < 20  # there is a choice, and most of it is wrong
    before = copy.deepcopy(learner.memory)
    wrong = dataset.train.images[dataset.train.labels == 0][:4]
    learner.observe(wrong, torch.ones(4, dtype=torch.int64))
    first = passed[-4]  # of the four updates on this block
    learner.memory = before
    chosen = torch.tensor(rows_of(learner, first[4:]))
    assert learner.memory.take(chosen, "y")[0].tolist() == [c] * 4


@pytest.mark.parametrize("batch_size", [2, 8])  # a block of one sample, and of four
def test_choosing_leaves_the_network_and_its_statistics_as_they_are(
    mir: Mir, dataset: Dataset, batch_size: int
) -> None:
    learner = mir(virtual_lr=0.5, batch_size=batch_size)
    observe(learner, dataset, 0, 40)
    W = batch_size // 2
    X, Y = learner.setting.view(dataset.train.images[:W]), torch.zeros(W, dtype=torch.int64)
    before = digest(learner.state_dict() | {"work": {}})
    gradients = [None if p.grad is None else p.grad.clone() for p in learner.network.parameters()]
    forwards = learner.work.forwards
    learner._retrieve(X, Y)
    assert learner.work.forwards > forwards  # it did choose
    assert digest(learner.state_dict() | {"work": {}}) == before
    for p, g in zip(learner.network.parameters(), gradients, strict=True):
        assert p.grad is not None and g is not None and torch.equal(p.grad, g)
    train_forward(learner.network, X)
    assert digest(learner.state_dict() | {"work": {}}) != before  # the digest does see statistics


def test_only_training_passes_enter_the_running_statistics(mir: Mir, dataset: Dataset) -> None:
    learner = mir(iterations=2)
    observe(learner, dataset, 0, 40)
    norm = next(m for m in learner.network.modules() if isinstance(m, nn.BatchNorm2d))
    assert int(norm.num_batches_tracked) == learner.work.updates == 80


@pytest.mark.parametrize(
    ("candidates", "memory_size", "drawn"),
    [(50, 60, 50), (50, 20, 20), (12, 60, 12), (1, 60, 8)],  # never fewer than 2 · 4
)
def test_as_many_candidates_as_asked_for_as_there_are_or_as_leave_a_choice(
    mir: Mir,
    dataset: Dataset,
    monkeypatch: pytest.MonkeyPatch,
    candidates: int,
    memory_size: int,
    drawn: int,
) -> None:
    seen: list[int] = []
    losses = ERMIR._losses

    def count(self: ERMIR, X: Tensor, Y: Tensor, theta: dict[str, Tensor] | None = None) -> Tensor:
        if theta is not None:
            seen.append(len(Y))
        return losses(self, X, Y, theta)

    monkeypatch.setattr(ERMIR, "_losses", count)
    learner = mir(candidates=candidates, memory_size=memory_size, iterations=0.25)
    observe(learner, dataset, 0, 80)
    # Of twenty updates the first has no memory and the second no choice.
    assert len(seen) == learner.work.updates - 2
    assert seen[-1] == drawn
    assert learner.work.images == 4 + 19 * 8
    assert learner.work.forwards == sum(3 * 4 + 2 * c for c in seen)


def test_a_last_block_that_is_not_full_gets_more_from_the_memory(
    mir: Mir, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = mir()
    observe(learner, dataset, 0, 41)
    passed.clear()
    learner.finish()
    (images,) = passed
    assert len(images) == 8
    assert len(set(map(bytes, images.numpy()))) == 8


def test_the_virtual_rate_is_the_learning_rate_unless_given(mir: Mir) -> None:
    assert mir(lr=0.007).virtual_lr == 0.007
    assert mir(lr=0.007, virtual_lr=0.1).virtual_lr == 0.1
