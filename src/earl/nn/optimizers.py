"""Optimisers that work without torch's compiler.

torch lets its compiler skip some methods, as those of its optimisers and of what counts FLOPs, and
imports it for that when one of them is called first: more than a second, before anything is
learned. Taken as they were written, they are the same methods.
"""

import inspect
from typing import Any

import torch
from torch.optim import Adam, Optimizer, RMSprop


def plain(method: Any) -> Any:
    """Return a method of torch's as it was written."""
    return inspect.unwrap(method)


class Plain(Optimizer):
    """What an optimiser of torch shares with all others."""

    add_param_group = plain(Optimizer.add_param_group)
    state_dict = plain(Optimizer.state_dict)
    load_state_dict = plain(Optimizer.load_state_dict)
    zero_grad = plain(Optimizer.zero_grad)


class PlainAdam(Plain, Adam):
    """torch's Adam."""

    step = torch.no_grad()(plain(Adam.step))


class PlainRMSprop(Plain, RMSprop):
    """torch's RMSprop."""

    step = torch.no_grad()(plain(RMSprop.step))
