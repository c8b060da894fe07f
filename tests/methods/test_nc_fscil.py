"""NC-FSCIL against its paper: fixed targets, one switch, replay of codes or of class means."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Generator
from torch.nn import functional as F

from earl.data.dataset import Dataset
from earl.errors import ClassCapacityError
from earl.learning.memory import Memory
from earl.methods.frozen.nc_fscil import NCFSCIL, ClassMeans
from teaching import rows_of, teach

Ncfscil = Callable[..., NCFSCIL]


both = pytest.mark.parametrize("replay", ["pq", "class_mean"])


def test_targets_are_equiangular_and_never_move(ncfscil: Ncfscil, dataset: Dataset) -> None:
    learner = ncfscil()
    teach(learner, dataset, 20)
    vectors = learner.vectors().clone()
    teach(learner, dataset, 24, first=20)
    assert torch.equal(learner.vectors(), vectors)
    W = vectors.double()
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
