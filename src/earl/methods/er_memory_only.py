"""Memory-only experience replay: the control that trains like EARL, with cross-entropy."""

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import InvalidSetting, require, require_one_of
from earl.learning import (
    POLICIES,
    Classes,
    Learner,
    Memory,
    Pace,
    PolicyName,
    Setting,
    Stateful,
    Work,
    adam,
    ask,
    descend,
    forward,
)
from earl.nn import Classifier, feature_size
from earl.randomness import Randomness


class MemoryOnlyER(Learner):
    """Trains a linear classifier from a balanced memory alone, as EARL does, without its targets.

    Paper: the control missing from Seo et al., CVPR 2024: it separates what memory-only training
    and a balanced memory bring from what the fixed classifier brings. Knows no tasks.

    With the policy "reservoir" the memory is ER's: then memory-only training is all that differs
    from it.

    `begin` samples are only kept; the updates that they have earned follow at once. With a memory
    for the whole stream, and `begin` at its end, that is offline training.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        begin: int = 0,
        policy: PolicyName = "greedy_balanced",
    ) -> None:
        require_one_of("policy", policy, POLICIES)
        require(begin >= 0, f"begin = {begin} must not be negative")
        if setting.samples is not None and begin > setting.samples:
            raise InvalidSetting(
                f"begin = {begin} is beyond the {setting.samples} samples of the stream: nothing "
                f"would be trained; set begin={setting.samples} to train at its end"
            )
        self.setting, self.begin = setting, begin
        self.randomness = Randomness(setting.seed)
        size = feature_size(backbone, setting.image_shape)
        self.network = Classifier(backbone, size, self.randomness.at(0, "head")).to(setting.device)
        self.optimizer = adam(self.network.parameters(), setting.lr)
        self.memory = Memory(setting.memory_size, POLICIES[policy])
        self.classes = Classes()
        self.work = Work(self.passes)
        self.pace = Pace(setting, self.work)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Keep each new sample, then train on a uniform draw from the memory."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            y_i = self.classes.index(y_i)
            n = len(self.classes)
            self.network.head.grow(n, self.optimizer, self.randomness.at(n, "head"))
            self.memory.add(self.randomness.at(self.memory.seen, "insert"), x=x_i, y=y_i)
            if self.memory.seen >= self.begin:
                for _ in self.pace.owed(self.memory.seen - self.pace.samples):
                    self._update()

    def _update(self) -> None:
        t, B = self.work.updates, self.setting.batch_size
        X, Y = self.memory.sample(B, "x", "y", generator=self.randomness.at(t, "draw"))
        X = self.setting.augment(X.to(self.setting.device), self.randomness.at(t, "augment"))
        z = forward(self.network, self.setting, X)[:, : len(self.classes)]
        loss = F.cross_entropy(z, Y.to(z.device))
        descend(loss, self.optimizer, self.work)
        self.work.add(images=len(Y))

    def scores(self, x: Tensor) -> Tensor:
        return ask(self.network, self.setting, x)[:, : len(self.classes)]

    def parts(self) -> Mapping[str, Stateful]:
        return self.named_parts("network", "optimizer", "memory", "classes", "pace", "work")
