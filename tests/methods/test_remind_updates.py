"""What REMIND trains on, and what an update does, before and after the switch."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from earl.data.dataset import Dataset
from earl.learning.learner import Learner
from earl.methods.frozen.remind import REMIND
from earl.nn.modes import train_forward
from remind_tools import codes_of
from teaching import check_adam_step, teach

Make = Callable[..., Learner]


Remind = Callable[..., REMIND]


def cross_entropy(z: Tensor, y: list[int]) -> Tensor:
    return -torch.stack([z[i].log_softmax(0)[c] for i, c in enumerate(y)]).mean()


def test_the_base_phase_is_replay_of_images_from_a_balanced_memory(
    remind: Remind, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = remind(iterations=0.25, memory_size=6)
    teach(learner, dataset, 15)
    before, moments = copy.deepcopy(learner.network), copy.deepcopy(learner.optimizer.state_dict())
    assert sorted(learner.memory.counts.tolist()) == [1, 1, 2, 2]
    passed.clear()
    teach(learner, dataset, 1, first=15)
    (images,) = passed
    stored = learner.setting.view(dataset.train.images)
    found = [next(i for i in range(len(stored)) if torch.equal(stored[i], x)) for x in images]
    y = learner.classes.numbers(dataset.train.labels[torch.tensor(found)]).tolist()
    assert len(images) == 8 and y[:4] == [0, 1, 2, 3]

    loss = cross_entropy(train_forward(before, images)[:, :4], y)
    check_adam_step(before, moments, loss, learner.network)


def test_an_update_behind_the_front_is_an_adam_step_on_decoded_codes(
    remind: Remind, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = remind(iterations=0.25)
    teach(learner, dataset, 27)
    before, moments = copy.deepcopy(learner.plastic), copy.deepcopy(learner.optimizer.state_dict())
    passed.clear()
    teach(learner, dataset, 1, first=27)
    (maps,) = passed
    assert maps.shape == (8, *learner.split.map_shape) and learner.split.quantizer is not None

    rows = [(dataset.train.labels == i % 4).nonzero()[i // 4] for i in range(28)]
    possible = learner.split.quantizer.decode(
        codes_of(learner, dataset.train.images[torch.cat(rows)])
    )
    found = [[i for i in range(28) if torch.equal(possible[i], one)] for one in maps]
    assert [24 + i in found[i] for i in range(4)] == [True] * 4  # the new ones, then stored ones
    assert all(min(i) < 24 for i in found[4:])
    y = [i[0] % 4 for i in found]
    loss = cross_entropy(train_forward(before, maps)[:, :4], y)
    check_adam_step(before, moments, loss, learner.plastic)


def test_mixup_trains_on_distributions_and_both_are_off_by_default(
    remind: Remind, dataset: Dataset, passed: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    targets: list[Tensor] = []
    step = REMIND._step

    def recorded(learner: REMIND, z: Tensor, of: Tensor) -> None:
        targets.append(of)
        step(learner, z, of)

    monkeypatch.setattr(REMIND, "_step", recorded)
    seen: dict[bool, list[Tensor]] = {}
    for on in (False, True):
        learner = remind(crops=on, mixup=0.9 if on else 0.0)
        assert on or not (remind().crops or remind().mixup)
        teach(learner, dataset, 20)
        passed.clear(), targets.clear()
        teach(learner, dataset, 4, first=20)
        seen[on] = list(passed)
        assert all(maps.shape == (8, 8, 4, 4) for maps in passed)
        for target in targets:
            assert target.shape == ((8, 4) if on else (8,))
            if on:
                torch.testing.assert_close(target.sum(dim=1), torch.ones(8))
                assert torch.equal(target[:4], torch.eye(4))
                assert (target >= 0).all() and ((target[4:] > 0).sum(dim=1) <= 2).all()
    assert any((target > 0).sum(dim=1).max() == 2 for target in targets)  # the draws differ
    assert not torch.equal(seen[False][0][:4], seen[True][0][:4])  # cropped
    assert torch.equal(seen[False][0][:4], seen[False][1][:4])
