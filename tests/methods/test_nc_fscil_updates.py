"""What NC-FSCIL trains on, and what an update does, before and after the switch."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from earl.data.dataset import Dataset
from earl.learning.learner import Learner
from earl.methods.frozen.nc_fscil import NCFSCIL
from earl.nn.etf import SimplexETF
from earl.nn.modes import train_forward
from teaching import check_adam_step, rows_of, teach

Make = Callable[..., Learner]


Ncfscil = Callable[..., NCFSCIL]


both = pytest.mark.parametrize("replay", ["pq", "class_mean"])


def found_in(possible: Tensor, batch: Tensor) -> list[int]:
    """Return which of the possible inputs each of a batch is."""
    distance = (batch[:, None] - possible).abs().flatten(2).amax(dim=2)  # (B, N)
    assert distance.min(dim=1).values.max() < 1e-5
    return distance.argmin(dim=1).tolist()


def check_step(before: nn.Module, moments: object, after: nn.Module, x: Tensor, y: Tensor) -> None:
    """Compare with an Adam step on the mean of (⟨w_y, f/|f|⟩ − 1)² / 2, w of an ETF in R^16."""
    W = SimplexETF(16, 1).vectors(torch.arange(17)).float()
    f = train_forward(before, x)
    losses = [(f[i] / f[i].norm() @ W[c] - 1) ** 2 / 2 for i, c in enumerate(y.tolist())]
    check_adam_step(before, moments, torch.stack(losses).mean(), after)


def test_the_base_phase_pulls_images_to_fixed_vectors(
    ncfscil: Ncfscil, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = ncfscil(iterations=0.25)
    teach(learner, dataset, 15)
    before, moments = copy.deepcopy(learner.f), copy.deepcopy(learner.optimizer.state_dict())
    passed.clear()
    teach(learner, dataset, 1, first=15)
    (images,) = passed
    found = found_in(learner.setting.view(dataset.train.images), images)
    y = dataset.train.labels[torch.tensor(found)]
    assert len(y) == 8 and y[:4].tolist() == [0, 1, 2, 3]  # new ones, then memory
    check_step(before, moments, learner.f, images, y)


@both
def test_an_update_behind_the_front_pulls_what_was_kept(
    replay: str, ncfscil: Ncfscil, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = ncfscil(iterations=0.25, replay=replay)
    teach(learner, dataset, 27)
    before, moments = copy.deepcopy(learner.plastic), copy.deepcopy(learner.optimizer.state_dict())
    passed.clear()
    images = dataset.train.images[rows_of(dataset, 28)]
    with torch.no_grad():
        possible = learner.split.front(learner.setting.view(images))
        if replay == "pq":
            assert learner.split.quantizer is not None
            possible = learner.split.quantizer.decode(learner.split.quantizer(possible))
        else:
            means = [possible[c:24:4].mean(dim=0) for c in range(4)]
            possible = torch.cat((torch.stack(means), possible[4:]))
    teach(learner, dataset, 1, first=27)
    (maps,) = passed
    found = found_in(possible, maps)
    assert found[:4] == [24, 25, 26, 27] and max(found[4:]) < 24 and len(maps) == 8
    if replay == "class_mean":
        assert sorted(found[4:]) == [0, 1, 2, 3]  # every class once
    check_step(before, moments, learner.plastic, maps, torch.tensor(found) % 4)
