"""The bookkeeping of compute, against torch's own counter around real updates."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from earl.data.dataset import Dataset
from earl.errors import EarlError
from earl.learning.learner import Learner
from earl.learning.pace import Pace
from earl.learning.work import Pass, Work, flops
from earl.nn.build import build
from earl.nn.resnet import ResNet
from kin import every_method
from plain_setting import setting

Make = Callable[..., Learner]


def linear(rows: int, columns: int, trains: bool = True, key: object = None) -> Pass:
    return Pass(nn.Linear(columns, rows, bias=False), (columns,), trains, key)


def test_a_linear_layer_costs_two_operations_per_weight_and_as_many_for_its_gradient() -> None:
    assert flops(linear(3, 5, trains=False)) == 2 * 3 * 5
    assert flops(linear(3, 5)) == 2 * 2 * 3 * 5  # no gradient of the input is needed


def test_frozen_layers_below_cost_nothing_backwards_and_frozen_ones_above_pass_it_on() -> None:
    low, high = nn.Linear(5, 4, bias=False), nn.Linear(4, 3, bias=False)
    network = nn.Sequential(low, high)
    low.requires_grad_(False)
    assert flops(Pass(network, (5,))) == 2 * 20 + 2 * 12 + 2 * 12
    low.requires_grad_(True), high.requires_grad_(False)
    assert flops(Pass(network, (5,))) == 2 * 20 + 2 * 12 + 2 * 12 + 2 * 20


def test_pricing_changes_neither_parameters_nor_statistics_nor_gradients() -> None:
    network = build(lambda: ResNet(depth=8, width=2), torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    flops(Pass(network, (3, 8, 8)))
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())


def test_work_counts_updates_and_passes_and_survives_a_restart() -> None:
    def passes() -> dict[str, Pass]:
        return {"images": linear(1, 8), "forwards": linear(1, 8, trains=False)}

    old, new = Work(passes), Work(passes)
    old.add(images=16)
    old.count(forwards=5)
    old.add(images=3)
    new.load_state_dict(old.state_dict())
    costs = {"updates": 2, "images": 19, "forwards": 5, "flops": 19 * 32 + 5 * 16}
    assert new.costs() == {**costs, "skipped_steps": 0}
    assert new.last == 3 * 32 + 5 * 16
    for work in (old, new):
        work.add(images=1)
    assert old.state_dict() == new.state_dict()


def test_a_pass_is_priced_anew_when_its_key_changes() -> None:
    sizes = [4]
    work = Work(lambda: {"images": linear(1, sizes[0], key=sizes[0])})
    work.add(images=1)
    sizes[0] = 6
    work.add(images=1)
    assert work.flops == 2 * 2 * 4 + 2 * 2 * 6


# What is not counted as a pass, as a share of a network as tiny as this one; others count all.
BESIDE = {"scr": 0.04, "memo": 0.03}  # similarities of all pairs; a second head
BESIDE |= {"er-mir": 0.01, "remind": 0.01, "nc-fscil": 0.01}
BESIDE |= {"x-der": 0.003, "earl-learnable": 0.001}


@pytest.mark.parametrize("name", every_method())
def test_the_flops_of_a_stream_are_what_torch_counts(
    name: str, make: Make, dataset: Dataset
) -> None:
    """Where the memory fills up and the base phase ends, and later."""
    learner = make(name, memory_size=12, **({"base": 12} if name in ("remind", "nc-fscil") else {}))
    order = torch.randperm(len(dataset.train), generator=torch.Generator().manual_seed(0))[:28]
    x, y = dataset.train.images[order], dataset.train.labels[order]
    for part in torch.arange(28).split(14):
        learner.observe(x[part[:10]], y[part[:10]])  # prices passes, which would be counted too
        before = learner.work.flops
        with FlopCounterMode(display=False) as counter:
            learner.observe(x[part[10:]], y[part[10:]])
        counted = counter.get_total_flops()
        assert learner.work.flops - before == pytest.approx(counted, rel=BESIDE.get(name, 0))
        learner.end_task()


# ---- earning FLOPs


@pytest.mark.parametrize("earned", [1, 7, 32, 33, 1000])
@pytest.mark.parametrize("images", [1, 5])
def test_updates_come_as_they_are_earned(earned: int, images: int) -> None:
    work = Work(lambda: {"images": linear(1, 8)})  # 32 FLOPs each
    pace = Pace(setting(flops=earned), work)
    for n in range(1, 300):
        for _ in pace.owed(1):
            work.add(images=images)
        assert earned * n - 32 * images < work.flops <= max(earned * n, 32 * images)


def test_a_step_that_grows_dearer_overdraws_once_at_most() -> None:
    size = [1]
    work = Work(lambda: {"images": linear(1, size[0], key=size[0])})
    pace = Pace(setting(flops=100.0), work)
    for n in range(1, 200):
        for _ in pace.owed(1):
            size[0] = 1 + n // 10
            work.add(images=10)
        assert 100 * n - 40 * size[0] <= work.flops <= 100 * n + 40 * size[0]


def test_an_update_that_costs_nothing_would_never_end_and_is_refused() -> None:
    work = Work(dict)
    with pytest.raises(EarlError, match="no FLOPs"):
        for _ in Pace(setting(flops=1.0), work).owed(1):
            work.add()
