"""How well classes are learned: remembered samples are looked at now and then, beside learning."""

import logging
import math
import threading
import time
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from earl.errors import EarlError
from earl.estimator.model import Model
from earl.learning import Memory
from earl.methods.earl import EARL
from earl.nn.collapse import nc1, nc2, nc3
from earl.service.published import Published

MOST = 64  # samples that are looked at
AT_ONCE = 16  # of them in one pass
PATIENCE = 50.0  # so many times longer than looking, it waits until the next time
SECONDS = 2.0  # and at least so long

log = logging.getLogger("earl.service")


@dataclass(frozen=True)
class Reading:
    """The mean cosine of each class's samples with its vector, by class number, and NC1 to NC3."""

    seq: int = 0
    learned: dict[int, float] = field(default_factory=dict)
    collapse: dict[str, float] | None = None


@dataclass(frozen=True)
class Shown:
    """Remembered samples x (n, C, H, W) of class numbers y (n,), as of a published model."""

    published: Published
    x: Tensor
    y: Tensor


def choose(model: Model, published: Published) -> Shown | None:
    """Return some samples of every class that is remembered; None where there is no such thing."""
    learner = model.learner
    memory = getattr(learner, "memory", None)
    if not isinstance(learner, EARL) or not isinstance(memory, Memory) or not len(memory):
        return None
    held = memory.classes_held().tolist()
    each = max(1, MOST // len(held))
    rows = [row for c in held for row in memory.rows_of(c)[:each]][: 4 * MOST]
    x, y = memory.take(torch.tensor(rows), "x", "y")
    return Shown(published, x, y)


def read(shown: Shown) -> Reading:
    """Return how near samples are to the vectors of their classes, and NC1 to NC3."""
    model = shown.published.model
    learner = model.learner
    assert isinstance(learner, EARL)
    with torch.inference_mode():
        f_hat = torch.cat([learner.features(x) for x in shown.x.split(AT_ONCE)]).cpu()
    W = learner.vectors().cpu()
    cosines = F.cosine_similarity(f_hat, W[shown.y], dim=1)
    held = shown.y.unique()
    ids = learner.classes.ids(held).tolist()
    means = [float(cosines[shown.y == c].mean()) for c in held.tolist()]
    learned = {number: mean for number, mean in zip(ids, means, strict=True)}
    if len(held) < 2:
        return Reading(shown.published.seq, learned)
    labels = torch.searchsorted(held, shown.y)
    found = {"NC1": nc1(f_hat, labels), "NC2": nc2(f_hat, labels)}
    found["NC3"] = nc3(f_hat, labels, W[held])
    finite = all(math.isfinite(value) for value in found.values())
    return Reading(shown.published.seq, learned, found if finite else None)


class Gauge(threading.Thread):
    """Looks at samples that it is shown, one lot at a time."""

    def __init__(self) -> None:
        super().__init__(name="earl-gauge", daemon=True)
        self.reading = Reading()
        self._shown: Shown | None = None
        self._next = 0.0
        self._wake = threading.Event()
        self._ended = False

    @property
    def due(self) -> bool:
        """Whether it would look at samples now."""
        return self._shown is None and time.monotonic() >= self._next

    def show(self, shown: Shown | None) -> None:
        """Have samples looked at."""
        if shown is not None:
            self._shown = shown
            self._wake.set()

    def end(self) -> None:
        self._ended = True
        self._wake.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        while not self._ended:
            self._wake.wait()
            self._wake.clear()
            shown = self._shown
            if shown is None or self._ended:
                continue
            began = time.monotonic()
            try:
                self.reading = read(shown)
            except EarlError:  # NotFinite: there is nothing to show
                log.exception("gauge_failed")
            now = time.monotonic()
            self._next = now + max(SECONDS, PATIENCE * (now - began))
            self._shown = None
