"""Optimisers that are made, saved and loaded without torch's compiler.

torch lets its compiler skip some methods of its optimisers, and imports it for that when one of
them is called first: more than a second, before anything is learned. Taken as they were written,
they are the same methods. The first step imports it all the same.
"""

import inspect
from typing import Any

from torch.optim import Adam, Optimizer, RMSprop


def plain(method: str) -> Any:
    """Return a method of torch's optimisers as it was written."""
    return inspect.unwrap(getattr(Optimizer, method))


class PlainAdam(Adam):
    """torch's Adam."""

    add_param_group = plain("add_param_group")
    state_dict = plain("state_dict")
    load_state_dict = plain("load_state_dict")


class PlainRMSprop(RMSprop):
    """torch's RMSprop."""

    add_param_group = plain("add_param_group")
    state_dict = plain("state_dict")
    load_state_dict = plain("load_state_dict")
