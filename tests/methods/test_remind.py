"""REMIND against its paper: one switch, a front that never moves, replay of codes."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from earl.data.dataset import Dataset
from earl.learning.learner import Learner
from earl.methods.frozen.quantizer import ProductQuantizer, vectors_of
from earl.methods.frozen.remind import REMIND, beta, crop_maps, mix
from remind_tools import codes_of
from teaching import teach

Make = Callable[..., Learner]


Remind = Callable[..., REMIND]


def state_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


@pytest.mark.parametrize("base", [18, 20])  # with samples that wait, and without
def test_the_switch_comes_once_after_the_base_phase_and_keeps_codes_for_images(
    base: int, remind: Remind, dataset: Dataset
) -> None:
    learner = remind(base=base, memory_size=7)
    teach(learner, dataset, base - 1)
    assert not learner.split.frozen
    assert learner.memory.state_dict()["columns"]["x"].shape[1:] == (3, 8, 8)
    images, optimizer = learner.memory, learner.optimizer
    teach(learner, dataset, 1, first=base - 1)
    assert learner.split.frozen and learner.work.updates == base and not len(learner.waiting)
    assert learner.optimizer is not optimizer and not learner.optimizer.state
    trained = {id(p) for group in learner.optimizer.param_groups for p in group["params"]}
    assert trained == {id(p) for p in learner.network.parameters() if p.requires_grad}
    assert trained == {id(p) for p in learner.plastic.parameters()}

    x, y = images.take(torch.arange(7), "x", "y")
    codes, labels = learner.memory.take(torch.arange(7), "x", "y")
    assert torch.equal(labels, y)
    assert codes.dtype == torch.uint8 and torch.equal(codes, codes_of(learner, x))
    assert learner.memory.capacity == 7 * 192 // (16 * 2)  # bytes of images over those of codes
    codebooks = state_of(learner.split)
    teach(learner, dataset, 48, first=base)
    assert torch.equal(codebooks["quantizer.codebooks"], learner.split.quantizer.codebooks)
    assert learner.memory.full and sorted(learner.memory.counts.tolist()) == [10, 10, 11, 11]


def test_blocks_without_an_update_are_augmented_each_in_its_own_way(
    make: Make, dataset: Dataset, rolled: Callable[[Tensor, Generator], Tensor]
) -> None:
    learner = make("remind", augment=rolled, iterations=0.01, augment_stream=True)
    assert isinstance(learner, REMIND)
    teach(learner, dataset, 20)
    image = dataset.train.images[:1].expand(8, -1, -1, -1)
    learner.observe(image, torch.zeros(8, dtype=torch.int64))
    assert learner.work.updates == 0
    (kept,) = learner.memory.take(torch.arange(20, 28), "x")
    for first in (20, 24):
        view = rolled(image[:4], learner.randomness.at(first, "augment codes"))
        assert torch.equal(kept[first - 20 : first - 16], learner.split.encode(view))
    assert not torch.equal(kept[:4], kept[4:])


def test_codebooks_and_stored_codes_are_of_images_as_they_are(
    make: Make,
    dataset: Dataset,
    rolled: Callable[[Tensor, Generator], Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Training images are augmented, and still the quantiser is fitted to what tests will show."""
    fitted: list[Tensor] = []
    fit = ProductQuantizer.fit

    def noted(self: ProductQuantizer, X: Tensor, generator: Generator) -> int:
        fitted.append(X.clone())
        return fit(self, X, generator)

    monkeypatch.setattr(ProductQuantizer, "fit", noted)
    learner = make("remind", augment=rolled, augment_stream=True)
    assert isinstance(learner, REMIND)
    teach(learner, dataset, 20)
    x = dataset.train.images[
        torch.cat([(dataset.train.labels == i % 4).nonzero()[i // 4] for i in range(20)])
    ]
    with torch.no_grad():
        maps = learner.split.front(learner.setting.view(x))
    (vectors,) = fitted
    torch.testing.assert_close(vectors, vectors_of(maps))
    (codes,) = learner.memory.take(torch.arange(20), "x")
    assert torch.equal(codes, codes_of(learner, x))


def test_answers_rest_on_quantised_features(remind: Remind, dataset: Dataset) -> None:
    learner = remind(codewords=4)
    teach(learner, dataset, 24)
    x = dataset.test.images[:20]
    network = copy.deepcopy(learner.network).eval()
    view = learner.setting.view(x)
    assert learner.split.quantizer is not None
    maps = learner.split.quantizer.decode(codes_of(learner, x))
    with torch.no_grad():
        h = network.backbone.rest(maps)
        plain = network.head(network.backbone.rest(network.backbone.front(view)))[:, :4]
    torch.testing.assert_close(learner.scores(x), network.head(h)[:, :4])
    assert not torch.allclose(learner.scores(x), plain, atol=1e-3)


def test_classes_that_come_after_the_switch_get_rows(remind: Remind, dataset: Dataset) -> None:
    learner = remind()
    x = dataset.train.images
    learner.observe(x[:20], torch.zeros(20, dtype=torch.int64))
    learner.observe(x[:60], torch.arange(60))  # more than were allocated ahead
    learner.finish()
    assert learner.scores(x[:3]).shape == (3, 60)
    assert torch.isfinite(learner.scores(x)).all()


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_tiny_settings_work_behind_the_front(
    batch_size: int, remind: Remind, dataset: Dataset
) -> None:
    learner = remind(memory_size=1, batch_size=batch_size, base=1, codewords=2048)
    teach(learner, dataset, 12)
    learner.finish()
    assert learner.work.updates == 12
    assert len(learner.memory) == learner.memory.capacity == 192 // (16 * 2 * 2)
    assert torch.isfinite(learner.scores(dataset.test.images)).all()


def test_a_stream_shorter_than_the_base_phase_stays_in_it(remind: Remind, dataset: Dataset) -> None:
    learner = remind(base=0.6, samples=100)
    teach(learner, dataset, 59)
    learner.finish()
    assert not learner.split.frozen and learner.work.updates == 59
    teach(learner, dataset, 1, first=59)
    assert learner.split.frozen


def test_crops_cut_a_box_from_each_map() -> None:
    columns, rows = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="xy")
    maps = torch.stack((columns, rows)).expand(400, 2, 8, 8).contiguous()
    cut = crop_maps(maps, Generator().manual_seed(0))
    assert cut.shape == maps.shape
    assert cut.min() >= 0 and cut.max() <= 7
    x, y = cut[:, 0], cut[:, 1]
    torch.testing.assert_close(x, x[:, :1].expand_as(x), atol=1e-5, rtol=0)  # axes stay straight
    width = (x[:, 0, 5] - x[:, 0, 2]) / 3  # of a step, away from the border
    height = (y[:, 5, 0] - y[:, 2, 0]) / 3
    area, ratio = width * height, width / height
    assert 2 / 7 - 1e-4 <= area.min() < 0.35 and 0.9 < area.max() <= 1 + 1e-4
    assert 0.75 - 1e-4 <= ratio.min() < 0.8 and 1.25 < ratio.max() <= 4 / 3 + 1e-4
    assert len(set(x[:, 0, 4].tolist())) > 300  # each its own


def test_mixing_joins_two_draws_and_leaves_new_rows_alone() -> None:
    rows = torch.eye(6)
    mixed = mix(rows, 2, 0.75)
    assert torch.equal(mixed[:2], rows[:2])
    assert mixed[2].tolist() == [0, 0, 0.75, 0, 0.25, 0]
    assert mixed[3].tolist() == [0, 0, 0, 0.75, 0, 0.25]
    assert torch.equal(mix(rows[:2], 2, 0.75), rows[:2])


def test_beta_draws_follow_the_generator_and_the_distribution() -> None:
    draws = torch.tensor([beta(0.5, Generator().manual_seed(i)) for i in range(2000)])
    assert beta(0.5, Generator().manual_seed(7)) == draws[7]
    assert draws.min() >= 0 and draws.max() <= 1
    assert float(draws.mean()) == pytest.approx(0.5, abs=0.03)
    assert float(draws.var()) == pytest.approx(1 / 8, abs=0.01)  # 1/(4(2α + 1))
