"""When ODDL adds a component, and what becomes of the memory and of the others then."""

import copy
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from earl.data.dataset import Dataset
from earl.methods.oddl.mixture import Component
from earl.methods.oddl.oddl import ODDL
from earl.nn.modes import train_forward
from earl.storage.state import digest
from oddl_tools import grown
from teaching import teach_classes as teach

Oddl = Callable[..., ODDL]


def tensors(component: Component) -> dict[str, Tensor]:
    """Return copies of all parameters and buffers."""
    modules = {"classifier": component.classifier, "vae": component.vae}
    return {
        f"{kind}.{name}": value.clone()
        for kind, module in modules.items()
        for name, value in module.state_dict().items()
    }


def changed(component: Component, before: dict[str, Tensor]) -> set[str]:
    after = tensors(component)
    assert set(after) == set(before)
    return {name for name, value in after.items() if not torch.equal(value, before[name])}


# ---- growth


def test_both_components_learn_until_the_memory_is_first_full(oddl: Oddl, dataset: Dataset) -> None:
    learner = oddl(memory_size=8)
    first, evaluator = learner.mixture.components
    assert not torch.equal(first.classifier.head.weight, evaluator.classifier.head.weight)
    for _ in range(2):
        before = tensors(first), tensors(evaluator)
        teach(learner, dataset, (0, 1), 4)
        assert len(learner.mixture.learning) == 2
        for component, old in zip((first, evaluator), before, strict=True):
            moved = changed(component, old)
            assert {"classifier.head.weight", "vae.encoder.1.weight"} <= moved
            assert any("running_mean" in name for name in moved)
    assert learner.memory.full
    assert learner.work.counts["images"] == 2 * sum(range(1, 9))
    teach(learner, dataset, (0, 1), 1)
    assert learner.mixture.frozen == [first] and learner.mixture.evaluator is evaluator
    assert learner.work.counts["images"] == 2 * sum(range(1, 9)) + 8


def test_an_update_is_a_step_on_cross_entropy_and_one_on_the_bound(
    oddl: Oddl, dataset: Dataset
) -> None:
    learner = oddl(iterations=1 / 3)
    before = copy.deepcopy(learner.mixture.components)
    teach(learner, dataset, (0, 1), 3)
    assert learner.work.updates == 1
    X, Y = learner.memory.sample(8, "x", "y", generator=learner.randomness.at(0, "draw"))
    for i, (old, new) in enumerate(zip(before, learner.mixture.components, strict=True)):
        z = train_forward(old.classifier, learner.setting.view(X))[:, :2]
        F.nll_loss(z.log_softmax(1), Y).backward()
        noise = torch.randn(1, 3, 8, generator=learner.randomness.at(0, f"noise {i}"))
        (-old.vae(X / 255, noise)).mean().backward()
        for module, after, lr, root in (
            (old.classifier, new.classifier, learner.setting.lr, 1.0),  # Adam's first step
            (old.vae, new.vae, 3e-3, 0.1),  # RMSprop's, whose mean square is 0.01 g² then
        ):
            for p, q in zip(module.parameters(), after.parameters(), strict=True):
                assert p.grad is not None
                sure = (p.grad.abs() > 1e-6) | (p.grad == 0)
                expected = p - lr * p.grad / (root * p.grad.abs() + 1e-8)
                torch.testing.assert_close(q[sure], expected[sure], atol=2e-5, rtol=1e-3)


def test_a_shift_of_the_stream_adds_a_component_and_a_steady_stream_does_not(
    oddl: Oddl, dataset: Dataset
) -> None:
    given = {"iterations": 2, "threshold": 0.2}
    steady, shifted = oddl(**given), oddl(**given)
    teach(steady, dataset, (0, 1), 40)
    shifted.load_state_dict(steady.state_dict())
    teach(steady, dataset, (0, 1), 20, first=40)
    assert len(steady.mixture) == 2
    assert len(shifted.mixture) == 2
    teach(shifted, dataset, (2, 3), 60)
    assert len(shifted.mixture) > 2
    assert shifted.costs()["components"] == len(shifted.mixture)


