"""MEMO (Zhou et al., ICLR 2023): a specialised block for every task behind shared ones."""

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from earl.errors import InvalidSetting, require
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
    greedy_balanced,
    with_replay,
)
from earl.nn import GrowingLinear, ResNet, build, feature_size, learning, let_learn
from earl.randomness import Randomness


class MEMO(Learner):
    """Freezes the last stage of the network at the end of a task and goes on with a copy of it.

    Paper: Zhou et al., "A Model or 603 Exemplars: Towards Memory-Efficient Class-Incremental
    Learning", ICLR 2023. Is told the ends of tasks.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        aux_weight: float = 1.0,
        max_extractors: int = 10,
    ) -> None:
        require(aux_weight >= 0, f"aux_weight = {aux_weight} must not be negative")
        require(max_extractors >= 1, f"max_extractors = {max_extractors} must be at least 1")
        self.setting = setting
        self.aux_weight, self.max_extractors = aux_weight, max_extractors
        self.randomness = Randomness(setting.seed)
        size = feature_size(backbone, setting.image_shape)
        head = build(lambda: GrowingLinear(size), self.randomness.at(0, "head"))
        self.network = Expandable(backbone, size, head).to(setting.device)
        self.optimizer = adam(self.network.trainable(), setting.lr)
        self.memory = Memory(setting.memory_size, greedy_balanced)
        self.waiting = Waiting(max(1, setting.batch_size // 2), self._learn_block)
        self.classes = Classes()
        self.tasks = Tasks()
        self.work = Work(self.passes)
        self.pace = Pace(setting, self.work)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Collect half a batch of new samples, train on them with as many old ones, keep them."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            y_i = self.classes.index(y_i)
            n, n_prev = len(self.classes), self.tasks.n_prev
            self.network.head.grow(n, self.optimizer, self.randomness.at(n, "head"))
            if self.network.aux is not None:
                draw = self.randomness.at(n, "aux rows")
                self.network.aux.grow(1 + n - n_prev, self.optimizer, draw)
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
        h = forward(self.network.extractors, self.setting, X)  # (B, s·size)
        loss = self._loss(h, Y.to(h.device))
        descend(loss, self.optimizer, self.work)
        self.work.add(images=len(Y))

    def _loss(self, h: Tensor, Y: Tensor) -> Tensor:
        """Return CE(z, y) + α_a CE(a, aux label) of the features h of all extractors."""
        n, n_prev = len(self.classes), self.tasks.n_prev
        z = self.network.head(h)[:, :n]
        loss = F.cross_entropy(z, Y)
        if self.network.aux is not None:
            a = self.network.aux(h[:, -self.network.size :])[:, : 1 + n - n_prev]
            loss = loss + self.aux_weight * F.cross_entropy(a, aux_labels(Y, n_prev))
        return loss

    def end_task(self) -> None:
        """Learn what waits, freeze the newest extractor and go on with a copy of it.

        A task that brought no new class changes nothing else; with `max_extractors` of them the
        newest one goes on itself, and only the auxiliary head is new.
        """
        self.finish()
        n = len(self.classes)
        if n == self.tasks.n_prev:
            return
        self.tasks.n_prev = n
        self._expand(n)

    def _expand(self, n: int) -> None:
        kept, draw = self.optimizer.state, self.randomness.at(n, "expand")
        network, s = self.network, len(self.network.extractors)
        if s < self.max_extractors:
            network.resize(s + 1)
            widen(network.head, (s + 1) * network.size, n, kept, draw)
        network.aux = build(lambda: GrowingLinear(network.size), draw).to(self.setting.device)
        self.optimizer = adam(network.trainable(), self.setting.lr)
        for p in network.trainable():
            if p in kept:  # neither the new extractor nor the new auxiliary head has moments yet
                self.optimizer.state[p] = kept[p]

    def scores(self, x: Tensor) -> Tensor:
        with torch.inference_mode():
            z: Tensor = self.network.head(self.features(x))
            return z[:, : len(self.classes)]

    def features(self, x: Tensor) -> Tensor:
        """Return the features of all extractors side by side, (B, s·size)."""
        return ask(self.network, self.setting, x)

    def vectors(self) -> Tensor:
        """Return the rows of the classifier for the seen classes, (n, s·size)."""
        return self.network.head.weight[: len(self.classes)].detach()

    def passes(self) -> Mapping[str, Pass]:
        s = len(self.network.extractors)  # frozen ones pass gradients on to the shared blocks
        return {"images": Pass(self.network, self.setting.image_shape, key=s)}

    def costs(self) -> dict[str, float]:
        """Return the costs; `extractors` make each image dearer than ER's."""
        return {**super().costs(), "extractors": len(self.network.extractors)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if set(state) == set(self.parts()):
            self.check_state(state)
            self.network.take_shape_of(state["network"])
            self.optimizer = adam(self.network.trainable(), self.setting.lr)
        super().load_state_dict(state)

    def parts(self) -> Mapping[str, Stateful]:
        return self.named_parts(
            "network", "optimizer", "memory", "waiting", "classes", "tasks", "pace", "work"
        )


class Tasks:
    """How many classes were seen before the task that is going on."""

    def __init__(self) -> None:
        self.n_prev = 0

    def state_dict(self) -> dict[str, Any]:
        return {"n_prev": self.n_prev}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.n_prev = state["n_prev"]


def aux_labels(y: Tensor, n_prev: int) -> Tensor:
    """Return 0 for the classes of earlier tasks, then 1, 2, ... for those of the newest; (B,)."""
    return (y - n_prev + 1).clamp(min=0)


class Extractors(nn.Module):
    """Shared blocks, then specialised extractors side by side; (B, C, H, W) -> (B, s·size).

    Only the newest extractor learns, if it was not frozen when it was handed over; the others are
    frozen.
    """

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        if not isinstance(backbone, ResNet):
            raise InvalidSetting(
                "MEMO copies the last stage of the network and has to know where it begins: it "
                f"takes a ResNet of earl.nn, not {type(backbone).__name__}"
            )
        strided = [i for i, block in enumerate(backbone.blocks) if block.stride != 1]
        require(bool(strided), "MEMO copies the last of several stages; this network has one stage")
        first = strided[-1]
        self.base = nn.Sequential(backbone.stem, backbone.blocks[:first])
        self.special = nn.ModuleList([backbone.blocks[first:]])
        self._given = learning(self.special[0])

    def __len__(self) -> int:
        return len(self.special)

    def forward(self, x: Tensor) -> Tensor:
        base = self.base(x)
        return torch.cat([E(base).mean(dim=(2, 3)) for E in self.special], dim=1)

    def resize(self, s: int) -> None:
        """Have s extractors: copies of the newest are appended, or the newest dropped."""
        while len(self) < s:
            self.special.append(copy.deepcopy(self.special[-1]))
        del self.special[s:]
        self.special.requires_grad_(False)
        let_learn(self.special[-1], self._given)


class Expandable(nn.Module):
    """Extractors, and the heads that read them; (B, C, H, W) -> (B, s·size).

    The head reads all features, the auxiliary head, which the first task has not, the newest ones.
    """

    def __init__(self, backbone: nn.Module, size: int, head: GrowingLinear) -> None:
        super().__init__()
        self.size = size
        self.extractors = Extractors(backbone)
        self.head = head
        self.aux: GrowingLinear | None = None

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.extractors(x)
        return features

    def trainable(self) -> list[nn.Parameter]:
        return [p for p in self.parameters() if p.requires_grad]

    def resize(self, s: int) -> None:
        """Have s extractors, of which the newest learns."""
        self.zero_grad()  # a frozen extractor keeps no gradients, nor does a copy get any
        self.extractors.resize(s)

    def take_shape_of(self, state: Mapping[str, Tensor]) -> None:
        """Have as many extractors and heads as the network whose state this is."""
        rows, columns = state["head.weight"].shape
        self.resize(columns // self.size)
        self.head.weight.data = self.head.weight.new_empty(rows, columns)
        like = GrowingLinear(self.size).to(self.head.weight.device)
        self.aux = like if "aux.weight" in state else None


def widen(
    head: GrowingLinear,
    columns: int,
    n: int,
    moments: Mapping[Tensor, dict[str, Tensor]],
    generator: Generator,
) -> None:
    """Add input columns to the head, 0 for the n seen classes, so that no answer changes.

    The rows of classes to come are drawn as if they had always had these columns.
    """
    rows, have = head.weight.shape
    draw = torch.empty(rows, columns - have).uniform_(-1, 1, generator=generator)
    new = (draw / math.sqrt(columns)).to(head.weight)
    new[:n] = 0
    head.weight.data = torch.cat((head.weight.data, new), dim=1)
    head.weight.grad = None
    of_weight = moments.get(head.weight, {})
    for name, value in of_weight.items():
        if value.shape == (rows, have):
            of_weight[name] = torch.cat((value, torch.zeros_like(new)), dim=1)
