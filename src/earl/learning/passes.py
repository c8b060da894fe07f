"""Passes through a network, to answer and to train, and the optimiser that follows them."""

from typing import Any

import torch
from torch import Tensor, nn

from earl.learning.setting import Setting
from earl.learning.work import Work
from earl.nn import steps
from earl.nn.modes import eval_mode
from earl.nn.optimizers import PlainAdam
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


def descend(loss: Tensor, optimizer: torch.optim.Optimizer, work: Work) -> steps.Taken:
    """Take a step down a loss; return whether it was taken, since one that is not finite is undone.

    A step is undone, and counted in `work` as skipped, if the loss or a gradient is inf or nan:
    weights, moments and running statistics are then as they were before `forward`, bit for bit.
    """
    steps.differentiate(loss, optimizer)
    return take_step(loss, optimizer, work)


def take_step(loss: Tensor, optimizer: torch.optim.Optimizer, work: Work) -> steps.Taken:
    """Take a step along gradients that were changed after `differentiate`; see `descend`."""
    taken = steps.take_step(loss, optimizer)
    work.progress.note(taken)
    return taken


def adam(parameters: Any, lr: float) -> torch.optim.Adam:
    """Return the optimiser of every method: Adam with a constant learning rate (Supp.)."""
    return PlainAdam(parameters, lr=lr, fused=True)
