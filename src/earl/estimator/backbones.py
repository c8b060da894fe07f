"""Backbones by name: the one place where an estimator looks them up."""

from collections.abc import Callable, Mapping
from typing import Literal

from torch import nn

from earl.errors import UnknownName, suggest
from earl.nn.networks import ResNet

LARGEST_SMALL = 64  # pixels of a side that suit the network's small stem


def resnet(
    image_size: int,
    *,
    depth: int = 18,
    width: int = 64,
    stem: Literal["auto", "small", "large"] = "auto",
) -> ResNet:
    """Return a ResNet for images of this size; its weights are drawn by whoever builds it."""
    if stem == "auto":
        stem = "small" if image_size <= LARGEST_SMALL else "large"
    return ResNet(depth=depth, width=width, stem=stem)


BACKBONES: Mapping[str, Callable[..., nn.Module]] = {"resnet18": resnet}


def maker(name: str) -> Callable[..., nn.Module]:
    """Return what makes the backbone of this name."""
    if name not in BACKBONES:
        raise UnknownName(f"no backbone named {name!r}; {suggest(name, tuple(BACKBONES))}")
    return BACKBONES[name]
