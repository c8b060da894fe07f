"""Supervised contrastive replay (Mai et al., CVPR Workshops 2021)."""

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
from earl.nn import build, contrast_augment, feature_size, supervised_contrastive
from earl.randomness import Randomness

NO_MEAN = -2.0  # the score of a class without a mean: below every cosine
AT_ONCE = 250  # memory images that are encoded together


class SCR(Learner):
    """Pulls the views of images of one class together; answers with the nearest class mean.

    Paper: Mai et al., "Supervised Contrastive Replay: Revisiting the Nearest Class Mean Classifier
    in Online Class-Incremental Continual Learning", CVPR Workshops 2021. Knows no tasks.
    """

    own_views = 1  # the strong one

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        temperature: float = 0.07,
        head_width: int = 128,
        smallest_crop: float = 0.2,
        mirror: bool = True,
    ) -> None:
        require(temperature > 0, f"temperature = {temperature} must be positive")
        require(head_width >= 1, f"head_width = {head_width} must be at least 1")
        require(
            0 < smallest_crop <= 1, f"smallest_crop = {smallest_crop} must be above 0 and at most 1"
        )
        self.setting = setting
        self.temperature = temperature
        self.smallest_crop, self.mirror = smallest_crop, mirror
        self.randomness = Randomness(setting.seed)
        self.size = size = feature_size(backbone, setting.image_shape)
        head = build(lambda: projection(size, head_width), self.randomness.at(0, "head"))
        self.network = nn.Sequential(backbone, head).to(setting.device)
        self.optimizer = adam(self.network.parameters(), setting.lr)
        self.memory = Memory(setting.memory_size, reservoir)
        self.waiting = Waiting(max(1, setting.batch_size // 2), self._learn_block)
        self.classes = Classes()
        self.work = Work(self.passes)
        self.pace = Pace(setting, self.work)
        self._totals: tuple[object, Tensor] | None = None

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Collect half a batch of new samples, train on them with as many old ones, keep them."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            self.waiting.append(x_i, self.classes.index(y_i))

    def _learn_block(self, X: Tensor, Y: Tensor) -> None:
        for _ in self.pace.owed(len(Y)):
            self._update(X, Y)
        self.memory.add(self.randomness.at(self.memory.seen, "insert"), x=X, y=Y)

    def _update(self, X: Tensor, Y: Tensor) -> None:
        t = self.work.updates
        draw = self.randomness.at(t, "draw")
        X, Y = with_replay(X, Y, self.memory, self.setting.batch_size, draw)
        views = self._views(X.to(self.setting.device), t)  # (2B, C, H, W)
        z = F.normalize(forward(self.network, self.setting, views), dim=1)
        loss = supervised_contrastive(z, Y.repeat(2).to(z.device), self.temperature).mean()
        descend(loss, self.optimizer, self.work)
        self.work.add(images=len(views))

    def _views(self, X: Tensor, t: int) -> Tensor:
        """Return each image twice: as every method augments it, then as contrastive learning does.

        The second comes before normalisation, since it works on colours.
        """
        generator = self.randomness.at(t, "contrast")
        strong = contrast_augment(X, generator, smallest=self.smallest_crop, mirror=self.mirror)
        standard = self.setting.augment(X, self.randomness.at(t, "augment"))
        return torch.cat((standard, self.setting.view(strong)))

    def scores(self, x: Tensor) -> Tensor:
        """Return the cosine of the features with each class mean; NO_MEAN for a class without."""
        with torch.inference_mode():
            mu = self.vectors()
            return (self.features(x) @ mu.T).masked_fill(~mu.any(dim=1), NO_MEAN)

    def features(self, x: Tensor) -> Tensor:
        """Return the backbone's normalised features, without the projection head, (B, size)."""
        return F.normalize(ask(self.network[0], self.setting, x), dim=1)

    def vectors(self) -> Tensor:
        """Return the normalised mean feature of each class, (n, size); 0 for one without images.

        A class's images are those in memory; while it has none there, those that wait.
        """
        n = len(self.classes)
        with torch.inference_mode():
            total = self._memory_totals()
            total = F.pad(total, (0, 0, 0, n - len(total)))
            if len(self.waiting):
                x, y = self.waiting.look()
                new = ~torch.isin(y, self.memory.classes_held())
                if new.any():
                    total = total + totals(self.features(x[new]), y[new], n)
            return F.normalize(total, dim=1)

    def _memory_totals(self) -> Tensor:
        """Return the sum of the memory's features by class, encoded anew after every change."""
        now = (self.work.updates, self.memory.seen)
        if self._totals is None or self._totals[0] != now:
            total = torch.zeros(len(self.memory.counts), self.size, device=self.setting.device)
            for start in range(0, len(self.memory), AT_ONCE):
                rows = torch.arange(start, min(start + AT_ONCE, len(self.memory)))
                x, y = self.memory.take(rows, "x", "y")
                total += totals(self.features(x), y, len(total))
            self._totals = (now, total)
        return self._totals[1]

    def costs(self) -> dict[str, float]:
        """Return the costs; `reencoded` are the forward passes before the next answer."""
        return {**super().costs(), "reencoded": len(self.memory)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._totals = None  # another state may have been reached in as many updates
        super().load_state_dict(state)

    def parts(self) -> Mapping[str, Stateful]:
        return self.named_parts(
            "network", "optimizer", "memory", "waiting", "classes", "pace", "work"
        )


def projection(size: int, width: int) -> nn.Module:
    """Return the head that the loss looks through, size -> size -> width."""
    return nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, width))


def totals(h: Tensor, y: Tensor, n: int) -> Tensor:
    """Return the sum of the features h (m, size) of each of n classes, (n, size)."""
    return F.one_hot(y, n).T.to(h) @ h
