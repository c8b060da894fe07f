"""Networks are made here: with parameters drawn from one generator, for images of one shape."""

import math
from collections.abc import Callable
from typing import Literal, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from earl.errors import InvalidSetting
from earl.nn.freezing import frozen_parts
from earl.nn.modes import eval_mode
from earl.nn.resnet import ResNet
from earl.nn.room import require_room

TRAINED = 4  # in training a network takes four times the bytes of its weights: Adam has two moments
LARGEST_SMALL = 64  # pixels of a side that suit the small stem of a ResNet
M = TypeVar("M", bound=nn.Module)


@runtime_checkable
class DrawsItself(Protocol):
    """A layer that knows how its own parameters are drawn."""

    def draw_parameters(self, generator: torch.Generator) -> None: ...


def build(make: Callable[[], M], generator: torch.Generator) -> M:
    """Return the module that `make` makes, with parameters drawn from `generator` alone.

    The module is made without memory first, so that PyTorch's own initialisation draws nothing
    from the global random state. Frozen parts are not drawn: the caller fills in their values.
    """
    with torch.device("meta"):
        module = make()
    size = sum(t.nbytes for t in (*module.parameters(), *module.buffers()))
    require_room(TRAINED * size, f"{type(module).__name__} of the network in training")
    allocate(module)
    frozen = {part for whole in frozen_parts(module) for part in whole.modules()}
    for part in module.modules():
        if part not in frozen:
            initialise(part, generator)
    # Convolutions follow the layout of their weights; this one is a quarter faster on CPUs.
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return module


def allocate(module: nn.Module) -> None:
    """Give a module that was made without memory some, as `to_empty` does, whatever is in it.

    That asks torch's compiler for the strides of each tensor, and imports it.
    """
    made: dict[Tensor, Tensor] = {}  # what is shared stays shared
    for part in module.modules():
        tensors = [*part.named_parameters(recurse=False, remove_duplicate=False)]
        for name, old in (*tensors, *part.named_buffers(recurse=False, remove_duplicate=False)):
            if old not in made:
                new = torch.empty_strided(old.shape, old.stride(), dtype=old.dtype)
                learns = old.requires_grad
                made[old] = nn.Parameter(new, learns) if isinstance(old, nn.Parameter) else new
            setattr(part, name, made[old])


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
    elif isinstance(part, DrawsItself):
        part.draw_parameters(generator)
    elif isinstance(part, nn.modules.batchnorm._NormBase | nn.LayerNorm | nn.GroupNorm):
        part.reset_parameters()  # constants
    elif [*part.parameters(recurse=False), *part.buffers(recurse=False)]:
        raise InvalidSetting(f"`build` does not know how to initialise {type(part).__name__}")


def feature_size(backbone: nn.Module, image_shape: tuple[int, int, int]) -> int:
    """Return the length of the backbone's features, found by asking it about a blank image."""
    at = next(backbone.parameters(), torch.empty(0)).device
    with eval_mode(backbone), torch.inference_mode():
        out = backbone(torch.zeros(2, *image_shape, device=at))
    if out.dim() != 2 or len(out) != 2:
        raise InvalidSetting(
            f"the backbone maps 2 images to shape {tuple(out.shape)}; it must map (B, C, H, W) "
            "to (B, features): end it with global pooling and flatten"
        )
    return int(out.shape[1])


def resnet_for(
    image_shape: tuple[int, int, int],
    *,
    depth: int = 18,
    width: int = 64,
    stem: Literal["auto", "small", "large"] = "auto",
) -> ResNet:
    """Return a ResNet for images of this shape (C, H, W); `stem="auto"` goes by their size."""
    if stem == "auto":
        stem = "small" if max(image_shape[1:]) <= LARGEST_SMALL else "large"
    return ResNet(depth=depth, width=width, stem=stem, channels=image_shape[0])
