"""What REMIND and NC-FSCIL have in common: one switch, a front that never moves, fair counts."""

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from earl.data.dataset import Dataset
from earl.learning.learner import Learner
from earl.methods.frozen.quantizer import LLOYD
from earl.storage.state import digest
from teaching import rows_of, teach

Make = Callable[..., Learner]
Augmentation = Callable[[Tensor, Generator], Tensor]

KINDS = {
    "remind": ("remind", {}),
    "nc-fscil of codes": ("nc-fscil", {"replay": "pq"}),
    "nc-fscil of means": ("nc-fscil", {"replay": "class_mean"}),
}


@pytest.fixture(params=KINDS)
def two_phases(request: pytest.FixtureRequest, make: Make, plain: Augmentation) -> Make:
    """Makes a learner of each kind, with images as they are; the switch comes after 20 samples."""
    name, given = KINDS[request.param]
    return partial(make, name, augment=plain, **given)


def state_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def test_the_front_keeps_parameters_and_batch_norm_for_ever(
    two_phases: Make, dataset: Dataset
) -> None:
    learner = two_phases(iterations=2)
    teach(learner, dataset, 10)
    early = state_of(learner.split.front)
    teach(learner, dataset, 10, first=10)
    front, plastic = state_of(learner.split.front), state_of(learner.plastic)
    assert any("running_mean" in name for name in front)
    assert all(not torch.equal(v, early[k]) for k, v in front.items())  # it had learned
    teach(learner, dataset, 30, first=20)
    learner.finish()
    for name, value in learner.split.front.state_dict().items():
        assert torch.equal(value, front[name]), name
    moved = learner.plastic.state_dict()
    assert all(not torch.equal(value, moved[name]) for name, value in plastic.items())
    assert all(p.grad is None for p in learner.split.front.parameters())


@pytest.mark.parametrize("at", [9, 22])
def test_the_state_of_either_phase_loads_into_a_learner_of_either(
    at: int, two_phases: Make, dataset: Dataset
) -> None:
    learner, *others = (two_phases(iterations=0.75) for _ in range(3))
    teach(learner, dataset, at)
    for other, used in zip(others, (9, 22), strict=True):
        teach(other, dataset, used, first=3)
        other.load_state_dict(learner.state_dict())
        assert digest(other.state_dict()) == digest(learner.state_dict())
        room = [getattr(one.memory, "capacity", None) for one in (other, learner)]
        assert room[0] == room[1]  # means have none
    for one in (learner, *others):
        teach(one, dataset, 20, first=at)
        one.finish()
    x = dataset.test.images
    for other in others:
        assert torch.equal(learner.scores(x), other.scores(x))
        assert digest(other.state_dict()) == digest(learner.state_dict())


@pytest.mark.parametrize("anew", [False, True])
def test_work_agrees_with_torch_s_counter_in_both_phases_and_at_the_switch(
    anew: bool, two_phases: Make, dataset: Dataset
) -> None:
    learner = two_phases(augment_stream=anew)
    teach(learner, dataset, 12)  # from the second block on batches are full
    for name in learner.passes():
        learner.work.flops_per_input(name)  # outside of the counter
    for first in (12, 16, 20):  # before, up to, and after the switch
        before = learner.work.flops
        with FlopCounterMode(display=False) as counter:
            teach(learner, dataset, 4, first)
        spent = learner.work.flops - before
        assert spent == pytest.approx(counter.get_total_flops(), rel=0.01), first
    counts, coded = learner.costs(), learner.split.quantizer is not None
    assert counts["images"] == 4 * 4 + 16 * 8 and counts["replayed"] == 4 * 8
    encoded = 4 * 4 if anew else 4  # a block of four, for each of four updates or once
    assert counts["encoded"] == (20 if coded else 0) + 20 + encoded
    assert counts.get("quantized", 0) == (LLOYD * 20 + 20 + encoded if coded else 0)


def test_every_update_of_a_block_replays_other_codes_with_the_same_new_ones(
    two_phases: Make, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = two_phases(iterations=2)
    teach(learner, dataset, 20)
    passed.clear()
    teach(learner, dataset, 4, first=20)
    assert len(passed) == 8
    assert all(torch.equal(passed[0][:4], maps[:4]) for maps in passed)
    replayed = {maps[4:].numpy().tobytes() for maps in passed}
    if learner.split.quantizer is not None:  # of four means all are replayed, in some order
        assert len(replayed) == 8


@pytest.mark.parametrize("anew", [False, True])
def test_new_images_are_encoded_once_as_they_are_or_augmented_for_every_update(
    anew: bool, two_phases: Make, rolled: Augmentation, dataset: Dataset, passed: list[Tensor]
) -> None:
    assert not two_phases().augment_stream  # as the originals, and as all numbers so far
    learner = two_phases(augment=rolled, iterations=2, augment_stream=anew)
    teach(learner, dataset, 20)
    passed.clear()
    counts, before = dict(learner.work.counts), copy.deepcopy(learner.memory)
    teach(learner, dataset, 4, first=20)
    raw = dataset.train.images[rows_of(dataset, 4, first=20)]
    quantizer, seen = learner.split.quantizer, []
    assert len(passed) == 8
    for t, maps in enumerate(passed, start=40):
        augmented = rolled(raw, learner.randomness.at(t, "augment"))
        with torch.no_grad():
            h = learner.split.front(augmented if anew else learner.setting.view(raw))
        seen.append(h if quantizer is None else quantizer(h))
        torch.testing.assert_close(maps[:4], h if quantizer is None else quantizer.decode(seen[-1]))
    for name in ("encoded", "quantized") if quantizer is not None else ("encoded",):
        assert learner.work.counts[name] - counts[name] == (8 * 4 if anew else 4)
    draw = learner.randomness.at(before.seen, "insert codes")
    before.add(draw, x=seen[0], y=torch.arange(4))  # what the first update has seen is kept
    assert digest(before.state_dict()) == digest(learner.memory.state_dict())
