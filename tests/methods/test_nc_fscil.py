"""NC-FSCIL against its paper: fixed targets, one switch, replay of codes or of class means."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from earl.data.dataset import Dataset
from earl.errors import ClassCapacityError, InvalidSetting, UnknownName
from earl.learning.learner import Learner
from earl.learning.memory import Memory
from earl.learning.setting import Setting
from earl.methods.frozen.nc_fscil import NCFSCIL, ClassMeans
from earl.nn.augment import View
from earl.nn.etf import SimplexETF
from earl.nn.modes import train_forward
from earl.storage.state import digest

Make = Callable[..., Learner]
Ncfscil = Callable[..., NCFSCIL]
both = pytest.mark.parametrize("replay", ["pq", "class_mean"])


@pytest.fixture
def ncfscil(make: Make, dataset: Dataset) -> Ncfscil:
    """Make a learner whose augmentation leaves images as they are, so they can be recognised."""
    view = View(dataset.mean, dataset.std)

    def plain(x: Tensor, generator: Generator) -> Tensor:
        return view(x)

    def make_ncfscil(**given: object) -> NCFSCIL:
        learner = make("nc-fscil", augment=plain, **given)
        assert isinstance(learner, NCFSCIL)
        return learner

    return make_ncfscil


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Collects the inputs of every training pass."""
    inputs: list[Tensor] = []

    def forward(network: nn.Module, setting: Setting, x: Tensor) -> Tensor:
        inputs.append(x.detach().clone())
        return train_forward(network, x)

    monkeypatch.setattr("earl.methods.frozen.nc_fscil.forward", forward)
    return inputs


@pytest.fixture
def rolled(dataset: Dataset) -> Callable[[Tensor, Generator], Tensor]:
    """An augmentation that can be repeated, given its generator: images roll by some pixels."""
    view = View(dataset.mean, dataset.std)

    def augment(x: Tensor, generator: Generator) -> Tensor:
        steps = torch.randint(1, 8, (len(x),), generator=generator).tolist()
        return view(torch.stack([image.roll(n, 2) for image, n in zip(x, steps, strict=True)]))

    return augment


