"""Random numbers for tests, and whether draws look uniform."""

import numpy as np
import torch


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def looks_uniform(counts):
    """Whether equally likely outcomes were counted: chi-square within 5 s.d. of its mean."""
    counts = np.asarray(counts, dtype=float)
    expected = counts.sum() / counts.size
    assert expected >= 5, "too few draws to tell"
    freedom = counts.size - 1
    return ((counts - expected) ** 2 / expected).sum() <= freedom + 5 * (2 * freedom) ** 0.5