def test_growing_clears_the_memory_and_starts_an_evaluator_that_knows_nothing(
    oddl: Oddl, dataset: Dataset
) -> None:
    learner, same = (oddl(memory_size=5, threshold=0.0) for _ in range(2))
    teach(learner, dataset, (0, 1), 6)
    old = learner.mixture.evaluator
    teach(learner, dataset, (2,), 1)
    assert len(learner.mixture) == 3 and old.frozen
    new = learner.mixture.evaluator
    assert new.known.state_dict()["ids"].tolist() == [2]
    assert len(learner.memory) == 1 and learner.memory.counts.tolist() == [0, 0, 1]
    for other in learner.mixture.frozen:
        assert not torch.equal(new.classifier.head.weight, other.classifier.head.weight)
        for kind in ("classifier", "vae"):
            mine, theirs = getattr(new, kind).parameters(), getattr(other, kind).parameters()
            assert not any(torch.equal(p, q) for p, q in zip(mine, theirs, strict=True) if p.std())
    teach(same, dataset, (0, 1), 6)
    teach(same, dataset, (2,), 1)
    assert digest(same.state_dict()) == digest(learner.state_dict())


def test_components_without_a_class_in_common_are_as_far_apart_as_can_be(
    oddl: Oddl, dataset: Dataset
) -> None:
    """Their distance is 1 everywhere, so its means on dreams and memory would not differ at all."""
    learner = oddl(memory_size=5, threshold=1.0)
    teach(learner, dataset, (0,), 6)
    first, evaluator = learner.mixture.components
    assert first.shares_classes(evaluator) and evaluator.shares_classes(first)
    learner._check_discrepancy()
    assert len(learner.mixture) == 2
    teach(learner, dataset, (2,), 5)
    evaluator.known.load_state_dict({"ids": torch.tensor([1])})
    assert not first.shares_classes(evaluator)
    on_memory, on_dreams = learner._distances()
    assert torch.equal(on_memory, torch.ones_like(on_memory))
    assert torch.equal(on_dreams, on_memory)
    learner._check_discrepancy()
    assert len(learner.mixture) == 3


