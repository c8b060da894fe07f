"""MEMO against its paper: what a boundary changes and what it must leave alone."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from earl.data.dataset import Dataset
from earl.errors import InvalidSetting
from earl.experiments.contract.checks import saved_and_loaded
from earl.methods.memo import MEMO, aux_labels
from earl.nn.build import build
from earl.nn.resnet import ResNet
from earl.storage.state import digest
from teaching import teach_classes as teach

Memo = Callable[..., MEMO]


def three_tasks(learner: MEMO, dataset: Dataset) -> MEMO:
    for classes in ((0, 1), (2,), (3,)):
        teach(learner, dataset, classes, 13)
        learner.end_task()
    return learner


def state_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def test_the_first_class_of_a_new_task_has_auxiliary_label_1() -> None:
    y = torch.tensor([0, 1, 2, 3, 4])
    assert aux_labels(y, n_prev=2).tolist() == [0, 0, 1, 2, 3]
    assert aux_labels(y, n_prev=5).tolist() == [0] * 5


def test_a_boundary_changes_no_answer_and_no_old_column(memo: Memo, dataset: Dataset) -> None:
    learner = memo()
    teach(learner, dataset, (0, 1), 12)
    x = dataset.test.images
    for task, s in ((2, 2), (3, 3)):
        before, weight = learner.scores(x), learner.network.head.weight.detach().clone()
        copied = state_of(learner.network.extractors.special[-1])
        learner.end_task()
        assert len(learner.network.extractors.special) == learner.costs()["extractors"] == s
        assert torch.equal(learner.scores(x).argmax(1), before.argmax(1))
        torch.testing.assert_close(learner.scores(x), before, atol=1e-5, rtol=1e-5)
        wide, n = learner.network.head.weight, len(learner.classes)
        assert wide.shape == (len(weight), 16 * s)
        assert torch.equal(wide[:, : 16 * (s - 1)], weight)
        assert not wide[:n, 16 * (s - 1) :].any()  # seen classes
        assert wide[n:, 16 * (s - 1) :].all()  # classes to come are drawn as ever
        for name, value in learner.network.extractors.special[-1].state_dict().items():
            assert torch.equal(value, copied[name])
        teach(learner, dataset, (task,), 12)
        assert learner.vectors()[:, 16 * (s - 1) :].any()


def test_frozen_extractors_keep_parameters_and_batch_norm_for_ever(
    memo: Memo, dataset: Dataset
) -> None:
    learner = memo(iterations=2)
    teach(learner, dataset, (0, 1), 12)
    learner.end_task()
    first = state_of(learner.network.extractors.special[0])
    extractors = learner.network.extractors
    base, newest = state_of(extractors.base), state_of(extractors.special[1])
    teach(learner, dataset, (2,), 12)
    learner.end_task()
    second = state_of(learner.network.extractors.special[1])
    teach(learner, dataset, (3, 0), 20)
    learner.finish()
    for frozen, module in zip((first, second), learner.network.extractors.special, strict=False):
        assert any("running_mean" in name for name in frozen)
        for name, value in module.state_dict().items():
            assert torch.equal(value, frozen[name]), name
    assert any(not torch.equal(v, newest[k]) for k, v in second.items())  # it had learned before
    assert any(not torch.equal(v, base[k]) for k, v in extractors.base.state_dict().items())
    assert not any(p.requires_grad for E in extractors.special[:-1] for p in E.parameters())


def test_a_stage_that_was_frozen_before_learns_in_no_copy(memo: Memo, dataset: Dataset) -> None:
    def frozen_memo() -> MEMO:
        backbone = build(lambda: ResNet(depth=8, width=4), Generator().manual_seed(0))
        backbone.blocks[-1].requires_grad_(False)
        return MEMO(backbone, memo().setting)

    learner, fresh = frozen_memo(), frozen_memo()
    teach(learner, dataset, (0, 1), 10)
    fresh.load_state_dict(learner.state_dict())  # before the first boundary
    for one in (learner, fresh):
        one.end_task()
        first, newest = one.network.extractors.special
        before = state_of(first)
        teach(one, dataset, (2, 3), 10)
        for E in (first, newest):
            assert all(torch.equal(value, before[k]) for k, value in E.state_dict().items())
    assert digest(learner.state_dict()) == digest(fresh.state_dict())


def test_the_optimiser_keeps_its_moments_and_starts_afresh_with_what_is_new(
    memo: Memo, dataset: Dataset
) -> None:
    learner = memo()
    teach(learner, dataset, (0, 1), 12)
    network, state = learner.network, learner.optimizer.state
    before = {p: {k: v.clone() for k, v in state[p].items()} for p in network.parameters()}
    old = network.extractors.special[0]
    learner.end_task()
    state = learner.optimizer.state
    for p in network.extractors.base.parameters():
        assert all(torch.equal(v, before[p][k]) for k, v in state[p].items())
    columns = state[network.head.weight]["exp_avg"]
    assert torch.equal(columns[:, :16], before[network.head.weight]["exp_avg"])
    assert columns.shape == (32, 32) and not columns[:, 16:].any()
    assert network.aux is not None
    for part in (network.extractors.special[1], network.aux, old):
        assert not any(p in state for p in part.parameters())
    trained = {id(p) for group in learner.optimizer.param_groups for p in group["params"]}
    assert trained == {id(p) for p in network.parameters()} - {id(p) for p in old.parameters()}


def test_a_boundary_without_new_classes_changes_nothing_but_learns_what_waits(
    memo: Memo, dataset: Dataset
) -> None:
    learner = memo()
    learner.end_task()
    assert len(learner.network.extractors.special) == 1 and learner.network.aux is None
    teach(learner, dataset, (0, 1), 9)
    learner.end_task()
    assert len(learner.waiting) == 0 and learner.work.updates == 9
    state = digest(learner.state_dict())
    learner.end_task()
    assert digest(learner.state_dict()) == state
    teach(learner, dataset, (1, 0), 5)
    learner.end_task()
    assert len(learner.waiting) == 0 and learner.work.updates == 14
    assert len(learner.network.extractors.special) == 2


def test_there_are_never_more_extractors_than_allowed(memo: Memo, dataset: Dataset) -> None:
    for most in (1, 2):
        learner = three_tasks(memo(max_extractors=most), dataset)
        assert len(learner.network.extractors.special) == most
        assert learner.tasks.n_prev == 4
        newest = state_of(learner.network.extractors.special[-1])
        teach(learner, dataset, (3, 0), 8)
        moved = learner.network.extractors.special[-1].state_dict()
        assert any(not torch.equal(value, newest[name]) for name, value in moved.items())


def test_the_auxiliary_head_has_a_row_for_the_past_and_one_for_every_new_class(
    memo: Memo, dataset: Dataset
) -> None:
    learner = memo()
    x = dataset.train.images
    learner.observe(x[:5], torch.arange(5))
    learner.end_task()
    learner.observe(x[:70], torch.arange(5, 75))  # more than were allocated ahead
    assert learner.network.aux is not None and len(learner.network.aux.weight) >= 71
    assert learner.scores(x[:2]).shape == (2, 75)
    assert torch.isfinite(learner.scores(x)).all()


def test_a_state_with_several_extractors_loads_into_a_fresh_or_a_used_learner(
    memo: Memo, dataset: Dataset
) -> None:
    learner, fresh, used = (memo(iterations=0.75) for _ in range(3))
    teach(three_tasks(learner, dataset), dataset, (0, 3), 6)
    teach(used, dataset, (1, 2), 7)
    used.end_task()
    for other in (fresh, used):
        saved_and_loaded(learner, other, 1)
        assert digest(other.state_dict()) == digest(learner.state_dict())
    for one in (learner, fresh, used):
        teach(one, dataset, (1, 3), 9)
        one.end_task()
        teach(one, dataset, (2, 0), 9)
        one.finish()
    for other in (fresh, used):
        assert torch.equal(learner.scores(dataset.test.images), other.scores(dataset.test.images))
        assert digest(other.state_dict()) == digest(learner.state_dict())


def test_an_earlier_state_loads_into_a_learner_that_has_grown(memo: Memo, dataset: Dataset) -> None:
    learner, other = memo(), three_tasks(memo(), dataset)
    teach(learner, dataset, (0, 1), 9)
    other.load_state_dict(learner.state_dict())
    for one in (learner, other):
        three_tasks(one, dataset)
    assert digest(other.state_dict()) == digest(learner.state_dict())


def test_only_the_package_s_resnet_can_be_split(memo: Memo) -> None:
    setting = memo().setting
    with pytest.raises(InvalidSetting, match=r"takes a ResNet of earl.nn, not Sequential"):
        MEMO(nn.Sequential(nn.Flatten(), nn.Linear(192, 8)), setting)
    with pytest.raises(InvalidSetting, match="this network has one stage"):
        MEMO(ResNet(depth=4, width=2), memo().setting)


@pytest.mark.parametrize(("depth", "blocks"), [(8, 1), (14, 2), (18, 2), (34, 3)])
def test_the_specialised_blocks_are_the_last_stage(memo: Memo, depth: int, blocks: int) -> None:
    backbone = build(lambda: ResNet(depth=depth, width=2), torch.Generator().manual_seed(0))
    x = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    expected = copy.deepcopy(backbone).eval()(x)
    learner = MEMO(backbone, memo().setting)
    assert len(learner.network.extractors.special[0]) == blocks
    torch.testing.assert_close(learner.network.eval()(x), expected)
