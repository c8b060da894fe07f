"""DER++ against its paper: the update recomputed naively, and what happens to stored logits."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from earl.datasets.dataset import Dataset
from earl.errors import InvalidSetting
from earl.learner import Learner, Setting
from earl.losses import known_mse
from earl.memory import Memory, reservoir
from earl.methods.derpp import DERpp
from earl.networks import train_forward
from earl.transforms import View

Make = Callable[..., DERpp]
Passes = list[tuple[Tensor, Tensor]]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    """Collects the images and the logits of every training pass."""
    seen: Passes = []

    def forward(network: nn.Module, setting: Setting, x: Tensor) -> Tensor:
        z = train_forward(network, x)
        seen.append((x.detach().clone(), z.detach().clone()))
        return z

    monkeypatch.setattr("earl.methods.derpp.forward", forward)
    return seen


@pytest.fixture
def derpp(make: Callable[..., Learner], dataset: Dataset) -> Make:
    """Makes a learner whose augmentation leaves images as they are."""
    view = View(dataset.mean, dataset.std)

    def plain(x: Tensor, generator: Generator) -> Tensor:
        return view(x)

    def make_learner(**given: object) -> DERpp:
        learner = make("der++", **{"augment": plain, **given})
        assert isinstance(learner, DERpp)
        return learner

    return make_learner


def sample(dataset: Dataset, i: int) -> tuple[Tensor, Tensor]:
    """Return the i-th sample of a stream in which the four classes alternate irregularly."""
    at = torch.tensor([i * 37 % len(dataset.train)])
    return dataset.train.images[at], dataset.train.labels[at]


def observe(learner: Learner, dataset: Dataset, start: int, stop: int) -> None:
    for i in range(start, stop):
        learner.observe(*sample(dataset, i))


def column(memory: Memory, name: str) -> Tensor:
    return memory.take(torch.arange(len(memory)), name)[0]


def one_adam_step(parameters: list[Tensor], loss: Tensor, lr: float) -> list[Tensor]:
    """Adam's first step: its corrected moments are g and g², so every entry moves by lr·sign."""
    gradients = torch.autograd.grad(loss, parameters)
    return [
        (p - lr * g / (g.square().sqrt() + 1e-8)).detach()
        for p, g in zip(parameters, gradients, strict=True)
    ]


