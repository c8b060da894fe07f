"""EWC against its paper: Fisher and penalty recomputed naively, and where they must not reach."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from earl.data.dataset import Dataset
from earl.experiments.contract.checks import saved_and_loaded
from earl.learning.learner import Learner
from earl.learning.setting import Setting
from earl.methods.ewc import EWC
from earl.nn.modes import train_forward
from earl.storage.state import digest
from teaching import observe

Make = Callable[..., Learner]
Augmentation = Callable[[Tensor, Generator], Tensor]
Ewc = Callable[..., EWC]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[nn.Module, Tensor]]:
    """Collects, for every training pass, the network as it was and the images."""
    inputs: list[tuple[nn.Module, Tensor]] = []

    def forward(network: nn.Module, setting: Setting, x: Tensor) -> Tensor:
        inputs.append((copy.deepcopy(network), x.detach().clone()))
        return train_forward(network, x)

    monkeypatch.setattr("earl.methods.ewc.forward", forward)
    return inputs


def cross_entropy(
    learner: EWC, network: nn.Module, images: Tensor, dataset: Dataset, n: int = 4
) -> Tensor:
    """Return the mean loss over n classes of images, whose labels are looked up in the data."""
    every = learner.setting.view(dataset.train.images).flatten(1)
    nearest = torch.cdist(images.flatten(1), every).argmin(dim=1)
    labels = learner.classes.numbers(dataset.train.labels[nearest])
    z = train_forward(network, images)[:, :n]
    return -torch.stack([z[i].log_softmax(0)[c] for i, c in enumerate(labels)]).mean()


def penalty(learner: EWC) -> float:
    """Return sum_i Omega_i (theta_i - theta*_i)², weight by weight."""
    held = learner.fisher
    total = 0.0
    for Omega, p, star in zip(held.Omega, learner.theta, held.theta_star, strict=True):
        for o, now, then in zip(
            Omega.flatten().tolist(), p.flatten().tolist(), star.flatten().tolist(), strict=True
        ):
            total += o * (now - then) ** 2
    return total


def test_the_fisher_is_the_running_square_of_the_gradient_of_cross_entropy_alone(
    ewc: Ewc, dataset: Dataset, passes: list[tuple[nn.Module, Tensor]]
) -> None:
    """A boundary in the middle and a heavy penalty would show if the penalty got into it."""
    learner = ewc(alpha=0.3, ewc_lambda=1e6, normalize_fisher=True)
    known: list[int] = []  # classes at the time of each pass
    for i in range(28):
        observe(learner, dataset, i, i + 1)
        known += [len(learner.classes)] * (len(passes) - len(known))
        if i == 19:
            learner.end_task()
    Phi: list[Tensor] = []
    for n, (network, images) in zip(known, passes, strict=True):
        loss = cross_entropy(learner, network, images, dataset, n)
        weights = list(network.backbone.parameters())  # type: ignore[union-attr]
        for i, g in enumerate(torch.autograd.grad(loss, weights)):
            if len(Phi) <= i:
                Phi.append(g**2)
            else:
                Phi[i] = (1 - 0.3) * Phi[i] + 0.3 * g**2
    for found, expected in zip(learner.fisher.Phi, Phi, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-7, rtol=1e-3)


def test_the_fisher_is_not_zero(ewc: Ewc, dataset: Dataset) -> None:
    learner = ewc()
    observe(learner, dataset, 0, 10)
    assert learner.work.updates == 8
    assert all(float(Phi.max()) > 0 for Phi in learner.fisher.Phi)


def test_the_penalty_is_zero_at_a_boundary_and_positive_after_a_step(
    ewc: Ewc, dataset: Dataset
) -> None:
    learner = ewc(iterations=0.25)
    observe(learner, dataset, 0, 40)
    learner.end_task()
    assert len(learner.fisher.Omega) == len(learner.theta) and penalty(learner) == 0
    observe(learner, dataset, 40, 44)  # one update
    assert penalty(learner) > 0
    learner.end_task()
    assert penalty(learner) == 0


@pytest.mark.parametrize("normalize", [False, True])
def test_an_update_follows_the_gradient_of_loss_and_penalty_and_the_head_that_of_the_loss(
    ewc: Ewc,
    dataset: Dataset,
    passes: list[tuple[nn.Module, Tensor]],
    normalize: bool,
) -> None:
    learner = ewc(iterations=0.25, ewc_lambda=30.0, normalize_fisher=normalize)
    # Plain gradient descent, where Adam would hide how long the gradient is.
    learner.optimizer = torch.optim.SGD(learner.network.parameters(), 1e-2)  # type: ignore[assignment]
    observe(learner, dataset, 0, 40)
    learner.end_task()
    observe(learner, dataset, 40, 44)
    with torch.no_grad():
        for p in learner.theta:
            p += 0.01  # far enough from theta* for the penalty to be felt
    fisher = copy.deepcopy(learner.fisher)
    observe(learner, dataset, 44, 48)
    network, images = passes[-1]
    weights = list(network.backbone.parameters())  # type: ignore[union-attr]
    held = sum(
        (Omega * (p - star) ** 2).sum()
        for Omega, p, star in zip(fisher.Omega, weights, fisher.theta_star, strict=True)
    )
    ce = cross_entropy(learner, network, images, dataset)
    parameters = list(network.parameters())
    gradients = torch.autograd.grad(ce + 30.0 * held, parameters, retain_graph=True)
    for p, old, g in zip(learner.network.parameters(), parameters, gradients, strict=True):
        torch.testing.assert_close(p, old - 1e-2 * g, atol=1e-6, rtol=1e-4)
    pull = torch.autograd.grad(30.0 * held, weights)
    assert max(float(g.abs().max()) for g in pull) > 1e-3  # else nothing was tested


def test_a_boundary_overwrites_the_one_before(ewc: Ewc, dataset: Dataset) -> None:
    learner = ewc()
    for start in (0, 16):
        observe(learner, dataset, start, start + 16)
        learner.end_task()
        held = learner.fisher
        assert all(map(torch.equal, held.Omega, held.Phi))
        assert all(map(torch.equal, held.theta_star, learner.theta))
    kept = [Omega.clone() for Omega in learner.fisher.Omega]
    observe(learner, dataset, 32, 40)
    assert all(map(torch.equal, kept, learner.fisher.Omega))  # only Phi goes on
    assert not any(map(torch.equal, kept, learner.fisher.Phi))


def test_a_normalised_fisher_runs_from_zero_to_one(ewc: Ewc, dataset: Dataset) -> None:
    learner = ewc(normalize_fisher=True)
    observe(learner, dataset, 0, 16)
    learner.end_task()
    Phi, Omega = (
        torch.cat([part.flatten() for part in parts])
        for parts in (learner.fisher.Phi, learner.fisher.Omega)
    )
    assert float(Omega.min()) == 0 and float(Omega.max()) == pytest.approx(1)
    torch.testing.assert_close(Omega, (Phi - Phi.min()) / (Phi.max() - Phi.min()))


def test_without_a_boundary_or_a_weight_it_is_er(
    ewc: Ewc, make: Make, plain: Augmentation, dataset: Dataset
) -> None:
    er, unbound, weightless = make("er", augment=plain), ewc(), ewc(ewc_lambda=0.0)
    for learner in (er, unbound, weightless):
        observe(learner, dataset, 0, 20)
        if learner is weightless:
            learner.end_task()
        observe(learner, dataset, 20, 40)
    for learner in (unbound, weightless):
        assert digest(learner.network.state_dict()) == digest(er.network.state_dict())


def test_a_heavy_penalty_holds_the_weights(ewc: Ewc, dataset: Dataset) -> None:
    moved = []
    for weight in (0.0, 1e4):
        learner = ewc(ewc_lambda=weight, normalize_fisher=True)
        observe(learner, dataset, 0, 40)
        learner.end_task()
        observe(learner, dataset, 40, 80)
        moved.append(penalty(learner))
    assert 0 < moved[1] < moved[0] / 10


def test_classes_may_come_after_a_boundary(ewc: Ewc, dataset: Dataset) -> None:
    learner = ewc()
    observe(learner, dataset, 0, 16)
    learner.end_task()
    for c in range(40):  # more than the head has rows
        learner.observe(dataset.train.images[c : c + 1], torch.tensor([100 + c]))
    assert learner.scores(dataset.test.images[:2]).shape == (2, 44)
    assert len(learner.fisher.Omega) == len(learner.theta)


def test_a_boundary_before_the_first_update_holds_nothing(ewc: Ewc, dataset: Dataset) -> None:
    learner = ewc()
    observe(learner, dataset, 0, 2)
    learner.end_task()
    assert learner.fisher.Omega == [] == learner.fisher.theta_star


@pytest.mark.parametrize("at", [19, 22])  # just before the boundary, and after it
def test_a_learner_saved_around_a_boundary_goes_on_exactly(
    at: int, ewc: Ewc, dataset: Dataset
) -> None:
    learner = ewc(iterations=0.75)

    def teach(learner: Learner, start: int, stop: int) -> None:
        for i in range(start, stop):
            observe(learner, dataset, i, i + 1)
            if i == 20:
                learner.end_task()

    teach(learner, 0, at)
    fresh = saved_and_loaded(learner, ewc(iterations=0.75), at)
    teach(learner, at, 40)
    teach(fresh, at, 40)
    assert digest(learner.state_dict()) == digest(fresh.state_dict())


def test_a_frozen_weight_stays_and_has_no_fisher(ewc: Ewc, dataset: Dataset) -> None:
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU(), nn.Linear(8, 8))
    backbone[1].requires_grad_(False)
    before = backbone[1].weight.clone()
    learner = EWC(backbone, ewc().setting)
    observe(learner, dataset, 0, 16)
    learner.end_task()
    observe(learner, dataset, 16, 32)
    assert len(learner.fisher.Omega) == 2
    assert torch.equal(backbone[1].weight, before)
    assert learner.scores(dataset.test.images[:2]).shape == (2, len(learner.classes))
