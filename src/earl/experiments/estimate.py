"""Estimates: what an experiment takes, found without taking its memory."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from earl.errors import TooLarge
from earl.experiments.recipes import Value
from earl.nn.build import TRAINED
from earl.nn.etf import SimplexETF
from earl.nn.room import require_room

FLOAT = 4  # bytes
BOTH_WAYS = 3  # a backward pass takes twice as much as a forward pass


@dataclass(frozen=True)
class Estimate:
    """What a network takes: bytes of its weights, and of one image bytes and FLOPs in training."""

    weights: int
    activations: int  # bytes that a forward pass keeps for the backward pass
    flops: int


def estimate(make: Callable[[], nn.Module], image_shape: tuple[int, int, int]) -> Estimate:
    """Return what the network that `make` makes takes for images of this shape.

    One blank channel goes through it in the place of all: what it leaves is counted for all of
    them. The "meta" device would need no stand-in, but imports torch's compiler.
    """
    with torch.device("meta"):
        network = make()
    weights = sum(p.nbytes for p in network.parameters())
    left = flops = 0

    def note(channels: int, factors: int, part: nn.Module, _: Any, out: Tensor) -> None:
        nonlocal left, flops
        left += FLOAT * channels * out.numel()
        flops += 2 * channels * out.numel() * factors

    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            factors = part.weight[0].numel()
            part.register_forward_hook(partial(note, part.out_channels, factors))
            part.weight, part.bias = nn.Parameter(torch.zeros(1, 1, *part.kernel_size)), None
            part.groups = 1
        elif isinstance(part, nn.modules.batchnorm._NormBase):
            part.register_forward_hook(partial(note, part.num_features, 0))
            part.forward = nn.Identity().forward
    with torch.no_grad():
        network.eval()(torch.zeros(1, 1, *image_shape[1:]))
    return Estimate(weights, left, BOTH_WAYS * flops)


def check_sizes(
    values: Mapping[str, Any],
    network: Estimate,
    image_shape: tuple[int, int, int],
    classes: int,
) -> None:
    """Raise TooLarge if the network, the memory or a batch is more than this machine has."""
    width = f"width = {values['width']}, depth = {values['depth']}"
    require_room(TRAINED * network.weights, f"{width}: the network in training")
    n, B = values["memory_size"], values["batch_size"]
    require_room(n * prod(image_shape), f"memory_size = {n}: so many images")
    require_room(B * network.activations, f"batch_size = {B}: to train on so many images")
    if {"pairs_per_class", "d"} <= set(values):
        pairs, d = values["pairs_per_class"], values["d"]
        d = SimplexETF(d, 0).for_classes(classes if values["growth"] else 1).d
        size = FLOAT * classes * pairs * d
        require_room(size, f"pairs_per_class = {pairs}: so many features of d = {d} numbers")


@contextmanager
def blamed(given: Mapping[str, Value], usual: Mapping[str, Value]) -> Iterator[None]:
    """Let an error about size name the settings that are larger than usual."""
    try:
        yield
    except TooLarge as error:
        more = [f"{name} = {v}" for name, v in given.items() if larger(v, usual.get(name))]
        raise TooLarge(f"{', '.join(more)}: {error}" if more else str(error)) from None


def larger(value: Value, usual: Value | None) -> bool:
    """Tell whether a setting is a number above the usual one."""
    numbers = (int, float)
    return isinstance(value, numbers) and isinstance(usual, numbers) and value > usual
