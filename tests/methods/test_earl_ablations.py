"""What the ablations of EARL leave as it is: correction is a matter of answers alone."""

from collections.abc import Callable

import pytest
import torch

from earl.data.dataset import Dataset
from earl.learning.learner import Learner
from earl.storage.state import digest, flatten

Make = Callable[..., Learner]


@pytest.mark.parametrize(
    ("corrected", "settings", "plain"),
    [
        ("earl", {}, "earl-no-rc"),
        ("earl", {"residual_source": "refresh"}, "earl-no-rc"),
        ("earl-no-pdt", {}, "vanilla-etf"),
    ],
)
def test_with_correction_training_has_the_same_bits_and_answers_have_not(
    make: Make, dataset: Dataset, corrected: str, settings: dict[str, float | str], plain: str
) -> None:
    """So a run without correction is the same run, asked without it."""
    learners = make(corrected, **settings), make(plain)
    for i in range(24):
        at = torch.tensor([i * 37 % len(dataset.train)])
        for learner in learners:
            learner.predict(dataset.train.images[at])  # asked before each sample, as runs are
            learner.observe(dataset.train.images[at], dataset.train.labels[at])
    for part in ("network", "optimizer", "memory"):
        one, two = (digest(flatten(learner.parts()[part].state_dict())) for learner in learners)
        assert one == two, part
    scores = [learner.scores(dataset.test.images[::5]) for learner in learners]
    assert not torch.equal(*scores)
