"""Steps that are not finite: nothing of them stays, on devices that nobody waits for either."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from contract_again import shorten_networks
from earl.experiments.catalogue import METHODS
from earl.experiments.contract import CHECKS, fault, maker
from earl.experiments.contract.checks import samples, teach
from earl.experiments.contract.guards import finite
from earl.experiments.contract.steps import Spoiler
from earl.learning.passes import adam
from earl.methods.ewc import Fisher
from earl.methods.oddl.rmsprop import RMSprop
from earl.nn.modes import train_forward
from earl.nn.steps import chosen, differentiate, forget_passes, take_step, telling
from earl.storage.state import digest
from kin import CLOSED_FORM

NAN, INF = math.nan, math.inf
Optimizers = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Optimizers] = {
    "adam": lambda weights: adam(weights, 1e-3),
    "rmsprop": lambda weights: RMSprop(weights, 1e-3),
    "torch's rmsprop": lambda weights: torch.optim.RMSprop(weights, 1e-3),
    "sgd": lambda weights: torch.optim.SGD(weights, 1e-3, momentum=0.9),
}


@pytest.fixture
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """All numbers are taken for those of a device that would have to be waited for."""
    monkeypatch.setattr("earl.nn.steps.is_here", lambda loss: False)


@pytest.fixture(params=["here", "elsewhere"])
def where(request: pytest.FixtureRequest) -> str:
    if request.param == "elsewhere":
        request.getfixturevalue("nobody_waits")
    return str(request.param)


def network(seed: int = 0) -> nn.Module:
    part = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    generator = torch.Generator().manual_seed(seed)
    for p in part.parameters():
        p.data.uniform_(-1, 1, generator=generator)
    return part


def step(part: nn.Module, optimizer: torch.optim.Optimizer, factor: float = 1.0) -> bool:
    """Take a step on random numbers with a loss, and so gradients, of any size."""
    x = torch.rand(8, 4, generator=torch.Generator().manual_seed(1))
    loss = factor * part.train()(x).square().mean()
    differentiate(loss, optimizer)
    return bool(take_step(loss, optimizer))


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("factor", [NAN, INF, 1e30])
def test_nothing_stays_of_a_step_whose_loss_or_gradient_is_not_finite(
    name: str, factor: float, where: str
) -> None:
    """A gradient of 1e30 is finite, but the moment that is made of its square is not."""
    part = network()
    optimizer = OPTIMIZERS[name](list(part.parameters()))
    for sound in (True, False, True, False, False, True):
        before = digest([part.state_dict(), optimizer.state_dict()])
        part.train()
        forget_passes()
        x = torch.rand(8, 4, generator=torch.Generator().manual_seed(1))
        loss = (1.0 if sound else factor) * train_forward(part, x).square().mean()
        differentiate(loss, optimizer)
        assert bool(take_step(loss, optimizer)) is sound
        assert (digest([part.state_dict(), optimizer.state_dict()]) == before) is not sound


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_first_step_that_is_not_taken_counts_for_nothing(name: str, where: str) -> None:
    one, other = network(), network()
    of_one, of_other = (OPTIMIZERS[name](list(part.parameters())) for part in (one, other))
    assert not step(one, of_one, NAN)
    one.load_state_dict(network().state_dict())  # nobody has remembered its buffers here
    for part, optimizer in ((one, of_one), (other, of_other)):
        assert step(part, optimizer)
    assert digest(one.state_dict()) == digest(other.state_dict())


def test_a_loss_may_be_infinite_where_its_gradient_is_finite() -> None:
    w = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([w], lr=1.0)
    loss = w.sum() + INF * w.sum().detach()
    differentiate(loss, optimizer)
    assert take_step(loss, optimizer) is False and w.tolist() == [1, 1, 1]
    differentiate(w.sum(), optimizer)
    assert take_step(w.sum(), optimizer) is True and w.tolist() == [0, 0, 0]


def test_of_several_passes_before_a_step_all_are_undone() -> None:
    part = network()
    optimizer = adam(part.parameters(), 1e-3)
    before = digest(part.state_dict())
    first = train_forward(part, torch.rand(8, 4, generator=torch.Generator().manual_seed(1)))
    second = train_forward(part, torch.rand(8, 4, generator=torch.Generator().manual_seed(2)))
    loss = INF * (first + second).sum()
    differentiate(loss, optimizer)
    assert take_step(loss, optimizer) is False
    assert digest(part.state_dict()) == before


def test_passes_of_another_step_are_let_alone() -> None:
    one, other = network(1), network(2)
    optimizer = adam(other.parameters(), 1e-3)
    train_forward(one, torch.rand(8, 4, generator=torch.Generator().manual_seed(1)))
    moved = digest(one.state_dict())
    forget_passes()  # as every learner does when it is given samples
    assert not step(other, optimizer, NAN)
    assert digest(one.state_dict()) == moved


@settings(max_examples=200)
@given(st.lists(st.floats(-1024, 1024, width=32), min_size=1, max_size=5))
def test_a_finite_loss_is_not_changed_by_a_bit(values: list[float]) -> None:
    w = torch.tensor(values, requires_grad=True)
    plain, told = w.sin().sum(), telling(w.sin().sum())
    assert digest(plain) == digest(told)
    assert digest(torch.autograd.grad(plain, w)[0]) == digest(torch.autograd.grad(told, w)[0])


@pytest.mark.parametrize("value", [NAN, INF])
def test_a_loss_that_is_not_finite_tells_its_gradients(value: float) -> None:
    w = torch.ones(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(telling(w.sum() + value), w)
    assert gradient.isnan().all()


def test_what_a_device_alone_knows_is_chosen_there() -> None:
    new, old = torch.tensor([NAN, 1.0]), torch.tensor([2.0, 3.0])
    for taken, expected in ((torch.tensor(False), old), (torch.tensor(True), new)):
        assert digest(chosen(taken, new, old)) == digest(expected)
        assert digest(chosen(bool(taken), new, old)) == digest(expected)


def test_a_fisher_diagonal_takes_no_gradients_of_a_step_that_was_not_taken() -> None:
    g, spoilt = [torch.tensor([1.0, 2.0])], [torch.tensor([NAN, INF])]
    for no in (False, torch.tensor(False)):
        fisher = Fisher(0.5, False)
        fisher.update(g)
        fisher.update(spoilt, no)
        assert fisher.Phi[0].tolist() == [1, 4]
        first = Fisher(0.5, False)
        first.update(spoilt, no)
        assert all(Phi.isfinite().all() for Phi in first.Phi)


FEW = ("earl", "ewc")  # stored features, gradients; with two losses `oddl` takes seconds
elsewhere = pytest.mark.parametrize(
    "name",
    [
        name if name in FEW else pytest.param(name, marks=pytest.mark.slow)
        for name in METHODS.names()
        if name not in CLOSED_FORM
    ],
)


UNDONE, ENDS = "a_step_that_is_not_finite_is_undone", "learning_ends_where_no_step_is_taken"


@elsewhere
@pytest.mark.parametrize("check", [UNDONE, ENDS])
@pytest.mark.usefixtures("nobody_waits")
def test_the_contract_of_steps_where_nobody_waits(
    name: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_networks(monkeypatch)
    assert fault(CHECKS[check], maker(METHODS[name])) == ""


@pytest.mark.parametrize(
    ("check", "part", "wrong"),
    [
        (UNDONE, "earl.nn.steps._step_where", lambda sound, optimizer: optimizer.step()),
        (UNDONE, "earl.nn.steps._put_back", lambda unless: None),
        (ENDS, "earl.learning.progress.PATIENCE", 10**9),
    ],
)
@pytest.mark.usefixtures("nobody_waits")
def test_that_contract_is_seen_to_be_broken(
    check: str, part: str, wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, wrong)
    shorten_networks(monkeypatch)
    assert "ContractBroken" in fault(CHECKS[check], maker(METHODS["er"]))


@elsewhere
def test_finite_steps_give_the_same_bits_where_nobody_waits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learners = [maker(METHODS[name])() for _ in range(2)]
    x, y = samples(24)
    teach(learners[0], x, y)
    monkeypatch.setattr("earl.nn.steps.is_here", lambda loss: False)
    teach(learners[1], x, y)
    one, other = (copy.deepcopy(learner.state_dict()) for learner in learners)
    assert digest(one) == digest(other)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["loss", "gradient"])
@pytest.mark.parametrize("name", [n for n in METHODS.names() if n not in CLOSED_FORM])
def test_fifty_random_updates_that_are_not_finite_leave_nothing_behind(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("earl.learning.progress.PATIENCE", 10**9)
    spoiler = Spoiler(kind)
    learner = maker(METHODS[name])(ranks=spoiler)
    x, y = samples(160)
    order = 10 + torch.randperm(150, generator=torch.Generator().manual_seed(0))
    spoilt = set(order[:50].tolist()) - {23}  # there blocks are frozen after the updates
    for i in range(len(y)):
        if i in spoilt:
            with spoiler.spoiling(learner):
                learner.observe(x[i : i + 1], y[i : i + 1])
            spoiler.compare(learner)
        else:
            learner.observe(x[i : i + 1], y[i : i + 1])
    assert learner.work.progress.skipped_steps >= 20
    assert finite(learner) and learner.scores(x).isfinite().all()


class Rotten(nn.Module):
    """A backbone of somebody else's with a number that it moves by itself."""

    moved: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("moved", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.moved += 1
        y: Tensor = self.layer(x)
        return y


def test_any_buffer_is_put_back_not_only_those_of_batch_norm() -> None:
    part = Rotten()
    optimizer = adam(part.parameters(), 1e-3)
    before = digest(part.state_dict())
    loss = INF * train_forward(part, torch.ones(2, 4)).sum()
    differentiate(loss, optimizer)
    assert take_step(loss, optimizer) is False
    assert digest(part.state_dict()) == before