def rows_of(dataset: Dataset, n: int, first: int = 0) -> Tensor:
    """Return the rows of n samples, from the given one on, of the four classes in turn."""
    at = [(dataset.train.labels == i % 4).nonzero()[i // 4 % 40] for i in range(first, first + n)]
    return torch.cat(at)


def teach(learner: Learner, dataset: Dataset, n: int, first: int = 0) -> None:
    for row in rows_of(dataset, n, first).split(1):
        learner.observe(dataset.train.images[row], dataset.train.labels[row])


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
    torch.stack(losses).mean().backward()
    optimizer = torch.optim.Adam(before.parameters(), lr=3e-3)
    optimizer.load_state_dict(moments)  # type: ignore[arg-type]
    optimizer.step()
    for p, q in zip(before.parameters(), after.parameters(), strict=True):
        assert p.grad is not None
        sure = p.grad.abs() > 1e-6
        assert sure.any()
        torch.testing.assert_close(q[sure], p[sure], atol=2e-5, rtol=1e-4)


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
        possible = learner.divided.front(learner.setting.view(images))
        if replay == "pq":
            assert learner.divided.quantizer is not None
            possible = learner.divided.quantizer.decode(learner.divided.quantizer(possible))
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


@both
def test_front_and_targets_never_move_after_the_switch(
    replay: str, ncfscil: Ncfscil, dataset: Dataset
) -> None:
    learner = ncfscil(replay=replay)
    teach(learner, dataset, 20)
    front = {name: value.clone() for name, value in learner.divided.front.state_dict().items()}
    vectors, rest = learner.vectors().clone(), copy.deepcopy(learner.plastic.state_dict())
    assert any("running_mean" in name for name in front)
    teach(learner, dataset, 24, first=20)
    for name, value in learner.divided.front.state_dict().items():
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
    assert isinstance(learner.memory, ClassMeans) and learner.divided.quantizer is None
    teach(learner, dataset, 21, first=20)  # one of them waits

    x, y = images.take(torch.arange(9), "x", "y")
    later = rows_of(dataset, 20, first=20)
    x, y = torch.cat((x, dataset.train.images[later])), torch.cat((y, dataset.train.labels[later]))
    with torch.no_grad():
        maps = learner.divided.front(learner.setting.view(x))
    means, classes = learner.memory.sample(4, "x", "y", generator=Generator().manual_seed(0))
    assert sorted(classes.tolist()) == [0, 1, 2, 3]
    for mean, c in zip(means, classes, strict=True):
        torch.testing.assert_close(mean, maps[y == c].mean(dim=0), atol=1e-5, rtol=1e-5)
    assert means[0].nbytes == 4 * 8 * 4 * 4


@both
def test_answers_are_cosines_with_the_vectors_behind_what_the_front_gives(
    replay: str, ncfscil: Ncfscil, dataset: Dataset
) -> None:
    learner = ncfscil(replay=replay, codewords=4)
    teach(learner, dataset, 24)
    x = dataset.test.images[:20]
    plastic = copy.deepcopy(learner.plastic).eval()
    with torch.no_grad():
        maps = learner.divided.front(learner.setting.view(x))
        plain = F.normalize(plastic(maps), dim=1)
        if learner.divided.quantizer is not None:
            maps = learner.divided.quantizer.decode(learner.divided.quantizer(maps))
        f_hat = F.normalize(plastic(maps), dim=1)
    torch.testing.assert_close(learner.features(x), f_hat)
    torch.testing.assert_close(learner.scores(x), f_hat @ learner.vectors().T)
    assert torch.allclose(f_hat, plain, atol=1e-3) == (replay == "class_mean")


def test_every_update_of_a_block_replays_other_codes_with_the_same_new_ones(
    ncfscil: Ncfscil, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = ncfscil(iterations=2)
    teach(learner, dataset, 20)
    passed.clear()
    teach(learner, dataset, 4, first=20)
    assert len(passed) == 8
    assert all(torch.equal(passed[0][:4], maps[:4]) for maps in passed)
    assert len({maps[4:].numpy().tobytes() for maps in passed}) == 8


@both
@pytest.mark.parametrize("anew", [False, True])
def test_new_images_are_encoded_once_as_they_are_or_augmented_for_every_update(
    replay: str,
    anew: bool,
    make: Make,
    dataset: Dataset,
    passed: list[Tensor],
    rolled: Callable[[Tensor, Generator], Tensor],
) -> None:
    assert not make("nc-fscil").augment_stream
    learner = make("nc-fscil", augment=rolled, iterations=2, replay=replay, augment_stream=anew)
    assert isinstance(learner, NCFSCIL)
    teach(learner, dataset, 20)
    passed.clear()
    encoded, before = learner.work.counts["encoded"], copy.deepcopy(learner.memory)
    teach(learner, dataset, 4, first=20)
    raw = dataset.train.images[rows_of(dataset, 4, first=20)]
    assert len(passed) == 8
    seen = []
    for t, maps in enumerate(passed, start=40):
        view = (
            rolled(raw, learner.randomness.at(t, "augment")) if anew else learner.setting.view(raw)
        )
        seen.append(learner.divided.encode(view))
        torch.testing.assert_close(maps[:4], learner.divided.decode(seen[-1]))
    assert learner.work.counts["encoded"] - encoded == (8 * 4 if anew else 4)
    draw = learner.randomness.at(before.seen, "insert codes")
    before.add(draw, x=seen[0], y=torch.arange(4))  # what the first update has seen is kept
    assert digest(before.state_dict()) == digest(learner.memory.state_dict())


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
        learner.work.price(name)  # outside of the counter
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
    assert ncfscil(replay="class_mean", codebooks=3).divided.quantizer is None


@pytest.mark.parametrize(
    "given", [{"dimensions": -1}, {"base": 0.5}, {"frozen": 0}, {"codebooks": 3}, {"codewords": 1}]
)
def test_impossible_settings_are_refused(given: dict[str, object], ncfscil: Ncfscil) -> None:
    with pytest.raises(InvalidSetting):
        ncfscil(**given)


def test_an_unknown_kind_of_replay_is_refused(ncfscil: Ncfscil) -> None:
    with pytest.raises(UnknownName, match="class_mean"):
        ncfscil(replay="class_means")
