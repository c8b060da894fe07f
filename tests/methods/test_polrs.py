"""PoLRS against its paper: three rates on the same batches, chosen by online accuracy alone."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from earl.data.dataset import Dataset, Split
from earl.data.setups import disjoint
from earl.data.streams import Schedule, Stream
from earl.evaluation.loop import Exam, learn_online
from earl.experiments.contract.checks import saved_and_loaded
from earl.learning.learner import Learner
from earl.methods.polrs import PoLRS, Window
from earl.nn.modes import train_forward
from earl.storage.state import digest
from teaching import observe

Make = Callable[..., Learner]
Augmentation = Callable[[Tensor, Generator], Tensor]
Polrs = Callable[..., PoLRS]


def rates(learner: PoLRS) -> list[float]:
    return [optimizer.param_groups[0]["lr"] for optimizer in learner.optimizers]


def test_an_update_is_an_adam_step_of_each_replica_with_its_own_rate(
    polrs: Polrs, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = polrs(iterations=0.125)
    observe(learner, dataset, 0, 7)
    before = copy.deepcopy(learner.networks)
    assert len({digest(network.state_dict()) for network in before}) == 1
    observe(learner, dataset, 7, 8)  # the first update
    assert len(passed) == 3 and all(torch.equal(images, passed[0]) for images in passed)
    every = learner.setting.view(dataset.train.images).flatten(1)
    nearest = torch.cdist(passed[0].flatten(1), every).argmin(dim=1)
    labels = learner.classes.numbers(dataset.train.labels[nearest])
    for old, network, lr in zip(before, learner.networks, (1.5e-3, 3e-3, 6e-3), strict=True):
        z = train_forward(old, passed[0])[:, : len(learner.classes)]
        loss = -torch.stack([z[i].log_softmax(0)[c] for i, c in enumerate(labels)]).mean()
        parameters = list(old.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        for p, q, g in zip(network.parameters(), parameters, gradients, strict=True):
            expected = q - lr * g / (g.abs() + 1e-8)  # Adam's first step
            torch.testing.assert_close(p, expected, atol=2e-5, rtol=1e-4)


def test_replicas_differ_and_the_middle_one_is_er_until_a_window_ends(
    polrs: Polrs, make: Make, plain: Augmentation, dataset: Dataset
) -> None:
    learner, er = polrs(), make("er", augment=plain)
    observe(learner, dataset, 0, 40)
    observe(er, dataset, 0, 40)
    assert len({digest(network.state_dict()) for network in learner.networks}) == 3
    assert digest(learner.networks[1].state_dict()) == digest(er.network.state_dict())


def test_the_window_counts_what_each_replica_answers_before_it_learns(
    polrs: Polrs, dataset: Dataset
) -> None:
    learner = polrs()
    right = [0, 0, 0]
    for i in range(40):
        at = torch.tensor([i * 37 % len(dataset.train)])
        x, y = dataset.train.images[at], dataset.train.labels[at]
        for j, network in enumerate(copy.deepcopy(learner.networks)):
            if len(learner.classes):
                with torch.no_grad():
                    z = network.eval()(learner.setting.view(x))[:, : len(learner.classes)]
                right[j] += int(learner.classes.ids(z.argmax(dim=1)) == y)
        learner.observe(x, y)
    assert learner.window.right == right and learner.window.samples == 39  # all but the first
    assert len(set(right)) > 1


@pytest.mark.parametrize(
    ("right", "leader"),
    [
        ([0, 0, 0], 1),
        ([5, 4, 3], 0),
        ([3, 4, 3], 1),
        ([3, 4, 5], 2),
        ([4, 4, 3], 1),
        ([3, 4, 4], 1),
        ([4, 4, 4], 1),
        ([4, 3, 4], 2),  # the middle one is behind: it must not be handed over to
    ],
)
def test_the_leader_was_right_most_often_and_of_equals_it_is_the_middle_or_the_fastest(
    right: list[int], leader: int
) -> None:
    window = Window(9)
    window.right = right
    assert window.leader() == leader


def test_the_leader_of_the_window_answers(polrs: Polrs, dataset: Dataset) -> None:
    learner = polrs()
    observe(learner, dataset, 0, 40)
    x = dataset.test.images[:5]
    for j in range(3):
        learner.window.right = [0, 0, 0]
        learner.window.right[j] = 1
        network = copy.deepcopy(learner.networks[j]).eval()
        with torch.no_grad():
            expected = network(learner.setting.view(x))[:, :4]
        torch.testing.assert_close(learner.scores(x), expected)
        assert learner.network is learner.networks[j]


@pytest.mark.parametrize(("best", "factor"), [(0, 0.5), (1, 1.0), (2, 2.0)])
def test_a_full_window_makes_all_replicas_copies_of_the_best_around_its_rate(
    best: int, factor: float, polrs: Polrs, dataset: Dataset
) -> None:
    learner = polrs(window=21)
    observe(learner, dataset, 0, 21)  # the first has no answer, so one is missing; one waits
    assert learner.window.samples == 20 and len(learner.waiting) == 1
    learner.window.right = [10, 10, 10]
    learner.window.right[best] = 15
    network = digest(learner.networks[best].state_dict())
    moments = digest(learner.optimizers[best].state_dict()["state"])
    observe(learner, dataset, 21, 22)
    assert [digest(other.state_dict()) for other in learner.networks] == [network] * 3
    assert [digest(o.state_dict()["state"]) for o in learner.optimizers] == [moments] * 3
    assert rates(learner) == [3e-3 * factor * f for f in (0.5, 1.0, 2.0)]
    assert learner.window.samples == 0 and learner.window.right == [0, 0, 0]
    observe(learner, dataset, 22, 24)  # an update: copies, and not the same tensors
    assert len({digest(other.state_dict()) for other in learner.networks}) == 3
    assert len({digest(o.state_dict()["state"]) for o in learner.optimizers}) == 3


def test_a_tie_of_the_outer_replicas_never_hands_over_to_the_middle_one_behind_them(
    polrs: Polrs, dataset: Dataset
) -> None:
    learner = polrs(window=21)
    observe(learner, dataset, 0, 21)
    learner.window.right = [15, 10, 15]
    fastest, middle = (digest(learner.networks[j].state_dict()) for j in (2, 1))
    assert fastest != middle
    learner._continue_from_best()
    assert [digest(other.state_dict()) for other in learner.networks] == [fastest] * 3
    assert rates(learner) == [3e-3, 6e-3, 12e-3]


def test_a_window_of_samples_passes_between_choices(
    polrs: Polrs, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, chosen, now = polrs(window=10), [], 0
    go_on = PoLRS._continue_from_best

    def note(self: PoLRS) -> None:
        chosen.append(now)
        go_on(self)

    monkeypatch.setattr(PoLRS, "_continue_from_best", note)
    for now in range(45):
        observe(learner, dataset, now, now + 1)
    assert chosen == [10, 20, 30, 40]


def test_the_choice_never_touches_test_data(polrs: Polrs, dataset: Dataset) -> None:
    """Other test images, other test labels, no exam at all: the learner ends up the same."""
    test = dataset.test
    mislabelled = Split(test.images.flip(0), (test.labels + 1) % 4)
    ends = []
    for exam, every in ((Exam(test), 12), (Exam(mislabelled), 9), (None, 0)):
        learner = polrs(window=9, memory_size=10)
        order = disjoint(dataset.train, seed=1, tasks=2).order[68:92]  # across the boundary
        stream = Stream(dataset.train, Schedule(order))
        if exam is None:
            for x, y in stream:
                learner.observe(x, y)
            learner.finish()
        else:
            for _ in learn_online(learner, stream, exam, every=every):
                pass
        ends.append(digest(learner.state_dict()))
    assert len(set(ends)) == 1


@pytest.mark.parametrize(
    "at", [10, 11, *(pytest.param(at, marks=pytest.mark.slow) for at in (9, 21))]
)
def test_a_learner_saved_around_the_end_of_a_window_goes_on_exactly(
    at: int, polrs: Polrs, dataset: Dataset
) -> None:
    shared = {"window": 10, "iterations": 0.75}
    learner = polrs(**shared)
    observe(learner, dataset, 0, at)
    learner.window.right[2] += 3  # the fast one leads, so the rate will change
    fresh = saved_and_loaded(learner, polrs(**shared), at)
    assert rates(fresh) == rates(learner)
    for other in (learner, fresh):
        observe(other, dataset, at, at + 10)  # a window ends once
    assert rates(learner) == rates(fresh) != [1.5e-3, 3e-3, 6e-3]
    assert digest(learner.state_dict()) == digest(fresh.state_dict())


def test_three_networks_are_counted(polrs: Polrs, dataset: Dataset) -> None:
    learner = polrs()
    observe(learner, dataset, 0, 40)
    assert learner.work.updates == 40
    assert learner.work.images == 3 * (4 * 4 + 36 * 8)  # the first block has no memory
    assert learner.work.forwards == 3 * 39


def test_classes_may_come_at_any_time(polrs: Polrs, dataset: Dataset) -> None:
    learner = polrs(window=7)
    for c in range(40):  # more than the heads have rows
        learner.observe(dataset.train.images[c : c + 1], torch.tensor([c]))
    assert learner.scores(dataset.test.images[:2]).shape == (2, 40)
    assert len({network.head.weight.shape for network in learner.networks}) == 1
