"""What follows a backbone: the projection p and a linear head; both can grow while they learn."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from earl.nn.build import build


def enlarge(parameter: nn.Parameter, shape: tuple[int, ...], optimizer: Optimizer) -> None:
    """Add zeros to a parameter and to its moments; it keeps its identity and all its values."""
    moments = optimizer.state.get(parameter, {})
    for name, value in moments.items():
        if value.shape == parameter.shape:
            moments[name] = padded(value, shape)
    parameter.data = padded(parameter.data, shape)
    parameter.grad = None


def padded(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor of this shape with the given one at its beginning, and zeros elsewhere."""
    whole = tensor.new_zeros(shape)
    whole[tuple(slice(n) for n in tensor.shape)] = tensor
    return whole


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

    def grow(self, d: int, optimizer: Optimizer) -> None:
        """Give the features d dimensions; the new ones are zero until they are trained."""
        for layer in self._last():
            for parameter in layer.parameters():
                enlarge(parameter, (d, *parameter.shape[1:]), optimizer)
            layer.out_features = d

    def resize(self, d: int) -> None:
        """Take the shapes of a projection to d dimensions, whose values are then to be loaded."""
        for layer in self._last():
            for parameter in layer.parameters():
                parameter.data = parameter.data.new_empty(d, *parameter.shape[1:])
            layer.out_features = d

    def nbytes_of_outputs(self) -> int:
        """Return the bytes of all parameters that grow with d."""
        return sum(p.nbytes for layer in self._last() for p in layer.parameters())

    def _last(self) -> list[nn.Linear]:
        """Return the layers whose outputs are added up."""
        layers = [self.linear] if self.mlp is None else [self.linear, self.mlp[-1]]
        return [layer for layer in layers if isinstance(layer, nn.Linear)]


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

    def grow(self, n: int, optimizer: Optimizer, generator: torch.Generator) -> None:
        """Make room for n classes; parameters keep their identity, the optimiser its moments."""
        have = len(self.weight)
        if n <= have:
            return
        rows = max(n, 2 * have)
        for parameter in (self.weight, self.bias):
            enlarge(parameter, (rows, *parameter.shape[1:]), optimizer)
        self._fill(self.weight.data[have:], self.bias.data[have:], generator)

    def widen(self, size: int, n: int, optimizer: Optimizer, generator: torch.Generator) -> None:
        """Take inputs of more numbers: zero for the first n rows, and all others drawn anew."""
        enlarge(self.weight, (len(self.weight), size), optimizer)
        self._fill(self.weight.data[n:], self.bias.data[n:], generator)

    def resize(self, size: int) -> None:
        """Take the shape of rows of another length, whose values are then to be loaded."""
        self.weight.data = self.weight.data.new_empty(len(self.weight), size)

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
