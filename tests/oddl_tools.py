"""Shared by the tests of oddl."""

from earl.data.dataset import Dataset
from earl.methods.oddl.oddl import ODDL
from teaching import teach_classes as teach


def grown(learner: ODDL, dataset: Dataset) -> ODDL:
    """Have at least three components, by way of a threshold that every check passes."""
    assert learner.threshold == 0 and learner.setting.memory_size == 8
    teach(learner, dataset, (0, 1), 11)
    teach(learner, dataset, (2, 1), 10)
    assert len(learner.mixture) >= 3
    return learner
