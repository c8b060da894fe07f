"""A ResNet whose last stage can be copied: shared blocks, and specialised ones side by side."""

import copy
import math
from collections.abc import Mapping

import torch
from torch import Generator, Tensor, nn

from earl.errors import InvalidSetting
from earl.nn.freezing import learning, let_learn
from earl.nn.networks import GrowingLinear, ResNet


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
        first = max(i for i, block in enumerate(backbone.blocks) if block.stride != 1)
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
