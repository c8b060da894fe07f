"""How far neural collapse has come: NC1, NC2 and NC3 (Supp., "Properties of Neural Collapse").

The paper's printed formulas lack the outer products of the covariances, the 1/n of the means and
the outer norm of NC2 and NC3; these are the forms of Papyan et al. (2020) and Zhu et al. (2021).
Where all class means coincide there is nothing to measure against, and all three are NaN.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

ROUNDING = 1e-12  # of double precision, with room for sums


@dataclass(frozen=True)
class Means:
    """Centred class means A = [mu_c - mu_G], (n, d), and the samples centred by class, (N, d)."""

    A: Tensor
    within: Tensor
    coincide: bool  # all class means, up to rounding

    @classmethod
    def of(cls, h: Tensor, labels: Tensor) -> "Means":
        """h (N, d) are features, labels (N,) class numbers 0 .. n-1, each of which occurs."""
        h = h.double()
        n = int(labels.max()) + 1
        mu = torch.zeros(n, h.shape[1], dtype=h.dtype).index_add_(0, labels, h)
        mu /= labels.bincount(minlength=n)[:, None]
        A = mu - mu.mean(dim=0)
        coincide = bool(A.norm(dim=1).max() <= ROUNDING * h.norm(dim=1).max())
        return cls(A, h - mu[labels], coincide)


def nc1(h: Tensor, labels: Tensor) -> float:
    """Return tr(Sigma_W Sigma_B^+) / n: within-class spread against that between the means."""
    means = Means.of(h, labels)
    if means.coincide:
        return math.nan  # not 0: nothing has collapsed
    n = len(means.A)
    _, S, V = torch.linalg.svd(means.A / n**0.5, full_matrices=False)  # Sigma_B = V' S^2 V
    used = S / S.max() > 1e-6
    along = (means.within @ V[used].T).square()  # (N, rank)
    per_class = torch.zeros(n, along.shape[1], dtype=h.dtype).double()
    per_class.index_add_(0, labels, along)
    variance = (per_class / labels.bincount()[:, None]).mean(dim=0)  # (rank,)
    return float((variance / S[used].square()).sum()) / n


def nc2(h: Tensor, labels: Tensor) -> float:
    """Return the distance of the centred means' cosines from those of a simplex ETF."""
    means = Means.of(h, labels)
    m = means.A / means.A.norm(dim=1, keepdim=True).clamp(min=1e-12)
    return math.nan if means.coincide else from_simplex(m @ m.T)


def nc3(h: Tensor, labels: Tensor, W: Tensor) -> float:
    """Return how far the class vectors W (n, d) are from being dual to the centred means."""
    means = Means.of(h, labels)
    return math.nan if means.coincide else from_simplex(W.double() @ means.A.T)


def from_simplex(G: Tensor) -> float:
    """Return || G/||G|| - (I - 11'/n)/sqrt(n-1) ||, in Frobenius norm."""
    n = len(G)
    target = (torch.eye(n, dtype=G.dtype) - 1 / n) / max(1, n - 1) ** 0.5
    return float((G / G.norm().clamp(min=1e-12) - target).norm())