@pytest.mark.parametrize(
    ("on_memory", "on_dreams", "grows"),
    [
        ([1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1], False),  # every image differs, the means do not
        ([0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], True),
        ([1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], True),
        ([1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], False),
    ],
)
def test_a_discrepancy_is_the_difference_of_two_means(
    on_memory: list[float],
    on_dreams: list[float],
    grows: bool,
    oddl: Oddl,
    dataset: Dataset,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S = |E[l on dreams] - E[l on the memory]|: Eq. (17) compares two expectations, no pairs."""
    learner = oddl(memory_size=6, threshold=0.3)
    teach(learner, dataset, (0, 1), 7)
    assert len(learner.mixture) == 2
    distances = torch.tensor([on_memory]).float(), torch.tensor([on_dreams]).float()
    monkeypatch.setattr(learner, "_distances", lambda: distances)
    learner._check_discrepancy()
    assert (len(learner.mixture) == 3) == grows


def test_without_a_shift_the_least_diverse_samples_are_dropped(
    oddl: Oddl, dataset: Dataset
) -> None:
    learner = oddl(memory_size=20, threshold=1.0, drop=0.15)
    teach(learner, dataset, (0, 1, 2), 24)
    assert learner.interval == 4 and len(learner.memory) == 20
    on_memory, on_dreams = learner._distances()
    diversity = (on_memory[0] - on_dreams[0]).abs()  # of one frozen component
    rows = torch.arange(20)
    (before,) = learner.memory.take(rows, "x")
    kept = [i for i in range(20) if int((diversity < diversity[i]).sum()) >= 3]
    assert len(kept) == 17
    learner._check_discrepancy()
    assert len(learner.memory) == int(learner.memory.counts.sum()) == 17
    (after,) = learner.memory.take(rows[:17], "x")
    assert torch.equal(after, before[kept])


@pytest.mark.parametrize(
    ("memory_size", "drop", "dropped"),
    [
        (1000, 0.01, [10, 10, 10, 10, 10, 10]),  # as the original on CIFAR-10
        (100, 0.01, [1, 1, 1, 1, 1, 1]),  # the default's share where 10 would be a tenth
        (20, 0.0, [0, 0, 0, 0, 0, 0]),
        (20, 0.01, [0, 0, 0, 0, 1, 0]),  # a fifth of a sample: one at every fifth check
        (20, 0.125, [3, 2, 3, 2, 3, 2]),  # two and a half
        (20, 0.9, [4, 4, 4, 4, 4, 4]),  # no more than come in until the next check
        (1, 0.5, [1, 0, 1, 0, 1, 0]),
    ],
)
def test_a_check_drops_a_share_of_the_memory(
    memory_size: int, drop: float, dropped: list[int], oddl: Oddl
) -> None:
    """Shares of samples add up over the checks; the first of these comes when it is first full."""
    learner = oddl(memory_size=memory_size, drop=drop)
    found = []
    for check in range(6):
        learner.pace.samples = memory_size + check * learner.interval
        found.append(learner._dropped_now())
    assert found == dropped


def test_the_memory_is_thinned_by_that_share_and_fills_up_until_the_next_check(
    oddl: Oddl, dataset: Dataset
) -> None:
    given = {"memory_size": 20, "threshold": 1.0}
    plain, default, much = (oddl(**given, **more) for more in ({"drop": 0.0}, {}, {"drop": 0.9}))
    assert default.drop == Fraction(1, 5)
    sizes: list[list[int]] = []
    for n in range(1, 48):
        for learner in (plain, default, much):
            teach(learner, dataset, (n % 4,), 1)
        sizes.append([len(learner.memory) for learner in (plain, default, much)])
    assert [plain for plain, _, _ in sizes] == [min(n, 20) for n in range(1, 48)]
    assert min(default for _, default, _ in sizes[20:]) == 20  # one goes as one comes
    assert min(much for _, _, much in sizes[20:]) == 17  # four go, one of the next four has come
    assert all(much == 20 for n, (_, _, much) in enumerate(sizes, 1) if n >= 20 and n % 4 == 0)


@pytest.mark.parametrize("most", [2, 4])
def test_there_are_never_more_components_than_allowed(
    most: int, oddl: Oddl, dataset: Dataset
) -> None:
    learner = oddl(memory_size=5, threshold=0.0, max_components=most)
    counts = []
    for n in range(28):
        teach(learner, dataset, (n % 4,), 1)
        counts.append(len(learner.mixture))
    assert max(counts) == most and counts == sorted(counts)
    before = tensors(learner.mixture.evaluator)
    teach(learner, dataset, (3,), 4)
    assert "classifier.head.weight" in changed(learner.mixture.evaluator, before)
    assert len(learner.mixture) == most


def test_heads_learn_and_frozen_components_stay_as_they_are_for_ever(
    oddl: Oddl, dataset: Dataset
) -> None:
    learner = grown(oddl(memory_size=8, threshold=0.0, max_components=4), dataset)
    frozen, evaluator = learner.mixture.frozen, learner.mixture.evaluator
    before, mine = [tensors(G) for G in frozen], tensors(evaluator)
    assert any("running_mean" in name for name in before[0])
    known = [G.known.state_dict()["ids"].tolist() for G in frozen]
    teach(learner, dataset, (3, 0), 2)
    learner.scores(dataset.test.images)
    assert {"classifier.head.weight", "classifier.head.bias"} <= changed(evaluator, mine)
    teach(learner, dataset, (0, 1, 2, 3), 40)
    assert learner.mixture.frozen[: len(frozen)] == frozen
    for G, old, classes in zip(frozen, before, known, strict=True):
        assert changed(G, old) == set()
        assert G.known.state_dict()["ids"].tolist() == classes
        for module in (G.classifier, G.vae):
            assert not any(part.training for part in module.modules())
            assert not any(p.requires_grad or p.grad is not None for p in module.parameters())
        assert G.optimizers == {} and set(G.parts()) == {"classifier", "vae", "known"}
