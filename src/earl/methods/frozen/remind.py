"""REMIND (Hayes et al., ECCV 2020): replay of compressed feature maps behind frozen blocks."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from earl.errors import require
from earl.learning import (
    Classes,
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
    greedy_balanced,
    with_replay,
)
from earl.methods.frozen.front import Encoder, SplitResNet, length_of_base
from earl.methods.frozen.phases import TwoPhases
from earl.methods.frozen.quantizer import ProductQuantizer
from earl.nn import Classifier, feature_size
from earl.randomness import Randomness


class REMIND(TwoPhases):
    """Freezes the first blocks after a while, then replays their feature maps as small codes.

    Paper: Hayes et al., "REMIND Your Neural Network to Prevent Catastrophic Forgetting", ECCV 2020.
    Knows no tasks, but how long its first phase is to be.
    """

    frozen_in_state = "backbone.frozen"

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        base: float = 0.6,
        frozen: int = -1,
        codebooks: int = 32,
        codewords: int = 256,
        crops: bool = False,
        mixup: float = 0.0,
        augment_stream: bool = False,
    ) -> None:
        require(0 <= mixup < math.inf, f"mixup = {mixup} must be 0, for none, or a positive number")
        self.setting = setting
        self.base = length_of_base(base, setting)
        self.crops, self.mixup, self.augment_stream = crops, mixup, augment_stream
        self.randomness = Randomness(setting.seed)
        size = feature_size(backbone, setting.image_shape)
        self.split = SplitResNet(backbone, frozen, setting.image_shape)
        channels = self.split.map_shape[0]
        self.split.quantizer = ProductQuantizer(channels, codebooks, codewords)
        network = Classifier(self.split, size, self.randomness.at(0, "head"))
        self.network = network.to(setting.device)
        self.plastic = nn.Sequential(self.split.rest, self.network.head)
        self.waiting = Waiting(max(1, setting.batch_size // 2), self._learn_block)
        self.classes = Classes()
        self.work = Work(self.passes)
        self.encoder = Encoder(self.split, setting, self.work)
        self.pace = Pace(setting, self.work)
        self._enter(frozen=False)

    def _enter(self, frozen: bool) -> None:
        self.split.freeze(frozen)
        room = self.encoder.room_for_codes() if frozen else self.setting.memory_size
        self.memory = Memory(room, greedy_balanced)
        learning = self.plastic if frozen else self.network
        self.optimizer = adam(learning.parameters(), self.setting.lr)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Collect half a batch of new samples, train on them with as many old ones, keep them."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            y_i = self.classes.index(y_i)
            n = len(self.classes)
            self.network.head.grow(n, self.optimizer, self.randomness.at(n, "head"))
            self._wait(x_i, y_i)

    def _update(self, X: Tensor, Y: Tensor) -> None:
        """Train the whole network, as ER does; behind the frozen front, the rest."""
        if self.split.frozen:
            self._update_plastic(X, Y)
            return
        t = self.work.updates
        draw = self.randomness.at(t, "draw")
        X, Y = with_replay(X, Y, self.memory, self.setting.batch_size, draw)
        X = self.setting.augment(X.to(self.setting.device), self.randomness.at(t, "augment"))
        self._step(forward(self.network, self.setting, X), Y)
        self.work.add(images=len(Y))

    def _update_plastic(self, X: Tensor, Y: Tensor) -> None:
        """Train the rest on the maps of the new codes X (W, m, h, w) and of stored ones."""
        t, W = self.work.updates, len(Y)
        purposes = ("draw", "draw for mixup") if self.mixup else ("draw",)
        for draw in (self.randomness.at(t, purpose) for purpose in purposes):
            rest = self.setting.batch_size - W
            X_m, Y_m = self.memory.sample(rest, "x", "y", generator=draw)
            X, Y = torch.cat((X, X_m)), torch.cat((Y, Y_m))
        maps, targets = self.split.decode(X), Y.to(self.setting.device)
        if self.crops:
            maps = crop_maps(maps, self.randomness.at(t, "crops"))
        if self.mixup:
            lam = beta(self.mixup, self.randomness.at(t, "mixup"))
            labels = F.one_hot(targets, len(self.classes)).float()
            maps, targets = mix(maps, W, lam), mix(labels, W, lam)
        self._step(forward(self.plastic, self.setting, maps), targets)
        self.work.add(replayed=len(maps))

    def _step(self, z: Tensor, targets: Tensor) -> None:
        """Descend the cross-entropy; targets are class numbers (B,) or distributions (B, n)."""
        z = z[:, : len(self.classes)]
        loss = F.cross_entropy(z, targets.to(z.device))
        descend(loss, self.optimizer, self.work)

    def scores(self, x: Tensor) -> Tensor:
        return ask(self.network, self.setting, x)[:, : len(self.classes)]

    def features(self, x: Tensor) -> Tensor:
        """Return the features that the classifier reads, (B, size)."""
        return ask(self.split, self.setting, x)

    def vectors(self) -> Tensor:
        """Return the rows of the classifier for the seen classes, (n, size)."""
        return self.network.head.weight[: len(self.classes)].detach()

    def passes(self) -> Mapping[str, Pass]:
        return self.encoder.passes(self.network, self.plastic)

    def parts(self) -> Mapping[str, Stateful]:
        return self.named_parts(
            "network", "optimizer", "memory", "waiting", "classes", "pace", "work"
        )


def crop_maps(maps: Tensor, generator: Generator) -> Tensor:
    """Cut a random box out of each map (B, c, h, w) and enlarge it to the whole.

    Boxes have 2/7 to all of the area and sides in a ratio of 3/4 to 4/3, where that fits.
    """
    area, ratio, x, y = torch.rand(4, len(maps), generator=generator).to(maps)
    area, ratio = 2 / 7 + 5 / 7 * area, (math.log(4 / 3) * (2 * ratio - 1)).exp()
    w, h = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    zero = torch.zeros_like(w)
    rows = ((w, zero, (2 * x - 1) * (1 - w)), (zero, h, (2 * y - 1) * (1 - h)))
    box = torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)  # (B, 2, 3)
    grid = F.affine_grid(box, list(maps.shape), align_corners=False)
    return F.grid_sample(maps, grid, padding_mode="border", align_corners=False)


def mix(rows: Tensor, new: int, lam: float) -> Tensor:
    """Return the new rows and, of two draws of equal length behind them, lam·one + (1-lam)·other.

    rows (new + 2r, ...) -> (new + r, ...)
    """
    one, other = rows[new:].chunk(2)
    return torch.cat((rows[:new], lam * one + (1 - lam) * other))


def beta(alpha: float, generator: Generator) -> float:
    """Return a draw from Beta(alpha, alpha); torch has none that takes a generator."""
    seed = int(torch.randint(2**62, (), generator=generator))
    return float(np.random.default_rng(seed).beta(alpha, alpha))
