"""The precision that networks calculate with."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def autocast_for(precision: str, device: str) -> AbstractContextManager[object]:
    """Return a context in which networks calculate with that precision."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(torch.device(device).type, getattr(torch, precision))


def to_float32(x: Tensor) -> Tensor:
    """Return x with the precision that losses and scores are calculated in."""
    return x.float() if x.dtype == torch.bfloat16 else x


def takes_bfloat16_on_cpu(precision: str, device: str) -> bool:
    """Tell whether a CPU would calculate with bfloat16, which not every one survives."""
    return precision == "bfloat16" and str(device).partition(":")[0] == "cpu"
