"""NC-FSCIL (Yang et al., ICLR 2023): fixed equiangular targets behind frozen blocks."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from earl.errors import require, require_one_of
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
    draw_distinct,
    forward,
    greedy_balanced,
    with_replay,
)
from earl.methods.frozen.front import Encoder, SplitResNet, length_of_base
from earl.methods.frozen.phases import TwoPhases
from earl.methods.frozen.quantizer import ProductQuantizer
from earl.nn import (
    Frame,
    Projection,
    SimplexETF,
    build,
    dot_regression,
    feature_size,
)
from earl.randomness import Randomness


class NCFSCIL(TwoPhases):
    """Pulls features to fixed simplex-ETF vectors; after a while only behind frozen blocks.

    Paper: Yang et al., "Neural Collapse Inspired Feature-Classifier Alignment for Few-Shot
    Class-Incremental Learning", ICLR 2023, as adapted to streams by Seo et al. (EARL), CVPR 2024.
    Knows no tasks, but how long its first phase is to be.
    """

    frozen_in_state = "0.frozen"

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        base: float = 0.6,
        frozen: int = -1,
        replay: Literal["pq", "class_mean"] = "pq",
        codebooks: int = 32,
        codewords: int = 256,
        dimensions: int = 0,
        augment_stream: bool = False,
    ) -> None:
        require_one_of("replay", replay, ("pq", "class_mean"))
        require(dimensions >= 0, f"dimensions = {dimensions} must be positive, or 0 for automatic")
        self.setting = setting
        self.base = length_of_base(base, setting)
        self.augment_stream = augment_stream
        self.randomness = Randomness(setting.seed)
        size = feature_size(backbone, setting.image_shape)
        d = dimensions or size
        etf = SimplexETF(d, setting.seed)
        self.frame = Frame(etf, setting.device)
        self.split = SplitResNet(backbone, frozen, setting.image_shape)
        if replay == "pq":
            channels = self.split.map_shape[0]
            self.split.quantizer = ProductQuantizer(channels, codebooks, codewords)
        p = build(lambda: Projection(size, d, 2 * size), self.randomness.at(0, "projection"))
        self.f = nn.Sequential(self.split, p).to(setting.device)  # f = p after g
        self.plastic = nn.Sequential(self.split.rest, p)
        self.waiting = Waiting(max(1, setting.batch_size // 2), self._learn_block)
        self.classes = Classes(capacity=etf.K)
        self.work = Work(self.passes)
        self.encoder = Encoder(self.split, setting, self.work)
        self.pace = Pace(setting, self.work)
        self._enter(frozen=False)

    def _enter(self, frozen: bool) -> None:
        self.split.freeze(frozen)
        if frozen and self.split.quantizer is None:
            self.memory = ClassMeans()
        elif frozen:
            self.memory = Memory(self.encoder.room_for_codes(), greedy_balanced)
        else:
            self.memory = Memory(self.setting.memory_size, greedy_balanced)
        learning = self.plastic if frozen else self.f
        self.optimizer = adam(learning.parameters(), self.setting.lr)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Collect half a batch of new samples, train on them with as many old ones, keep them."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            self._wait(x_i, self.classes.index(y_i))

    def _update(self, X: Tensor, Y: Tensor) -> None:
        """Train on new images or on what was kept of them, and on as much from the memory."""
        t = self.work.updates
        draw = self.randomness.at(t, "draw")
        X, Y = with_replay(X, Y, self.memory, self.setting.batch_size, draw)
        X = X.to(self.setting.device)
        if self.split.frozen:
            self._step(forward(self.plastic, self.setting, self.split.decode(X)), Y)
            self.work.add(replayed=len(Y))
        else:
            X = self.setting.augment(X, self.randomness.at(t, "augment"))
            self._step(forward(self.f, self.setting, X), Y)
            self.work.add(images=len(Y))

    def _step(self, f: Tensor, Y: Tensor) -> None:
        W = self.vectors()
        loss = dot_regression(F.normalize(f, dim=1), W[Y.to(W.device)]).mean()
        descend(loss, self.optimizer, self.work)

    def scores(self, x: Tensor) -> Tensor:
        """Return the cosine of each feature with the vectors of the seen classes."""
        return self.features(x) @ self.vectors().T

    def features(self, x: Tensor) -> Tensor:
        """Return f_hat(x), (B, d)."""
        return F.normalize(ask(self.f, self.setting, x), dim=1)

    def vectors(self) -> Tensor:
        """Return the vectors of the seen classes, (n, d)."""
        return self.frame.class_vectors(len(self.classes))

    def passes(self) -> Mapping[str, Pass]:
        return self.encoder.passes(self.f, self.plastic)

    def parts(self) -> Mapping[str, Stateful]:
        names = ("optimizer", "memory", "waiting", "classes", "pace", "work")
        return {"network": self.f, **self.named_parts(*names)}


class ClassMeans:
    """The running mean of each class, one row per class; adds and draws as a Memory does."""

    def __init__(self) -> None:
        self.seen = 0
        self._means = torch.empty(0)  # (n, ...), row c for class number c
        self._counts = torch.empty(0, dtype=torch.int64)

    def __len__(self) -> int:
        """The number of classes that have a mean."""
        return int((self._counts > 0).sum())

    def add(self, generator: Generator, *, y: Tensor, x: Tensor) -> None:
        """Take rows x (B, ...) of the classes y (B,) into their means; nothing is drawn."""
        missing = int(y.max()) + 1 - len(self._counts)
        if missing > 0:
            new = torch.zeros(missing, *x.shape[1:])
            self._means = torch.cat((self._means, new)) if len(self._counts) else new
            self._counts = torch.cat((self._counts, self._counts.new_zeros(missing)))
        self.seen += len(y)
        for c, row in zip(y.tolist(), x, strict=True):
            self._counts[c] += 1
            self._means[c] += (row - self._means[c]) / self._counts[c]

    def sample(self, n: int, *names: str, generator: Generator) -> tuple[Tensor, ...]:
        """Return "x", the means, and "y", the numbers, of n classes drawn without replacement."""
        held = self._counts.nonzero()[:, 0]
        y = held[draw_distinct(len(held), n, generator)]
        columns = {"x": self._means[y], "y": y}
        return tuple(columns[name] for name in names)

    def state_dict(self) -> dict[str, Any]:
        return {"means": self._means, "counts": self._counts, "seen": self.seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._means, self._counts = state["means"], state["counts"]
        self.seen = state["seen"]
