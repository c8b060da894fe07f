"""Backbones by name: the one place where an estimator looks them up."""

from collections.abc import Callable, Mapping

from torch import nn

from earl.errors import UnknownName, suggest
from earl.nn import resnet_for

# From the shape of images (C, H, W), and settings by keyword, to a module without weights.
BACKBONES: Mapping[str, Callable[..., nn.Module]] = {"resnet18": resnet_for}


def maker(name: str) -> Callable[..., nn.Module]:
    """Return what makes the backbone of this name."""
    if name not in BACKBONES:
        raise UnknownName(f"no backbone named {name!r}; {suggest(name, tuple(BACKBONES))}")
    return BACKBONES[name]
