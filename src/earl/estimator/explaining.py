"""Why an answer: how far a sample is from all that was taught, and which samples corrected it."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from earl.errors import InvalidInput, InvalidSetting
from earl.estimator.keys import Key
from earl.estimator.model import AT_ONCE, COSINES, Model
from earl.methods.earl import EARL
from earl.methods.earl.residuals import EMPTY


@dataclass(frozen=True)
class Neighbour:
    """A stored feature that corrected an answer, and the remembered sample nearest to it."""

    label: Hashable
    weight: float  # of all neighbours the weights sum to 1
    distance: float  # between its feature and that of the sample asked about
    sample: NDArray[Any] | None  # an image (H, W, 3) or a vector; None if none of its class is kept
    key: Key | None  # under which that sample was learned, if any


def unknown_scores(model: Model, x: Tensor) -> Tensor:
    """Return for each sample how far it is from every taught class, from 0 to 1, (n,).

    With EARL that is 1 minus the largest cosine of its feature with a class vector, before any
    correction; or with the mean of a class, where EARL keeps such means. With other methods it is
    1 minus the largest cosine or the largest probability.
    """
    learner = model.learner
    if isinstance(learner, EARL):
        with model.held(), torch.inference_mode():
            parts = [nearness(model, learner, learner.features(part)) for part in x.split(AT_ONCE)]
        near = torch.cat(parts)
    elif model.parameters.method in COSINES:
        near = model.scores(x).amax(dim=1)
    else:
        near = model.probabilities(x).amax(dim=1)
    return (1 - near.double().cpu()).clamp(0, 1)


def nearness(model: Model, learner: EARL, f_hat: Tensor) -> Tensor:
    """Return the cosine of features (n, d) with the nearest vector or mean of a class, (n,)."""
    W = learner.vectors()
    if learner.means is not None:
        seen, there = learner.means.through(learner.p)
        W = torch.zeros_like(W).index_copy(0, there.to(W.device), seen)
    return model.without_forgotten(f_hat @ W.T).amax(dim=1)


def are_unknown(model: Model, x: Tensor, below: float) -> list[bool]:
    """Tell of each sample whether it is less near to all taught classes than `below`."""
    if not 0 <= below <= 1:
        raise InvalidSetting(f"unknown_below = {below!r} must lie between 0 and 1")
    return [1 - score < below for score in unknown_scores(model, x).tolist()]


def neighbours(model: Model, x: Tensor) -> list[Neighbour]:
    """Return what corrected the answer about one sample x (1, C, H, W), the heaviest first.

    A feature was stored while a remembered sample was trained on, augmented; which one is not
    recorded. Named is the remembered sample of its class whose feature is now the nearest to it.
    """
    learner = model.learner
    if not isinstance(learner, EARL) or not learner.correction:
        raise InvalidInput(
            f"method = {model.parameters.method!r} corrects no answers by neighbours; 'earl' does"
        )
    with model.held(), torch.inference_mode():
        h_hat, y = learner.pairs()
        rows = (y != EMPTY).nonzero().flatten()
        h, y = h_hat[rows.to(h_hat.device)], y[rows]
        distance = torch.cdist(learner.features(x), h)[0].cpu()
        near, nearest = distance.topk(min(learner.k, len(rows)), largest=False)
        weights = torch.softmax(-near / learner.tau, dim=0)
        found = zip(weights.tolist(), near.tolist(), nearest.tolist(), strict=True)
        kept = {c: remembered(learner, c) for c in set(y[nearest].tolist())}
        return [described(model, kept, int(y[i]), h[i], w, r) for w, r, i in found]


def remembered(learner: EARL, c: int) -> tuple[Tensor, Tensor] | None:
    """Return the remembered samples of a class and their features as of now."""
    rows = learner.memory.rows_of(c)
    if not rows:
        return None
    (x,) = learner.memory.take(torch.tensor(rows), "x")
    return x, torch.cat([learner.features(part) for part in x.split(AT_ONCE)])


def described(
    model: Model,
    kept: dict[int, tuple[Tensor, Tensor] | None],
    c: int,
    h: Tensor,
    weight: float,
    distance: float,
) -> Neighbour:
    assert model.learner is not None
    number = int(model.learner.classes.ids(torch.tensor([c])))
    there = kept[c]
    if there is None:
        return Neighbour(model.labels[number], weight, distance, None, None)
    X, features = there
    x = X[int(F.linear(features, h).argmax())]
    key = model.keys.of(x, number)
    return Neighbour(model.labels[number], weight, distance, model.reader.shown(x), key)
