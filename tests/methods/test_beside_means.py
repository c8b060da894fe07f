"""EARL behind a frozen backbone asks its projection once: about samples and about class means."""

import pytest
import torch
from torch import nn

from earl.learning import Setting
from earl.learning.encoder import as_it_is
from earl.methods.earl import EARL


@pytest.mark.parametrize(("projection", "hidden"), [("means", 0), ("random", 16)])
def test_one_pass_gives_the_scores_of_two(projection: str, hidden: int) -> None:
    setting = Setting(
        image_shape=(12, 1, 1), dtype=torch.float32, view=as_it_is, augment=as_it_is, memory_size=9
    )
    learner = EARL(
        nn.Flatten(),
        setting,
        d=20,
        hidden=hidden,
        preparatory=False,
        projection=projection,
        residual_source="means",
    )
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(15, 12, 1, 1, generator=draw)
    learner.observe(x, torch.arange(15) % 4)
    expected = learner.corrected(learner.features(x)) @ learner.vectors().T
    torch.testing.assert_close(learner.scores(x), expected)
