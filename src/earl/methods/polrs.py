"""Online search for the learning rate by a population of three (Cai, Sener, Koltun, ICCV 2021)."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import require
from earl.learning import (
    Classes,
    Learner,
    Memory,
    Pace,
    Pass,
    Setting,
    Stateful,
    Waiting,
    Work,
    adam,
    ask,
    descend,
    forward,
    reservoir,
    with_replay,
)
from earl.nn import Classifier, feature_size
from earl.randomness import Randomness

FACTORS = (0.5, 1.0, 2.0)  # the learning rates of the replicas, relative to the present one
MIDDLE = 1


class PoLRS(Learner):
    """Trains three replicas of ER at lr/2, lr and 2·lr, and goes on from the best now and then.

    Paper: Cai, Sener, Koltun, "Online Continual Learning with Natural Distribution Shifts: An
    Empirical Study with Visual Data", ICCV 2021. The best is the one that predicted most of the
    last `window` samples correctly before they were learned. Knows no tasks.
    """

    def __init__(self, backbone: nn.Module, setting: Setting, *, window: int = 500) -> None:
        require(window >= 1, f"window = {window} must be at least 1 sample")
        self.setting = setting
        self.randomness = Randomness(setting.seed)
        size = feature_size(backbone, setting.image_shape)
        network = Classifier(backbone, size, self.randomness.at(0, "head")).to(setting.device)
        self.networks = [network, copy.deepcopy(network), copy.deepcopy(network)]
        self.optimizers = [
            adam(network.parameters(), setting.lr * factor)
            for network, factor in zip(self.networks, FACTORS, strict=True)
        ]
        self.window = Window(window)
        self.memory = Memory(setting.memory_size, reservoir)
        self.waiting = Waiting(max(1, setting.batch_size // 2), self._learn_block)
        self.classes = Classes()
        self.work = Work(self.passes)
        self.pace = Pace(setting, self.work)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Let the replicas predict each sample; then collect, train and keep as ER does."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            self._ask(x_i, y_i)
            if self.window.full:
                self._continue_from_best()
            y_i = self.classes.index(y_i)
            n = len(self.classes)
            for network, optimizer in zip(self.networks, self.optimizers, strict=True):
                network.head.grow(n, optimizer, self.randomness.at(n, "head"))  # the same rows
            self.waiting.append(x_i, y_i)

    def _ask(self, x: Tensor, y: Tensor) -> None:
        """Let all replicas predict a sample that none has learned, and count which are right."""
        if not len(self.classes):
            return
        answers = torch.stack([self._scores(network, x).argmax() for network in self.networks])
        self.window.count((self.classes.ids(answers) == y).tolist())
        self.work.count(forwards=len(self.networks))

    def _continue_from_best(self) -> None:
        """Make all replicas copies of the best, its Adam moments included, around its rate."""
        best = self.window.leader()
        lr = self.optimizers[best].param_groups[0]["lr"]
        weights = copy.deepcopy(self.networks[best].state_dict())
        moments = self.optimizers[best].state_dict()
        for network, optimizer, factor in zip(self.networks, self.optimizers, FACTORS, strict=True):
            network.load_state_dict(weights)
            optimizer.load_state_dict(copy.deepcopy(moments))  # it would share the tensors
            optimizer.param_groups[0]["lr"] = lr * factor
        self.window.clear()

    def _learn_block(self, X: Tensor, Y: Tensor) -> None:
        for _ in self.pace.owed(len(Y)):
            self._update(X, Y)
        self.memory.add(self.randomness.at(self.memory.seen, "insert"), x=X, y=Y)

    def _update(self, X: Tensor, Y: Tensor) -> None:
        t = self.work.updates
        draw = self.randomness.at(t, "draw")
        X, Y = with_replay(X, Y, self.memory, self.setting.batch_size, draw)
        X = self.setting.augment(X.to(self.setting.device), self.randomness.at(t, "augment"))
        for network, optimizer in zip(self.networks, self.optimizers, strict=True):
            z = forward(network, self.setting, X)[:, : len(self.classes)]
            loss = F.cross_entropy(z, Y.to(z.device))
            descend(loss, optimizer, self.work)
        self.work.add(images=len(self.networks) * len(Y))

    @property
    def network(self) -> Classifier:
        """The replica that answers: the best of the present window."""
        return self.networks[self.window.leader()]

    def scores(self, x: Tensor) -> Tensor:
        return self._scores(self.network, x)

    def _scores(self, network: nn.Module, x: Tensor) -> Tensor:
        return ask(network, self.setting, x)[:, : len(self.classes)]

    def passes(self) -> Mapping[str, Pass]:
        network, shape = self.networks[MIDDLE], self.setting.image_shape  # all are of one kind
        return {"images": Pass(network, shape), "forwards": Pass(network, shape, trains=False)}

    def parts(self) -> Mapping[str, Stateful]:
        return {
            **{f"network_{j}": network for j, network in enumerate(self.networks)},
            **{f"optimizer_{j}": optimizer for j, optimizer in enumerate(self.optimizers)},
            **self.named_parts("window", "memory", "waiting", "classes", "pace", "work"),
        }


class Window:
    """Counts, over at most `size` samples, how many each replica predicted rightly."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.clear()

    def clear(self) -> None:
        self.samples = 0
        self.right = [0] * len(FACTORS)

    @property
    def full(self) -> bool:
        return self.samples >= self.size

    def count(self, right: list[bool]) -> None:
        """Count one sample, and which replicas were right about it."""
        self.samples += 1
        self.right = [r + new for r, new in zip(self.right, right, strict=True)]

    def leader(self) -> int:
        """Return the replica that was right most often.

        Of several it is the middle one if it is among them, else the fastest.
        """
        most = max(self.right)
        best = [j for j, right in enumerate(self.right) if right == most]
        return MIDDLE if MIDDLE in best else best[-1]

    def state_dict(self) -> dict[str, Any]:
        return {"samples": self.samples, "right": list(self.right)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.samples, self.right = state["samples"], list(state["right"])
