"""DER++ against its paper: the update recomputed naively, and what happens to stored logits."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from earl.data.dataset import Dataset
from earl.learning.learner import Learner
from earl.learning.memory import Memory
from earl.methods.derpp import DERpp, hold
from earl.nn.augment import View
from earl.nn.modes import train_forward
from earl.storage.state import digest

Make = Callable[..., DERpp]
Passes = list[tuple[Tensor, Tensor]]


def sample(dataset: Dataset, i: int) -> tuple[Tensor, Tensor]:
    """Return the i-th sample of a stream in which the four classes alternate irregularly."""
    at = torch.tensor([i * 37 % len(dataset.train)])
    return dataset.train.images[at], dataset.train.labels[at]


def observe(learner: Learner, dataset: Dataset, start: int, stop: int) -> None:
    for i in range(start, stop):
        learner.observe(*sample(dataset, i))


def column(memory: Memory, name: str) -> Tensor:
    return memory.take(torch.arange(len(memory)), name)[0]


def target(
    asked: Tensor, c: int, *, then: int, now: int, future: int, unknown: str
) -> Tensor | None:
    """Return what column c should be for an image that had logits `asked` with fewer classes."""
    if c < then or (unknown == "hold" and c < then + future):
        return asked[c]
    if unknown == "hold" and future and c < now:  # there was no row for this class: as a spare one
        return sum(asked[then : then + future]) / future
    return torch.zeros(()) if unknown == "zero" else None


@pytest.mark.parametrize("unknown", ["hold", "zero", "mask"])
@pytest.mark.parametrize("future", [0, 1, 10])
@pytest.mark.parametrize("samples", [8, 9], ids=["full block", "short last block"])
def test_an_update_is_an_adam_step_on_labels_and_old_logits_over_all_columns(
    samples: int, future: int, unknown: str, derpp: Make, dataset: Dataset, passes: Passes
) -> None:
    """B = 8: two new samples (one at the end), two with labels, the others with old logits."""
    given = {"alpha": 0.7, "beta": 0.4, "future": future, "unknown": unknown}
    learner = derpp(iterations=1 / samples, **given)
    observe(learner, dataset, 0, samples - 1)
    assert not passes  # the first update comes with the last sample
    before = copy.deepcopy(learner.network)
    stream = [sample(dataset, i) for i in range(samples)]
    with torch.inference_mode():  # nothing was trained, so these logits are those of any time
        asked = before.eval()(learner.setting.view(torch.cat([x for x, _ in stream])))
    ids = [int(y) for _, y in stream]
    known = [len(set(ids[: i // 2 * 2 + 2])) for i in range(samples)]  # blocks of two
    classes = [list(dict.fromkeys(ids)).index(c) for c in ids]
    assert known[0] < known[5]  # some logits are older than some rows, whatever `future` is

    observe(learner, dataset, samples - 1, samples)
    learner.finish()
    ((images, _),) = passes
    raw = learner.setting.view(torch.cat([x for x, _ in stream]))
    place = [next(i for i in range(samples) if torch.allclose(raw[i], image)) for image in images]
    w = 2 if samples == 8 else 1
    assert place[:w] == list(range(samples - w, samples)) and len(set(place)) == 8
    z = train_forward(before, images)[:, : len(learner.classes) + future]
    entropy = [z[k].logsumexp(0) - z[k, classes[i]] for k, i in enumerate(place)]
    errors = []
    for k in range(w + 2, 8):
        for c in range(z.shape[1]):
            n = {"then": known[place[k]], "now": len(learner.classes)}
            wanted = target(asked[place[k]], c, **n, future=future, unknown=unknown)
            errors += [] if wanted is None else [(z[k, c] - wanted) ** 2]
    labels = 0.4 * sum(entropy[w : w + 2]) / 2
    loss = sum(entropy[:w]) / w + labels + 0.7 * sum(errors) / len(errors)
    parameters = list(before.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    for p, p_0, g in zip(learner.network.parameters(), parameters, gradients, strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.grad, g, atol=1e-5, rtol=1e-4)
        step = learner.setting.lr * p.grad / (p.grad.abs() + 1e-8)  # Adam's first
        torch.testing.assert_close(p.detach(), (p_0 - step).detach())


def test_classes_without_a_row_then_are_held_at_the_mean_of_the_rows_that_were_spare() -> None:
    stored = torch.randn(6, 9, generator=torch.Generator().manual_seed(1))
    lengths = (9, 8, 5, 3, 4, 9)
    for row, known in enumerate(lengths):
        stored[row, known:] = math.nan
    held = hold(stored, 3, n=7)
    for row, known in enumerate(lengths):
        assert torch.equal(held[row, :known], stored[row, :known])
        mean = sum(float(stored[row, c]) for c in range(known - 3, known)) / 3
        assert all(float(v) == pytest.approx(mean, abs=1e-6) for v in held[row, known:7])
        assert held[row, max(7, known) :].isnan().all()


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


@pytest.mark.parametrize(("unknown", "spare"), [("hold", 10), ("zero", 0), ("mask", 0)])
def test_stored_logits_stay_as_they_are_when_classes_come(
    unknown: str, spare: int, derpp: Make, dataset: Dataset
) -> None:
    """Neither a wider column nor training changes them; rows without a logit stay without one."""
    learner = derpp(memory_size=200, iterations=0.1, unknown=unknown)
    for i in range(100):
        learner.observe(dataset.train.images[i : i + 1], torch.tensor([i // 2]))
    stored = column(learner.memory, "logits")
    assert 60 <= stored.shape[1] <= 60 * 9 / 8
    for i in range(100):
        known = i // 2 + 1 + spare
        assert stored[i, :known].isfinite().all() and stored[i, known:].isnan().all()
    before = stored.clone()
    for i in range(100, 150):
        learner.observe(dataset.train.images[i : i + 1], torch.tensor([i]))
    after = column(learner.memory, "logits")
    assert 110 <= after.shape[1] <= 110 * 9 / 8
    width = before.shape[1]
    torch.testing.assert_close(after[:100, :width], before, rtol=0, atol=0, equal_nan=True)
    assert after[:100, width:].isnan().all()
    assert torch.isfinite(learner.scores(dataset.test.images[:5])).all()


def test_as_many_logits_are_stored_as_images(derpp: Make, dataset: Dataset) -> None:
    learner = derpp(memory_size=7)
    observe(learner, dataset, 0, 60)
    assert column(learner.memory, "logits").shape == (7, 4 + 10)  # four classes, ten spare rows
    assert learner.memory.nbytes() == {"x": 7 * 3 * 8 * 8, "y": 7 * 8, "logits": 7 * 14 * 4}


@pytest.mark.parametrize("future", [10, 40])
def test_spare_rows_never_run_out(future: int, derpp: Make, dataset: Dataset) -> None:
    """The head starts with 32 rows."""
    learner = derpp(future=future, iterations=0.1)
    for i in range(40):
        learner.observe(dataset.train.images[i : i + 1], torch.tensor([i]))
        assert len(learner.network.head.weight) >= i + 1 + future
    assert learner.scores(dataset.test.images[:3]).shape == (3, 40)


def test_a_block_without_an_update_gets_the_logits_of_an_answer(
    derpp: Make, dataset: Dataset
) -> None:
    learner = derpp(iterations=0.01)
    observe(learner, dataset, 0, 2)
    x = torch.cat([sample(dataset, i)[0] for i in range(2)])
    n = len(learner.classes)
    torch.testing.assert_close(column(learner.memory, "logits")[:, :n], learner.scores(x))
    assert learner.work.forwards == 2 and learner.work.updates == 0


@pytest.mark.parametrize("iterations", [0.75, 1, 2])
def test_a_short_last_block_counts_once(
    iterations: float, derpp: Make, dataset: Dataset, passes: Passes
) -> None:
    """Blocks of two: the last of 13 samples is alone."""
    learner = derpp(iterations=iterations, memory_size=40)
    observe(learner, dataset, 0, 13)
    learner.finish()
    assert learner.work.updates == len(passes) == int(iterations * 13)
    assert learner.pace.samples == learner.memory.seen == len(learner.memory) == 13
    kept, sent = column(learner.memory, "x"), [sample(dataset, i)[0][0] for i in range(13)]
    assert torch.equal(kept, torch.stack(sent))
    assert learner.work.images == sum(len(x) for x, _ in passes)
    assert len(passes[-1][0]) == 8  # the memory fills up the batch
    before = digest(learner.state_dict())
    learner.finish()
    assert digest(learner.state_dict()) == before


def test_every_image_is_augmented_each_time_it_is_trained_on(
    derpp: Make, dataset: Dataset, passes: Passes
) -> None:
    view, marks = View(dataset.mean, dataset.std), []

    def mark(x: Tensor, generator: Generator) -> Tensor:
        """Add a different whole number, far above any pixel, to every image."""
        marks.extend(1000.0 * (len(marks) + 1 + i) for i in range(len(x)))
        return view(x) + torch.tensor(marks[-len(x) :])[:, None, None, None]

    learner = derpp(augment=mark, iterations=2)
    observe(learner, dataset, 0, 13)
    learner.finish()
    trained = [float(image.mean()) for x, _ in passes for image in x]
    assert len(trained) == len(marks) == learner.work.images
    assert all(abs(t - mark) < 100 for t, mark in zip(trained, marks, strict=True))


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
