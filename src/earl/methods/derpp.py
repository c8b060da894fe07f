"""DER++ (Buzzega et al., NeurIPS 2020): replay of labels and of the logits of their time."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import require
from earl.learning import (
    Classes,
    Learner,
    Memory,
    Pace,
    Setting,
    Stateful,
    Waiting,
    Work,
    adam,
    ask,
    descend,
    draw_distinct,
    forward,
    reservoir,
)
from earl.nn import Classifier, feature_size, finite_or_nan, known_mse
from earl.randomness import Randomness


class DERpp(Learner):
    """Replays some memory images with their labels and others with the logits they once had.

    Paper: Buzzega et al., "Dark Experience for General Continual Learning: a Strong, Simple
    Baseline", NeurIPS 2020. A third of each batch is new, a third has labels, a third logits. Knows
    no tasks. `future` spare rows of the classifier take the part of classes that have not come: the
    softmax pushes them down, and their low logits, held on old images, keep new classes off these.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        alpha: float = 0.5,
        beta: float = 0.5,
        future: int = 10,
        unknown: Literal["hold", "zero", "mask"] = "hold",
    ) -> None:
        for name, value in {"alpha": alpha, "beta": beta, "future": future}.items():
            require(value >= 0, f"{name} = {value} must not be negative")
        self.setting = setting
        self.alpha, self.beta, self.future, self.unknown = alpha, beta, future, unknown
        self.randomness = Randomness(setting.seed)
        size = feature_size(backbone, setting.image_shape)
        self.network = Classifier(backbone, size, self.randomness.at(0, "head")).to(setting.device)
        self.optimizer = adam(self.network.parameters(), setting.lr)
        self.memory = Memory(setting.memory_size, reservoir)
        self.waiting = Waiting(max(1, setting.batch_size // 3), self._learn_block)
        self.classes = Classes()
        self.work = Work(self.passes)
        self.pace = Pace(setting, self.work)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Collect a third of a batch, train on it with twice as many old samples, keep it."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            y_i = self.classes.index(y_i)
            n = len(self.classes)
            draw = self.randomness.at(n, "head")
            self.network.head.grow(n + self.future, self.optimizer, draw)
            self.waiting.append(x_i, y_i)

    def _learn_block(self, X: Tensor, Y: Tensor) -> None:
        width = self.memory.widen("logits", len(self.classes) + self.future)
        z = None
        for _ in self.pace.owed(len(Y)):
            z = self._update(X, Y)
        if z is None:  # no update was due or taken, so the logits are not known yet
            z = self._look(X)
        known = z.shape[1] if self.unknown == "hold" else len(self.classes)
        z = F.pad(finite_or_nan(z[:, :known]).cpu(), (0, width - known), value=float("nan"))
        insert = self.randomness.at(self.memory.seen, "insert")
        self.memory.add(insert, x=X, y=Y, logits=z)

    def _update(self, X: Tensor, Y: Tensor) -> Tensor | None:
        """Make one update; return the logits the new samples X (w, ...) had in it, (w, n + f).

        Those of a step that was not taken are of no use.
        """
        t, w = self.work.updates, len(Y)
        rest = self.setting.batch_size - w
        rows = draw_distinct(len(self.memory), rest, self.randomness.at(t, "draw"))
        stored = torch.empty(0, 0)
        if len(rows):
            X_m, Y_m, stored = self.memory.take(rows, "x", "y", "logits")
            X, Y = torch.cat((X, X_m)), torch.cat((Y, Y_m))
        X = self.setting.augment(X.to(self.setting.device), self.randomness.at(t, "augment"))
        z = forward(self.network, self.setting, X)  # one pass: shared batch statistics
        z = z[:, : len(self.classes) + self.future]
        Y, stored = Y.to(z.device), stored[:, : z.shape[1]].to(z.device)
        loss = F.cross_entropy(z[:w], Y[:w])  # spare rows are rivals too, and learn to stay low
        if len(rows):
            m = w + self.waiting.size  # the draw with labels is z[w:m], that with logits z[m:]
            loss = loss + self.beta * F.cross_entropy(z[w:m], Y[w:m])
            loss = loss + self.alpha * known_mse(z[m:], self._targets(stored[m - w :]))  # Eq. (6)
        taken = descend(loss, self.optimizer, self.work)
        self.work.add(images=len(Y))
        return None if taken is False else z[:w].detach()

    def _targets(self, stored: Tensor) -> Tensor:
        """Return what stored logits (k, n + f) ask of every column; NaN asks for nothing."""
        if self.unknown == "zero":
            return stored.nan_to_num()
        if self.unknown == "hold" and self.future:
            return hold(stored, self.future, len(self.classes))
        return stored

    def _look(self, X: Tensor) -> Tensor:
        """Return the logits of seen and spare rows as the network answers now, (b, n + f)."""
        self.work.count(forwards=len(X))
        return ask(self.network, self.setting, X)[:, : len(self.classes) + self.future]

    def scores(self, x: Tensor) -> Tensor:
        return ask(self.network, self.setting, x)[:, : len(self.classes)]

    def parts(self) -> Mapping[str, Stateful]:
        return self.named_parts(
            "network", "optimizer", "memory", "waiting", "classes", "pace", "work"
        )


def hold(stored: Tensor, spare: int, n: int) -> Tensor:
    """Return logits (k, m) whose NaN, in the n first columns, are the mean of the `spare` before.

    Those belonged to classes to come when the row was stored. A column that did not exist yet would
    have been another of them, pushed down alike; it matters once a class has taken it.
    """
    known = ~stored.isnan()
    last = known & (known.cumsum(dim=1) > known.sum(dim=1, keepdim=True) - spare)
    mean = stored.masked_fill(~last, 0.0).sum(dim=1, keepdim=True) / spare
    return torch.cat((torch.where(known, stored, mean)[:, :n], stored[:, n:]), dim=1)
