"""ODDL against its paper: when it grows, what it freezes, and who answers."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, nn
from torch.utils.flop_counter import FlopCounterMode

from earl.data.dataset import Dataset
from earl.errors import InvalidSetting
from earl.experiments.contract.checks import saved_and_loaded
from earl.learning.learner import Learner
from earl.methods.oddl.oddl import NEVER, ODDL, total_variation
from earl.storage.state import digest
from oddl_tools import grown
from teaching import teach_classes as teach

Make = Callable[..., Learner]


Oddl = Callable[..., ODDL]


# ---- distances


def test_total_variation_is_half_the_sum_of_differences() -> None:
    p = torch.tensor([[0.5, 0.5, 0], [1, 0, 0], [0.2, 0.3, 0.5]])
    q = torch.tensor([[0.2, 0.3, 0.5], [0, 0.4, 0.6], [0.2, 0.3, 0.5]])
    torch.testing.assert_close(total_variation(p, q), torch.tensor([0.5, 1, 0]))


def test_a_component_gives_nothing_to_classes_it_does_not_know(
    oddl: Oddl, dataset: Dataset
) -> None:
    learner = oddl()
    component, x = learner.mixture.evaluator, dataset.test.images[:5]
    component.meet(torch.tensor([2, 0]), Generator())
    p = component.probabilities(x, 4)
    with torch.no_grad():
        z = component.classifier.eval()(learner.setting.view(x))[:, :2]  # rows in order of meeting
    torch.testing.assert_close(p[:, [2, 0]], z.exp() / z.exp().sum(dim=1, keepdim=True))
    assert not p[:, [1, 3]].any()


def test_discrepancies_are_those_of_a_loop_over_images(oddl: Oddl, dataset: Dataset) -> None:
    learner = grown(oddl(memory_size=8, threshold=0.0), dataset)
    e, frozen, n = learner.mixture.evaluator, learner.mixture.frozen, len(learner.classes)
    on_memory, on_dreams = learner._distances()
    M = len(learner.memory)
    assert on_memory.shape == on_dreams.shape == (len(frozen), M)
    (x,) = learner.memory.take(torch.arange(M), "x")
    for j, G in enumerate(frozen):
        dreams = G.dream(M, learner.randomness.at(learner.pace.samples, f"dream {j}"))
        assert dreams.dtype == torch.uint8 and dreams.shape == x.shape
        for found, images in ((on_memory[j], x), (on_dreams[j], dreams)):
            for i in range(M):
                p, q = (c.probabilities(images[i : i + 1], n)[0].tolist() for c in (G, e))
                distance = sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2
                assert float(found[i]) == pytest.approx(distance, abs=1e-5)


# ---- answers


def specialists(learner: ODDL, dataset: Dataset) -> None:
    """Let the first component meet classes 0 and 1 only, the second 2 and 3 only."""
    learner.classes.index(torch.arange(4))
    for component, classes in zip(learner.mixture.components, ((0, 1), (2, 3)), strict=True):
        rows = torch.isin(dataset.train.labels, torch.tensor(classes))
        x, y = dataset.train.images[rows], dataset.train.labels[rows]
        component.meet(torch.tensor(classes), Generator())
        for t in range(40):
            draw = Generator().manual_seed(t)
            at = torch.randint(len(y), (16,), generator=draw)
            component.learn(x[at], learner.setting.view(x[at]), y[at], draw, learner.work)


def test_each_image_is_answered_by_the_component_that_finds_it_most_likely(
    oddl: Oddl, dataset: Dataset
) -> None:
    learner = oddl()
    specialists(learner, dataset)
    x, y = dataset.test.images, dataset.test.labels
    noise = learner.mixture.noise
    assert noise.shape == (16, 1, 8)
    with torch.no_grad():
        first, second = (
            torch.stack([G.vae(x / 255, e[None]) for e in noise]).mean(dim=0)
            for G in learner.mixture.components
        )
    chosen = (second > first).long()
    assert torch.equal(learner.mixture.choose(x), chosen)
    assert float((chosen == (y >= 2)).float().mean()) > 0.9
    assert float((learner.predict(x) == y).float().mean()) > 0.9

    scores = learner.scores(x)
    for j, component in enumerate(learner.mixture.components):
        rows = chosen == j
        assert rows.any()
        torch.testing.assert_close(scores[rows].exp(), component.probabilities(x, 4)[rows])
        unknown = [[2, 3], [0, 1]][j]
        assert (scores[rows][:, unknown] == NEVER).all()
        assert not torch.isin(scores[rows].argmax(dim=1), torch.tensor(unknown)).any()


def test_an_answer_does_not_depend_on_the_other_questions(oddl: Oddl, dataset: Dataset) -> None:
    learner = oddl()
    specialists(learner, dataset)
    x, y = dataset.test.images, dataset.test.labels
    pair = torch.stack([x[y == 0][0], x[y == 2][0]])
    assert learner.mixture.choose(pair).tolist() == [0, 1]
    together = learner.scores(pair)
    for i in range(2):
        torch.testing.assert_close(learner.scores(pair[i : i + 1])[0], together[i])
        among_others = torch.cat((x[:7], pair[i : i + 1], x[7:20]))
        torch.testing.assert_close(learner.scores(among_others)[7], together[i])


def test_all_components_may_answer_together(oddl: Oddl, dataset: Dataset) -> None:
    learner = grown(oddl(memory_size=8, threshold=0.0, selection="sum_softmax"), dataset)
    x, n = dataset.test.images, len(learner.classes)
    total = sum(G.probabilities(x, n) for G in learner.mixture.components)
    torch.testing.assert_close(learner.scores(x).exp(), total / len(learner.mixture))
    torch.testing.assert_close(learner.scores(x).exp().sum(dim=1), torch.ones(len(x)))


# ---- state and cost


def test_a_state_with_several_components_loads_into_a_fresh_or_a_used_learner(
    oddl: Oddl, dataset: Dataset
) -> None:
    given = {"memory_size": 8, "threshold": 0.0, "iterations": 0.75, "max_components": 4}
    learner, fresh, used = grown(oddl(**given), dataset), oddl(**given), oddl(**given)
    teach(used, dataset, (3, 2), 20)
    x, others = dataset.test.images, (fresh, used)
    for other in others:
        saved_and_loaded(learner, other, 1)
        assert digest(other.state_dict()) == digest(learner.state_dict())
        assert torch.equal(learner.scores(x), other.scores(x))
        assert len(other.mixture.frozen) == len(learner.mixture.frozen) >= 2
    for one in (learner, *others):
        teach(one, dataset, (3, 0, 1), 15)
    for other in others:
        assert torch.equal(learner.scores(x), other.scores(x))
        assert digest(other.state_dict()) == digest(learner.state_dict())


def test_an_earlier_state_loads_into_a_learner_that_has_grown(oddl: Oddl, dataset: Dataset) -> None:
    given = {"memory_size": 8, "threshold": 0.0}
    learner, other = oddl(**given), grown(oddl(**given), dataset)
    teach(learner, dataset, (0, 1), 5)
    other.load_state_dict(learner.state_dict())
    assert len(other.mixture.learning) == 2
    for one in (learner, other):
        grown(one, dataset)
    assert digest(other.state_dict()) == digest(learner.state_dict())


def test_a_state_of_another_method_is_refused_and_changes_nothing(
    oddl: Oddl, make: Make, dataset: Dataset
) -> None:
    learner = grown(oddl(memory_size=8, threshold=0.0), dataset)
    before = digest(learner.state_dict())
    with pytest.raises(InvalidSetting, match="belongs to another method"):
        learner.load_state_dict(make("polrs").state_dict())
    assert digest(learner.state_dict()) == before


def test_a_head_grows_beyond_the_rows_it_began_with(oddl: Oddl, dataset: Dataset) -> None:
    learner = oddl(threshold=0.0)
    x = dataset.train.images
    learner.observe(x[:90], torch.arange(90))
    assert learner.scores(x[:2]).shape == (2, 90)
    assert torch.isfinite(learner.scores(x)).all()
    fresh = oddl(threshold=0.0)
    fresh.load_state_dict(learner.state_dict())
    assert torch.equal(fresh.scores(x), learner.scores(x))


def test_flops_are_what_torch_counts_in_every_phase(oddl: Oddl, dataset: Dataset) -> None:
    """While two components learn, while one does, and where two that are frozen are checked."""
    learner = oddl(memory_size=20, threshold=0.0, max_components=3)
    for classes, before, n in (((0, 1), 18, 2), ((0, 1), 0, 2), ((2, 3), 22, 5)):
        teach(learner, dataset, classes, before)
        for name in learner.passes():
            learner.work.flops_per_input(name)  # outside of the counter
        spent = learner.work.flops
        with FlopCounterMode(display=False) as counter:
            teach(learner, dataset, classes, n)
        assert learner.work.flops - spent == counter.get_total_flops()
    assert len(learner.mixture) > 2 and learner.work.counts["dreamed"] > 0


def test_every_component_has_what_is_frozen_and_draws_the_rest(
    oddl: Oddl, dataset: Dataset
) -> None:
    def frozen_front() -> ODDL:
        front = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.PReLU())  # drawn by nobody
        nn.init.constant_(front[1].weight, 0.01), nn.init.zeros_(front[1].bias)
        backbone = nn.Sequential(front.requires_grad_(False), nn.Linear(8, 8))
        setting = oddl(memory_size=8).setting
        return ODDL(backbone, setting, latent=8, vae_hidden=32, threshold=0.0, max_components=5)

    learner, other = grown(frozen_front(), dataset), frozen_front()
    other.load_state_dict(learner.state_dict())
    before = len(learner.mixture)
    for one in (learner, other):
        teach(one, dataset, (3, 0), 30)
        assert len(one.mixture) > before
        backbones = [G.classifier.backbone for G in one.mixture.components]
        assert all(bool((b[0][1].weight == 0.01).all()) for b in backbones)
        assert all(float(b[0][2].weight) == 0.25 for b in backbones)
        assert len({digest(b[1].state_dict()) for b in backbones}) == len(backbones)
    assert digest(other.state_dict()) == digest(learner.state_dict())


def test_a_backbone_that_cannot_be_drawn_anew_is_refused(oddl: Oddl) -> None:
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.PReLU())
    with pytest.raises(InvalidSetting, match="does not know how to initialise PReLU"):
        ODDL(backbone, oddl().setting)
