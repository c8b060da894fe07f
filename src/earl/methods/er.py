"""Experience replay (Rolnick et al., NeurIPS 2019)."""

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import functional as F

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
    with_replay,
)
from earl.nn import Classifier, feature_size
from earl.randomness import Randomness


class ER(Learner):
    """Replays uniformly drawn memory images together with the new ones.

    Paper: Rolnick et al., "Experience Replay for Continual Learning", NeurIPS 2019. Half of each
    batch is the newest samples, half a draw from a reservoir of the past. Knows no tasks.
    """

    def __init__(self, backbone: nn.Module, setting: Setting) -> None:
        self.setting = setting
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
        """Collect half a batch of new samples, train on them with as many old ones, keep them."""
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
        t = self.work.updates
        draw = self.randomness.at(t, "draw")
        X, Y = with_replay(X, Y, self.memory, self.setting.batch_size, draw)
        X = self.setting.augment(X.to(self.setting.device), self.randomness.at(t, "augment"))
        z = forward(self.network, self.setting, X)[:, : len(self.classes)]
        loss = F.cross_entropy(z, Y.to(z.device))
        descend(loss, self.optimizer, self.work)
        self.work.add(images=len(Y))

    def scores(self, x: Tensor) -> Tensor:
        return ask(self.network, self.setting, x)[:, : len(self.classes)]

    def parts(self) -> Mapping[str, Stateful]:
        return self.named_parts(
            "network", "optimizer", "memory", "waiting", "classes", "pace", "work"
        )
