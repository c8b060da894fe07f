"""What follows a backbone: the projection p, and a linear head that grows with the classes."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.nn.build import build


class Projection(nn.Module):
    """p(x) = A x + R(x), with R a three-layer MLP of `hidden` units; `hidden=0` leaves A alone."""

    def __init__(self, size: int, d: int, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, d, bias=False)
        self.mlp = None
        if hidden:
            self.mlp = nn.Sequential(
                nn.Linear(size, hidden),
                nn.LayerNorm(hidden, eps=1e-6),
                nn.LeakyReLU(0.1),
                nn.Linear(hidden, hidden),
                nn.LayerNorm(hidden, eps=1e-6),
                nn.LeakyReLU(0.1),
                nn.Linear(hidden, d),
            )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        return y if self.mlp is None else y + self.mlp(x)


class GrowingLinear(nn.Module):
    """A linear classifier with one row per seen class; new rows leave all others as they are.

    Rows are allocated ahead. A row not yet in use gets no gradient, so Adam leaves it at its
    initial value, and growing equals adding rows one by one without touching optimiser state.
    """

    def __init__(self, size: int, rows: int = 32) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, size))
        self.bias = nn.Parameter(torch.empty(rows))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def draw_parameters(self, generator: torch.Generator) -> None:
        self._fill(self.weight, self.bias, generator)

    def grow(self, n: int, optimizer: torch.optim.Optimizer, generator: torch.Generator) -> None:
        """Make room for n classes; parameters keep their identity, the optimiser its moments."""
        have = len(self.weight)
        if n <= have:
            return
        rows = max(n, 2 * have)
        weight = self.weight.new_empty(rows - have, self.weight.shape[1])
        bias = self.bias.new_empty(rows - have)
        self._fill(weight, bias, generator)
        for parameter, new in ((self.weight, weight), (self.bias, bias)):
            parameter.data = torch.cat((parameter.data, new))
            parameter.grad = None
            moments = optimizer.state.get(parameter, {})
            for name, value in moments.items():
                if value.shape[:1] == (have,):
                    moments[name] = torch.cat((value, torch.zeros_like(new)))

    def _fill(self, weight: Tensor, bias: Tensor, generator: torch.Generator) -> None:
        bound = 1 / math.sqrt(self.weight.shape[1])
        with torch.no_grad():
            for tensor in (weight, bias):
                draw = torch.empty(tensor.shape).uniform_(-bound, bound, generator=generator)
                tensor.copy_(draw)

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: object) -> None:
        for name, parameter in self.named_parameters():
            stored = state.get(prefix + name)
            if stored is not None and stored.shape[1:] == parameter.shape[1:]:
                parameter.data = parameter.data.new_empty(stored.shape)
        super()._load_from_state_dict(state, prefix, *args)


class Classifier(nn.Module):
    """A backbone and a linear head that grows; (B, C, H, W) -> (B, rows of the head)."""

    def __init__(self, backbone: nn.Module, size: int, generator: torch.Generator) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = build(lambda: GrowingLinear(size), generator)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.backbone(x))
        return logits
