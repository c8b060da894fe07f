"""Passes through a network, to answer and to train, and the optimiser that follows them."""

from typing import Any

import torch
from torch import Tensor, nn

from earl.learning.setting import Setting
from earl.nn.modes import eval_mode
from earl.nn.precision import autocast_for, to_float32


def ask(network: nn.Module, setting: Setting, x: Tensor) -> Tensor:
    """Return what a network makes of raw images, in evaluation mode; changes nothing."""
    setting.check_images(x)
    with (
        eval_mode(network),
        torch.inference_mode(),
        autocast_for(setting.precision, setting.device),
    ):
        out: Tensor = network(setting.view(x.to(setting.device)))
        return to_float32(out)


def forward(network: nn.Module, setting: Setting, x: Tensor) -> Tensor:
    """Return what a network makes of a batch that it is trained on, ready as `augment` gives it."""
    with autocast_for(setting.precision, setting.device):
        out = setting.ranks.forward(network, x)
    return to_float32(out)


def adam(parameters: Any, lr: float) -> torch.optim.Adam:
    """Return the optimiser of every method: Adam with a constant learning rate (Supp.)."""
    return torch.optim.Adam(parameters, lr=lr, fused=True)
