"""An update of EARL and of ER: what it trains on, and what it does to the network."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.data.dataset import Dataset
from earl.learning.learner import Learner
from earl.methods.earl.earl import EARL
from earl.methods.er import ER
from earl.nn.augment import Augment, View
from earl.nn.modes import train_forward
from earl.storage.state import digest
from teaching import observe

Make = Callable[..., Learner]


def one_adam_step(parameters: list[Tensor], loss: Tensor, lr: float) -> list[Tensor]:
    """Adam's first step: its corrected moments are g and g², so every entry moves by lr·sign."""
    gradients = torch.autograd.grad(loss, parameters)
    return [
        (p - lr * g / (g.square().sqrt() + 1e-8)).detach()
        for p, g in zip(parameters, gradients, strict=True)
    ]


def assert_parameters(module: nn.Module, expected: list[Tensor]) -> None:
    for p, e in zip(module.parameters(), expected, strict=True):
        torch.testing.assert_close(p.detach(), e, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("lam", [None, 0.7])  # λ = 1 unless told otherwise (Supp.)
@pytest.mark.parametrize("samples", [4, 2])  # as many real images as preparatory ones, and fewer
def test_an_update_of_earl_is_an_adam_step_on_equation_4(
    samples: int,
    lam: float | None,
    make: Make,
    dataset: Dataset,
    passed: list[Tensor],
    plain: Callable[..., Tensor],
) -> None:
    given = {} if lam is None else {"lam": lam}
    learner = make("earl", iterations=1 / samples, augment=plain, **given)
    assert isinstance(learner, EARL) and learner.prepare is not None
    observe(learner, dataset, 0, samples - 1)
    before = copy.deepcopy(learner.f)
    observe(learner, dataset, samples - 1, samples)  # the first update
    (images,) = passed
    assert len(images) == samples + 4  # what the memory has of B_r = 4, and B_p = 4

    x, y = learner.memory.take(torch.arange(samples), "x", "y")
    stored = learner.setting.view(x)
    W = learner.frame.etf.vectors(torch.arange(16)).float()  # (K, d)
    cosine = F.normalize(train_forward(before, images), dim=1) @ W.T  # (8, K)
    real, prepared = [], []
    for row, image in enumerate(images):
        for turn in range(4):
            back = torch.rot90(image, -turn, (-2, -1))
            found = [i for i in range(samples) if torch.allclose(stored[i], back)]
            if found and turn == 0:
                real.append(0.5 * (cosine[row, y[found[0]]] - 1) ** 2)
            elif found:
                target = learner.prepare.m[y[found[0]], turn - 1]
                assert target >= len(learner.classes)  # a vector of no seen class
                prepared.append(0.5 * (cosine[row, target] - 1) ** 2)
    assert len(real) == samples and len(prepared) == 4
    loss = torch.stack(real).mean() + (lam or 1) * torch.stack(prepared).mean()
    # Adam's first step knows signs alone; the gradients know how the two means are weighed.
    gradients = torch.autograd.grad(loss, list(before.parameters()), retain_graph=True)
    for p, gradient in zip(learner.f.parameters(), gradients, strict=True):
        torch.testing.assert_close(p.grad, gradient, atol=1e-5, rtol=1e-3)
    expected = one_adam_step(list(before.parameters()), loss, learner.setting.lr)
    assert_parameters(learner.f, expected)


@pytest.mark.parametrize("negative", ["rotation", "cutmix"])  # which takes partners as well
@pytest.mark.parametrize("count", ["inside", "on-top"])
def test_augmenting_both_parts_of_a_batch_at_once_changes_no_bit(
    make: Make, dataset: Dataset, negative: str, count: str
) -> None:
    augment = Augment(view=View(dataset.mean, dataset.std), padding=2)
    digests = set()
    for one_by_one in (False, True):  # a function of another kind is called for each part
        given = (lambda x, generator: augment(x, generator)) if one_by_one else augment
        learner = make("earl", negative=negative, preparatory_count=count, augment=given)
        observe(learner, dataset, 0, 12)
        digests.add(digest(learner.state_dict()))
    assert len(digests) == 1


def test_a_learnable_classifier_is_trained_by_dot_regression_and_cross_entropy(
    make: Make, dataset: Dataset, passed: list[Tensor], plain: Callable[..., Tensor]
) -> None:
    learner = make("earl-learnable", iterations=0.25, preparatory=False, augment=plain)
    observe(learner, dataset, 0, 3)
    before, rows = copy.deepcopy(learner.f), learner.learned.weight.detach().clone()
    observe(learner, dataset, 3, 4)  # the first update
    (images,) = passed
    x, y = learner.memory.take(torch.arange(4), "x", "y")
    place = [
        next(i for i in range(4) if torch.allclose(learner.setting.view(x)[i], image))
        for image in images
    ]
    n, weight = len(learner.classes), rows.clone().requires_grad_()
    f = train_forward(before, images)
    losses = []
    for k, i in enumerate(place):
        cosine = torch.stack([F.cosine_similarity(f[k], weight[c], dim=0) for c in range(n)])
        own = cosine[y[i]]
        losses.append(0.5 * (own - 1) ** 2 - 10 * own + (10 * cosine).exp().sum().log())
    loss = torch.stack(losses).mean()
    expected = one_adam_step([*before.parameters(), weight], loss, learner.setting.lr)
    assert_parameters(learner.f, expected[:-1])
    torch.testing.assert_close(
        learner.learned.weight[:n].detach(), expected[-1][:n], atol=2e-5, rtol=0
    )
    assert torch.equal(learner.learned.weight[n:].detach(), rows[n:])  # of no class yet
    norms = learner.vectors().norm(dim=1)
    torch.testing.assert_close(norms, torch.ones(n))


def test_an_update_of_er_is_an_adam_step_on_the_cross_entropy_of_seen_classes(
    make: Make, dataset: Dataset, passed: list[Tensor], plain: Callable[..., Tensor]
) -> None:
    learner = make("er", iterations=0.125, augment=plain)
    assert isinstance(learner, ER)
    observe(learner, dataset, 0, 7)  # one block of four is in memory, three samples wait
    before = copy.deepcopy(learner.network)
    assert not passed
    observe(learner, dataset, 7, 8)
    (images,) = passed
    order = [i * 37 % len(dataset.train) for i in (4, 5, 6, 7, 0, 1, 2, 3)]
    raw = learner.setting.view(dataset.train.images[torch.tensor(order)])
    place = [next(i for i in range(8) if torch.allclose(raw[i], image)) for image in images]
    assert place[:4] == [0, 1, 2, 3] and sorted(place[4:]) == [4, 5, 6, 7]  # new ones, then memory
    labels = learner.classes.numbers(dataset.train.labels[torch.tensor(order)])[place]
    logits = train_forward(before, images)[:, : len(learner.classes)]
    loss = -torch.stack([logits[i].log_softmax(0)[c] for i, c in enumerate(labels)]).mean()
    parameters = list(before.parameters())
    expected = one_adam_step(parameters, loss, learner.setting.lr)
    assert_parameters(learner.network, expected)


@pytest.mark.parametrize(("name", "block"), [("er", 4), ("der++", 2), ("x-der", 2)])
def test_the_memory_part_of_a_waiting_block_is_drawn_anew_every_step(
    name: str,
    block: int,
    make: Make,
    dataset: Dataset,
    passed: list[Tensor],
    plain: Callable[..., Tensor],
) -> None:
    learner = make(name, iterations=3, augment=plain, memory_size=40)
    observe(learner, dataset, 0, 40)
    batches = [images for images in passed if len(images) <= 8]  # not the views of X-DER
    assert all(len({i.numpy().tobytes() for i in images}) == len(images) for images in batches)
    last = batches[-3 * block :]  # 3 iterations for each sample of the block
    assert all(torch.equal(images[:block], last[0][:block]) for images in last)
    assert len({images[block:].numpy().tobytes() for images in last}) == 3 * block


def test_a_batch_holds_no_sample_twice(
    make: Make, dataset: Dataset, passed: list[Tensor], plain: Callable[..., Tensor]
) -> None:
    for name in ("er", "er-memory-only", "vanilla-etf"):
        observe(make(name, augment=plain), dataset, 0, 30)
    assert all(len({i.numpy().tobytes() for i in images}) == len(images) for images in passed)


def test_on_top_adds_up_to_three_times_the_batch_and_counts_it(
    make: Make, dataset: Dataset, passed: list[Tensor]
) -> None:
    inside, on_top = make("earl"), make("earl", preparatory_count="on-top")
    observe(inside, dataset, 0, 40)
    assert all(len(images) == 8 for images in passed[8:])
    assert inside.work.images == sum(len(images) for images in passed)
    passed.clear()
    observe(on_top, dataset, 0, 40)
    # from the second update on: min(4, n) classes, B/n images of each in three forms
    assert all(len(images) == 8 + 4 * 2 * 3 for images in passed[-10:])
    assert on_top.work.images == sum(len(images) for images in passed)


def test_on_top_takes_each_image_of_a_class_at_most_once(
    make: Make, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = make("earl", preparatory_count="on-top", augment=lambda x, generator: x.float())
    same = dataset.train.labels == dataset.train.labels[0]
    for x, y in zip(dataset.train.images[same][:5].split(1), torch.zeros(5, 1).long(), strict=True):
        learner.observe(x, y)
    # the first update prepares nothing; n images are there at the n-th, each real and in 3 forms
    assert [len(images) for images in passed] == [1, *(n + 3 * n for n in range(2, 6))]
    assert all(len(images.unique(dim=0)) == len(images) for images in passed)
