"""Losses that more than one method uses."""

import torch
from torch import Tensor


def supervised_contrastive(z: Tensor, y: Tensor, temperature: float) -> Tensor:
    """Return each anchor's loss -1/|P| sum_p log softmax_a(<z_i, z_a>/T)_p over a != i; (N,).

    z (N, d) has unit rows; P are the other rows of the anchor's class. An anchor without any has
    loss 0 (Khosla et al., 2020, L_out).
    """
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    similarity = (z @ z.T / temperature).masked_fill(itself, float("-inf"))  # (N, N)
    log_p = similarity.log_softmax(dim=1)
    positive = (y[:, None] == y) & ~itself
    total = log_p.masked_fill(~positive, 0.0).sum(dim=1)
    return -total / positive.sum(dim=1).clamp(min=1)


def known_mse(z: Tensor, stored: Tensor) -> Tensor:
    """Return the mean of (z - stored)² over the entries of `stored` that are not NaN; 0 if none.

    z and stored are (N, n). NaN stands where nothing was known, and no gradient comes from there.
    """
    known = ~stored.isnan()
    error = torch.where(known, z - stored.nan_to_num(), 0.0)
    return error.square().sum() / known.sum().clamp(min=1)


def finite_or_nan(z: Tensor) -> Tensor:
    """Return logits to be stored: those that are not finite are unknown to `known_mse`, as nan."""
    return z.masked_fill(~z.isfinite(), float("nan"))
