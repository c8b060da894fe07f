"""Features that can be told apart, and what a memory of residuals holds of them."""

import torch
from torch.nn import functional as F

from earl.methods.earl.residuals import EMPTY
from seeds import generator


def unit(n, d, seed=0, dtype=torch.float64):
    """Return n random directions."""
    return F.normalize(torch.randn(n, d, generator=generator(seed), dtype=dtype), dim=1)


def filled(memory):
    """Return the features (N, d) and classes (N,) of the slots that hold something: a copy."""
    h, y = memory.pairs()
    return h[y != EMPTY], y[y != EMPTY]


def stored(memory):
    """Return the tags held per class, sorted."""
    h, y = filled(memory)
    assert len(h) == len(y) == len(memory)
    held = {}
    for tag, c in zip(h[:, 0].tolist(), y.tolist(), strict=True):
        held.setdefault(c, []).append(int(tag))
    return {c: sorted(tags) for c, tags in held.items()}
