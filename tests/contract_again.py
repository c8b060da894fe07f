"""The contract of a method that another test has in full, once more under other circumstances."""

from collections.abc import Collection
from typing import Any

import pytest

from earl.experiments.contract import CHECKS
from earl.nn.resnet import ResNet

# What other circumstances break first. The other checks are made again by `pytest -m slow`.
FIRST = ("a_saved_learner_goes_on_exactly", "many_samples_at_once_equal_one_by_one", "it_learns")
FIRST += ("a_step_that_is_not_finite_is_undone", "asking_changes_nothing")
FIRST += ("updates_follow_the_flops_that_are_earned", "the_seed_decides_everything")


def repeated(*also: str, without: Collection[str] = ()) -> list[Any]:
    """Return the names of all checks; those are slow that are neither FIRST nor given."""
    assert {*also, *without, *FIRST} <= {*CHECKS}, "a check has another name now"
    now = {*FIRST, *also}
    names = [name for name in CHECKS if name not in without]
    return [name if name in now else pytest.param(name, marks=pytest.mark.slow) for name in names]


def shorten_networks(monkeypatch: pytest.MonkeyPatch, width: int = 16) -> None:
    """Let the checks make networks of one block: what they ask again needs no more."""

    def one_block(**_: int) -> ResNet:
        return ResNet(depth=4, width=width)

    monkeypatch.setattr("earl.experiments.contract.guards.ResNet", one_block)