def test_an_update_is_an_adam_step_on_labels_and_masked_logits(
    derpp: Make, dataset: Dataset, passes: Passes
) -> None:
    """B = 8: two new samples, two with labels, four with the logits they had when they arrived."""
    learner = derpp(iterations=0.125, alpha=0.7, beta=0.4)
    observe(learner, dataset, 0, 7)
    assert not passes  # the first update comes with the eighth sample
    before = copy.deepcopy(learner.network)
    stream = [sample(dataset, i) for i in range(8)]
    with torch.inference_mode():  # nothing was trained, so these logits are those of any time
        asked = before.eval()(learner.setting.view(torch.cat([x for x, _ in stream])))
    known, classes = [], []
    for i in range(8):
        ids = [int(y) for _, y in stream[: i // 2 * 2 + 2]]  # blocks of two
        known.append(len(set(ids)))
        classes.append(list(dict.fromkeys(int(y) for _, y in stream)).index(int(stream[i][1])))
    assert known[0] < known[5]  # some logits are older than some classes

    observe(learner, dataset, 7, 8)
    ((images, _),) = passes
    raw = learner.setting.view(torch.cat([x for x, _ in stream]))
    place = [next(i for i in range(8) if torch.allclose(raw[i], image)) for image in images]
    assert place[:2] == [6, 7] and sorted(place[2:]) == list(range(6))
    z = train_forward(before, images)[:, : len(learner.classes)]
    entropy = [z[k].logsumexp(0) - z[k, classes[i]] for k, i in enumerate(place)]
    errors = [
        (z[k, c] - asked[place[k], c]) ** 2 for k in range(4, 8) for c in range(known[place[k]])
    ]
    loss = sum(entropy[:2]) / 2 + 0.4 * sum(entropy[2:4]) / 2 + 0.7 * sum(errors) / len(errors)
    expected = one_adam_step(list(before.parameters()), loss, learner.setting.lr)
    for p, e in zip(learner.network.parameters(), expected, strict=True):
        torch.testing.assert_close(p.detach(), e, atol=2e-5, rtol=1e-4)


def test_stored_logits_are_those_of_the_last_update_with_the_sample(
    derpp: Make, dataset: Dataset, passes: Passes
) -> None:
    learner = derpp(iterations=2)
    observe(learner, dataset, 0, 8)
    stored, n = column(learner.memory, "logits"), len(learner.classes)
    assert len(passes) == 16
    for block in range(4):
        _, z = passes[4 * block + 3]  # two samples times two iterations
        for k in range(2):
            known = ~stored[2 * block + k].isnan()
            assert known.any()
            assert torch.equal(stored[2 * block + k][known], z[k, : len(known)][known])
    assert torch.equal(stored[6:, :n], passes[-1][1][:2, :n])
    assert learner.work.forwards == 0


def test_logits_of_classes_that_came_later_are_never_known(derpp: Make, dataset: Dataset) -> None:
    """Not when the column grows, not by training."""
    learner = derpp(memory_size=200, iterations=0.1)
    for i in range(100):
        learner.observe(dataset.train.images[i : i + 1], torch.tensor([i // 2]))
    stored = column(learner.memory, "logits")
    assert 50 <= stored.shape[1] <= 50 * 9 / 8
    for i in range(100):
        known = i // 2 + 1
        assert stored[i, :known].isfinite().all() and stored[i, known:].isnan().all()
    before = stored.clone()
    for i in range(100, 150):
        learner.observe(dataset.train.images[i : i + 1], torch.tensor([i]))
    after = column(learner.memory, "logits")
    assert 100 <= after.shape[1] <= 100 * 9 / 8
    width = before.shape[1]
    torch.testing.assert_close(after[:100, :width], before, rtol=0, atol=0, equal_nan=True)
    assert after[:100, width:].isnan().all()
    assert torch.isfinite(learner.scores(dataset.test.images[:5])).all()


def test_as_many_logits_are_stored_as_images(derpp: Make, dataset: Dataset) -> None:
    learner = derpp(memory_size=7)
    observe(learner, dataset, 0, 60)
    assert column(learner.memory, "logits").shape == (7, 4)
    assert learner.memory.nbytes() == {"x": 7 * 3 * 8 * 8, "y": 7 * 8, "logits": 7 * 4 * 4}


def test_a_block_without_an_update_gets_the_logits_of_an_answer(
    derpp: Make, dataset: Dataset
) -> None:
    learner = derpp(iterations=0.01)
    observe(learner, dataset, 0, 2)
    x = torch.cat([sample(dataset, i)[0] for i in range(2)])
    n = len(learner.classes)
    torch.testing.assert_close(column(learner.memory, "logits")[:, :n], learner.scores(x))
    assert learner.work.forwards == 2 and learner.work.updates == 0


def test_known_mse_is_a_mean_over_what_is_known() -> None:
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(5, 4, generator=generator, requires_grad=True)
    stored = torch.randn(5, 4, generator=generator)
    stored[torch.rand(5, 4, generator=generator) < 0.4] = math.nan
    pairs = [(i, j) for i in range(5) for j in range(4) if not math.isnan(stored[i, j])]
    loss = known_mse(z, stored)
    expected = sum((z[i, j] - stored[i, j]) ** 2 for i, j in pairs) / len(pairs)
    torch.testing.assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, z)
    assert gradient[stored.isnan()].eq(0).all() and gradient[~stored.isnan()].ne(0).all()
    nothing = known_mse(z, torch.full((5, 4), math.nan))
    assert float(nothing.detach()) == 0 and torch.autograd.grad(nothing, z)[0].eq(0).all()
    assert float(known_mse(z[:0], stored[:0]).detach()) == 0


def test_a_column_is_widened_with_nan() -> None:
    memory = Memory(3, reservoir)
    memory.widen("logits", 5)  # there is none yet
    memory.add(torch.Generator(), y=torch.tensor([0, 1]), logits=torch.ones(2, 2))
    memory.widen("logits", 1)
    assert column(memory, "logits").shape == (2, 2)
    memory.widen("logits", 4)
    stored = column(memory, "logits")
    assert stored[:, :2].eq(1).all() and stored[:, 2:].isnan().all()


def test_memory_images_are_drawn_anew_and_none_comes_twice(
    derpp: Make, dataset: Dataset, passes: Passes
) -> None:
    learner = derpp(iterations=3, memory_size=40)
    observe(learner, dataset, 0, 41)
    learner.finish()
    images = [x for x, _ in passes]
    assert [len(x) for x in images[-9:]] == [8] * 9  # also when one sample waits alone
    assert all(len({i.numpy().tobytes() for i in x}) == len(x) for x in images)
    block = images[-9:-3]  # three iterations for each of two samples
    assert all(torch.equal(x[:2], block[0][:2]) for x in block)
    assert len({x[2:].numpy().tobytes() for x in block}) == 6


def test_an_update_costs_as_much_as_one_of_er(
    derpp: Make, make: Callable[..., Learner], dataset: Dataset
) -> None:
    learner, er = derpp(), make("er")
    for one in (learner, er):
        observe(one, dataset, 0, 20)
    images, updates = learner.work.images, learner.work.updates
    reference, its = er.work.images, er.work.updates
    for one in (learner, er):
        observe(one, dataset, 20, 60)
    assert learner.work.images - images == 8 * (learner.work.updates - updates) == 8 * 40
    assert er.work.images - reference == 8 * (er.work.updates - its) == 8 * 40


def test_spare_rows_are_stored_and_regressed_but_never_answered(
    derpp: Make, dataset: Dataset
) -> None:
    learner = derpp(future=3, memory_size=40)
    fresh = learner.network.head.weight.detach().clone()
    observe(learner, dataset, 0, 20)
    stored, n = column(learner.memory, "logits"), len(learner.classes)
    assert stored[-1, : n + 3].isfinite().all() and stored[-1, n + 3 :].isnan().all()
    assert learner.scores(dataset.test.images[:2]).shape == (2, n)
    moved = (learner.network.head.weight != fresh).any(dim=1)
    assert moved[: n + 3].all() and not moved[n + 3 :].any()


@pytest.mark.parametrize("given", [{"alpha": -0.1}, {"beta": -0.1}, {"future": -1}], ids=str)
def test_negative_settings_are_refused(given: dict[str, object], derpp: Make) -> None:
    with pytest.raises(InvalidSetting):
        derpp(**given)
