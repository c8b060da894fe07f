"""The memory of tensors is counted as torch allots it."""

import torch
from torch import nn

from earl.learning.allocated import Allocated


def test_what_stays_and_what_passes_are_told_apart() -> None:
    with Allocated() as allocated:
        x = torch.zeros(1000)
        y = x + 1  # 8000 bytes at a time
        z = y.view(10, 100)  # the same memory
        del x, y
        stays = z * 2
        del z
    assert (allocated.kept, allocated.passing) == (stays.nbytes, 8000)


def test_after_a_backward_pass_gradients_stay_and_activations_are_gone() -> None:
    layer = nn.Linear(100, 50, bias=False)
    with Allocated() as allocated:
        x = torch.zeros(8, 100)
        layer(x).square().sum().backward()
        del x
    assert allocated.kept == layer.weight.nbytes
    assert allocated.passing >= 8 * (100 + 50 + 50) * 4


def test_nothing_is_counted_before_and_after() -> None:
    before = torch.zeros(1000)
    with Allocated() as allocated:
        before += 1
    after = before + 1
    assert len(after) and allocated.kept == allocated.passing == 0
