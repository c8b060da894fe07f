"""Maximally interfered retrieval (Aljundi et al., NeurIPS 2019)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call
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
    forward,
    reservoir,
)
from earl.nn import Classifier, begin_training, feature_size
from earl.randomness import Randomness


class ERMIR(Learner):
    """Replays the memory images whose loss an update on the new samples alone would raise most.

    Paper: Aljundi et al., "Online Continual Learning with Maximally Interfered Retrieval", NeurIPS
    2019. Batches and memory are those of experience replay. Knows no tasks.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        candidates: int = 50,
        virtual_lr: float = 0.0,
    ) -> None:
        require(candidates >= 1, f"candidates = {candidates} must be at least 1")
        require(
            0 <= virtual_lr < float("inf"),
            f"virtual_lr = {virtual_lr} must be positive, or 0 to be lr",
        )
        self.setting = setting
        self.candidates, self.virtual_lr = candidates, virtual_lr or setting.lr
        self.randomness = Randomness(setting.seed)
        size = feature_size(backbone, setting.image_shape)
        self.network = Classifier(backbone, size, self.randomness.at(0, "head")).to(setting.device)
        self.optimizer = adam(self.network.parameters(), setting.lr)
        self.memory = Memory(setting.memory_size, reservoir)
        self.waiting = Waiting(max(1, setting.batch_size // 2), self._learn_block)
        self.classes = Classes()
        self.work = Work(self.passes)
        self.pace = Pace(setting, self.work)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Collect half a batch of new samples, train on them with what they disturb, keep them."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            y_i = self.classes.index(y_i)
            n = len(self.classes)
            self.network.head.grow(n, self.optimizer, self.randomness.at(n, "head"))
            self.waiting.append(x_i, y_i)

    def _learn_block(self, X: Tensor, Y: Tensor) -> None:
        for _ in self.pace.owed(len(Y)):
            self._update(X, Y)
        self.memory.add(self.randomness.at(self.memory.seen, "insert"), x=X, y=Y)

    def _update(self, X: Tensor, Y: Tensor) -> None:
        X, Y = self._augment(X, "augment"), Y.to(self.setting.device)
        if len(self.memory) and len(Y) < self.setting.batch_size:
            X_m, Y_m = self._retrieve(X, Y)
            X, Y = torch.cat((X, self._augment(X_m, "augment memory"))), torch.cat((Y, Y_m))
        z = forward(self.network, self.setting, X)[:, : len(self.classes)]
        loss = F.cross_entropy(z, Y)
        descend(loss, self.optimizer, self.work)
        self.work.add(images=len(Y))

    def _retrieve(self, X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the memory samples, (B - W, C, H, W) and (B - W,), that X and Y disturb most."""
        rest = self.setting.batch_size - len(Y)
        c = max(self.candidates, 2 * rest)  # fewer would leave no choice
        draw = self.randomness.at(self.work.updates, "draw")
        X_c, Y_c = (part.to(Y.device) for part in self.memory.sample(c, "x", "y", generator=draw))
        if len(Y_c) <= rest:
            return X_c, Y_c
        theta_v = self._virtual_step(X, Y)
        view = self.setting.view(X_c)
        with torch.no_grad():
            score = self._losses(view, Y_c, theta_v) - self._losses(view, Y_c)
        self.work.count(forwards=3 * len(Y) + 2 * len(Y_c))  # a gradient costs three
        most = score.argsort(descending=True, stable=True)[:rest]
        return X_c[most], Y_c[most]

    def _virtual_step(self, X: Tensor, Y: Tensor) -> dict[str, Tensor]:
        """Return theta_v = theta - virtual_lr · g, with g = ∇CE on the new samples X, Y alone."""
        theta = {n: p for n, p in self.network.named_parameters() if p.requires_grad}
        loss = self._losses(X, Y).mean()
        g = torch.autograd.grad(loss, list(theta.values()), materialize_grads=True)
        return {
            name: p.detach() - self.virtual_lr * g_p
            for (name, p), g_p in zip(theta.items(), g, strict=True)
        }

    def _losses(self, X: Tensor, Y: Tensor, theta: Mapping[str, Tensor] | None = None) -> Tensor:
        """Return the cross-entropy of each sample, (N,), with weights theta instead of its own.

        The network is in training mode, as in the update that this looks ahead to. It stays as it
        is, since the pass changes copies of the running statistics.
        """
        copies = {name: buffer.clone() for name, buffer in self.network.named_buffers()}
        several = X if len(X) > 1 else X.repeat(2, 1, 1, 1)  # batch norm needs two
        begin_training(self.network)
        z = functional_call(self.network, {**copies, **(theta or {})}, (several,))
        z = z[: len(X), : len(self.classes)]
        return F.cross_entropy(z, Y, reduction="none")

    def _augment(self, X: Tensor, purpose: str) -> Tensor:
        generator = self.randomness.at(self.work.updates, purpose)
        return self.setting.augment(X.to(self.setting.device), generator)

    def scores(self, x: Tensor) -> Tensor:
        return ask(self.network, self.setting, x)[:, : len(self.classes)]

    def parts(self) -> Mapping[str, Stateful]:
        return self.named_parts(
            "network", "optimizer", "memory", "waiting", "classes", "pace", "work"
        )
