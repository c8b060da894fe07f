"""NC-FSCIL against its paper: fixed targets, one switch, replay of codes or of class means."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Generator
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from earl.data.dataset import Dataset
from earl.errors import ClassCapacityError
from earl.learning.memory import Memory
from earl.methods.frozen.nc_fscil import NCFSCIL, ClassMeans
from earl.storage.state import digest
from teaching import rows_of, teach

Ncfscil = Callable[..., NCFSCIL]


both = pytest.mark.parametrize("replay", ["pq", "class_mean"])


@both
def test_front_and_targets_never_move_after_the_switch(
    replay: str, ncfscil: Ncfscil, dataset: Dataset
) -> None:
    learner = ncfscil(replay=replay)
    teach(learner, dataset, 20)
    front = {name: value.clone() for name, value in learner.split.front.state_dict().items()}
    vectors, rest = learner.vectors().clone(), copy.deepcopy(learner.plastic.state_dict())
    assert any("running_mean" in name for name in front)
    teach(learner, dataset, 24, first=20)
    for name, value in learner.split.front.state_dict().items():
        assert torch.equal(value, front[name]), name
    assert torch.equal(learner.vectors(), vectors)
    moved = learner.plastic.state_dict()
    assert all(not torch.equal(value, moved[name]) for name, value in rest.items())
    W = learner.vectors().double()
    torch.testing.assert_close(
        W @ W.T, torch.full((4, 4), -1 / 16).fill_diagonal_(1).double(), atol=1e-6, rtol=0
    )


def test_class_means_are_those_of_the_memory_and_of_all_that_came_later(
    ncfscil: Ncfscil, dataset: Dataset
) -> None:
    learner = ncfscil(replay="class_mean", memory_size=9)
    teach(learner, dataset, 19)
    learner.finish()
    images = learner.memory
    assert isinstance(images, Memory) and len(images) == 9
    row = rows_of(dataset, 1, first=19)
    learner.observe(dataset.train.images[row], dataset.train.labels[row])  # the switch
    assert isinstance(learner.memory, ClassMeans) and learner.split.quantizer is None
    teach(learner, dataset, 21, first=20)  # one of them waits

    x, y = images.take(torch.arange(9), "x", "y")
    later = rows_of(dataset, 20, first=20)
    x, y = torch.cat((x, dataset.train.images[later])), torch.cat((y, dataset.train.labels[later]))
    with torch.no_grad():
        maps = learner.split.front(learner.setting.view(x))
    means, classes = learner.memory.sample(4, "x", "y", generator=Generator().manual_seed(0))
    assert sorted(classes.tolist()) == [0, 1, 2, 3]
    for mean, c in zip(means, classes, strict=True):
        torch.testing.assert_close(mean, maps[y == c].mean(dim=0), atol=1e-5, rtol=1e-5)
    assert means[0].nbytes == 4 * 8 * 8 * 8


@both
def test_answers_are_cosines_with_the_vectors_behind_what_the_front_gives(
    replay: str, ncfscil: Ncfscil, dataset: Dataset
) -> None:
    learner = ncfscil(replay=replay, codewords=4)
    teach(learner, dataset, 24)
    x = dataset.test.images[:20]
    plastic = copy.deepcopy(learner.plastic).eval()
    with torch.no_grad():
        maps = learner.split.front(learner.setting.view(x))
        plain = F.normalize(plastic(maps), dim=1)
        if learner.split.quantizer is not None:
            maps = learner.split.quantizer.decode(learner.split.quantizer(maps))
        f_hat = F.normalize(plastic(maps), dim=1)
    torch.testing.assert_close(learner.features(x), f_hat)
    torch.testing.assert_close(learner.scores(x), f_hat @ learner.vectors().T)
    assert torch.allclose(f_hat, plain, atol=1e-3) == (replay == "class_mean")


@both
@pytest.mark.parametrize(("at", "used"), [(9, 22), (22, 9), (22, 26)])
def test_the_state_of_either_phase_loads_into_a_learner_of_either(
    replay: str, at: int, used: int, ncfscil: Ncfscil, dataset: Dataset
) -> None:
    learner, other = (ncfscil(iterations=0.75, replay=replay) for _ in range(2))
    teach(learner, dataset, at)
    teach(other, dataset, used, first=3)
    other.load_state_dict(learner.state_dict())
    assert digest(other.state_dict()) == digest(learner.state_dict())
    for one in (learner, other):
        teach(one, dataset, 20, first=at)
        one.finish()
    x = dataset.test.images
    assert torch.equal(learner.scores(x), other.scores(x))
    assert digest(other.state_dict()) == digest(learner.state_dict())


@both
@pytest.mark.parametrize("anew", [False, True])
def test_work_agrees_with_torch_s_counter_in_both_phases_and_at_the_switch(
    replay: str, anew: bool, ncfscil: Ncfscil, dataset: Dataset
) -> None:
    learner = ncfscil(replay=replay, augment_stream=anew)
    teach(learner, dataset, 4)  # from here on batches are full
    for name in learner.passes():
        learner.work.flops_per_input(name)  # outside of the counter
    for n, first in ((8, 4), (8, 12), (8, 20)):  # before, up to, and after the switch
        before = learner.work.flops
        with FlopCounterMode(display=False) as counter:
            teach(learner, dataset, n, first)
        spent = learner.work.flops - before
        assert spent == pytest.approx(counter.get_total_flops(), rel=0.01), first
    counts = learner.costs()
    assert counts["images"] == 4 * 4 + 16 * 8 and counts["replayed"] == 8 * 8
    encoded = 8 * 4 if anew else 8  # blocks of four, for each of eight updates or once
    assert counts["encoded"] == (20 if replay == "pq" else 0) + 20 + encoded
    assert ("quantized" in counts) == (replay == "pq")


def test_there_is_a_vector_for_one_class_more_than_features(
    ncfscil: Ncfscil, dataset: Dataset
) -> None:
    x = dataset.train.images
    learner = ncfscil()
    learner.observe(x[:17], torch.arange(17))
    with pytest.raises(ClassCapacityError):
        learner.observe(x[:1], torch.tensor([17]))
    wide = ncfscil(dimensions=30)
    wide.observe(x[:31], torch.arange(31))
    assert wide.scores(x[:2]).shape == (2, 31) and wide.features(x[:2]).shape == (2, 30)


def test_of_class_means_nothing_has_to_divide(ncfscil: Ncfscil) -> None:
    assert ncfscil(replay="class_mean", codebooks=3).split.quantizer is None
