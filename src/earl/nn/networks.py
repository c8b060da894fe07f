"""Networks: the backbone g, the projection p, and a linear head that grows with the classes."""

import math
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import InvalidSetting
from earl.nn.freezing import begin_training, frozen_parts
from earl.nn.room import require_room

BLOCKS = {8: (1, 1, 1), 10: (1, 1, 1, 1), 14: (2, 2, 2), 18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}
TRAINED = 4  # times its weights a network takes in training: gradients, and Adam's two moments
M = TypeVar("M", bound=nn.Module)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with batch norm around a shortcut; (B, c, H, W) -> (B, c', H/s, W/s)."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.stride = stride
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out, 1, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = self.norm2(self.conv2(y))
        # Skipping pixels first equals a 1x1 convolution of that stride, whose weight gradient
        # crashes in oneDNN (torch 2.13, AVX-512, channels_last, small batches).
        y += self.shortcut(x[:, :, :: self.stride, :: self.stride])
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    """A ResNet without its classifier; (B, channels, H, W) -> (B, 8·width) at depth 18.

    `stem="small"` is a 3x3 convolution of stride 1 without pooling, for images up to 64 px;
    `stem="large"` is the 7x7 convolution of stride 2 with max-pooling, for 224 px.
    """

    def __init__(
        self,
        *,
        depth: int = 18,
        width: int = 64,
        stem: Literal["small", "large"] = "small",
        channels: int = 3,
    ) -> None:
        super().__init__()
        if depth not in BLOCKS:
            raise InvalidSetting(f"depth = {depth} is not one of {', '.join(map(str, BLOCKS))}")
        if width < 1:
            raise InvalidSetting(f"width = {width} must be at least 1")
        if stem not in ("small", "large"):
            raise InvalidSetting(f"stem = {stem!r} must be 'small' or 'large'")
        if stem == "small":
            first: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1, bias=False)]
            pool: list[nn.Module] = []
        else:
            first = [nn.Conv2d(channels, width, 7, 2, padding=3, bias=False)]
            pool = [nn.MaxPool2d(3, 2, padding=1)]
        self.stem = nn.Sequential(*first, nn.BatchNorm2d(width), nn.ReLU(inplace=True), *pool)
        stages, size = [], width
        for s, blocks in enumerate(BLOCKS[depth]):
            out = width << s
            for b in range(blocks):
                stages.append(BasicBlock(size, out, stride=2 if s and not b else 1))
                size = out
        self.blocks = nn.Sequential(*stages)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.blocks(self.stem(x))
        return y.mean(dim=(2, 3))


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

    def reset_parameters(self, generator: torch.Generator) -> None:
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


def build(make: Callable[[], M], generator: torch.Generator) -> M:
    """Return the module that `make` makes, with parameters drawn from `generator` alone.

    The module is made without memory first, so that PyTorch's own initialisation draws nothing
    from the global random state. What is frozen is not drawn; whoever has its values fills it.
    """
    with torch.device("meta"):
        module = make()
    size = sum(t.nbytes for t in (*module.parameters(), *module.buffers()))
    require_room(TRAINED * size, f"{type(module).__name__} of the network in training")
    module.to_empty(device="cpu")
    frozen = {part for whole in frozen_parts(module) for part in whole.modules()}
    for part in module.modules():
        if part not in frozen:
            initialise(part, generator)
    # Convolutions follow the layout of their weights; this one is a quarter faster on CPUs.
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return module


def initialise(part: nn.Module, generator: torch.Generator) -> None:
    """Draw the own parameters of one layer: He-normal convolutions, PyTorch's default elsewhere."""
    if isinstance(part, nn.Conv2d | nn.Linear):
        bound = 1 / math.sqrt(part.weight[0].numel())
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(
                part.weight, mode="fan_out", nonlinearity="relu", generator=generator
            )
        else:
            nn.init.uniform_(part.weight, -bound, bound, generator=generator)
        if part.bias is not None:
            nn.init.uniform_(part.bias, -bound, bound, generator=generator)
    elif isinstance(part, GrowingLinear):
        part.reset_parameters(generator)
    elif isinstance(part, nn.modules.batchnorm._NormBase | nn.LayerNorm | nn.GroupNorm):
        part.reset_parameters()  # constants
    elif [*part.parameters(recurse=False), *part.buffers(recurse=False)]:
        raise InvalidSetting(f"`build` does not know how to initialise {type(part).__name__}")


def feature_size(backbone: nn.Module, image_shape: tuple[int, int, int]) -> int:
    """Return the length of the backbone's features, found by asking it about a blank image."""
    at = next(backbone.parameters(), torch.empty(0)).device
    with evaluating(backbone), torch.inference_mode():
        out = backbone(torch.zeros(2, *image_shape, device=at))
    if out.dim() != 2 or len(out) != 2:
        raise InvalidSetting(
            f"the backbone maps 2 images to shape {tuple(out.shape)}; it must map (B, C, H, W) "
            "to (B, features): end it with global pooling and flatten"
        )
    return int(out.shape[1])


def train_forward(network: nn.Module, x: Tensor) -> Tensor:
    """Run the network in training mode; an image that comes alone is doubled for batch norm.

    What is frozen stays in evaluation mode.
    """
    begin_training(network)
    if len(x) > 1:
        out: Tensor = network(x)
        return out
    single: Tensor = network(x.repeat(2, 1, 1, 1))[:1]
    return single


class evaluating:
    """Context in which a module is in evaluation mode; afterwards every part is as before."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __enter__(self) -> None:
        self.before = [(part, part.training) for part in self.module.modules()]
        self.module.eval()

    def __exit__(self, *exception: object) -> None:
        for part, training in self.before:
            part.training = training


class replaced:
    """Context in which modules calculate with functions in their place; afterwards as before."""

    def __init__(self, forwards: Iterable[tuple[nn.Module, Callable[[Tensor], Tensor]]]) -> None:
        self.forwards = list(forwards)

    def __enter__(self) -> None:
        for module, function in self.forwards:
            module.forward = function

    def __exit__(self, *exception: object) -> None:
        for module, _ in self.forwards:
            del module.forward  # the class's own shows again


class untracked:
    """Context in which batch norm trains on its batch as ever but leaves its running statistics."""

    def __init__(self, module: nn.Module) -> None:
        norms = nn.modules.batchnorm._NormBase
        self.parts = [part for part in module.modules() if isinstance(part, norms)]

    def __enter__(self) -> None:
        self.before = [part.track_running_stats for part in self.parts]
        for part in self.parts:
            part.track_running_stats = False

    def __exit__(self, *exception: object) -> None:
        for part, tracking in zip(self.parts, self.before, strict=True):
            part.track_running_stats = tracking
