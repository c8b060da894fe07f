"""Which network an experiment has: a ResNet from random weights, or a pretrained backbone."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from torch import nn

from earl.errors import InvalidSetting
from earl.experiments.catalogue import METHODS
from earl.experiments.options import options_of, written
from earl.nn.backbones.catalogue import HF, SCRATCH
from earl.nn.backbones.efficientnet import EfficientNetLite0
from earl.nn.build import resnet_for

Frozen = Literal[False, True, "front"]  # a front is all but the last stage, which learns


def network_options(
    image_shape: tuple[int, int, int],
    *,
    depth: int = 18,
    width: int = 64,
    stem: Literal["auto", "small", "large"] = "auto",
    backbone: str = SCRATCH,
    frozen: Frozen = False,
) -> None:
    """The options of an experiment's network; the first three are those of a ResNet."""


def options_for(method: str) -> Callable[..., object]:
    """Return what has the network's options for a method.

    One that freezes blocks by itself has its own `frozen`, and takes nothing but a ResNet.
    """
    own = {option.name for option in options_of("method", METHODS[method])}
    return resnet_for if "frozen" in own else network_options


def chosen_backbone(options: Mapping[str, Any], embedded: bool) -> tuple[str, Frozen]:
    """Return the backbone and what of it is frozen; InvalidSetting if that cannot be."""
    name, frozen = str(options.get("backbone", SCRATCH)), options.get("frozen", False)
    if embedded and (frozen or name != SCRATCH):
        raise InvalidSetting(
            "embeddings come from a backbone already; leave backbone and frozen out"
        )
    if frozen and name == SCRATCH:
        raise InvalidSetting(
            f"frozen = {written(frozen)} would freeze the random weights of {SCRATCH}; choose a "
            "pretrained backbone, such as backbone=efficientnet-lite0"
        )
    if name.startswith(HF) and frozen is not True:
        raise InvalidSetting(
            f"backbone = {name} can be used, but not trained along: set frozen=true"
        )
    return name, frozen


def makes_network(
    options: Mapping[str, Any], image_shape: tuple[int, int, int], embedded: bool
) -> Callable[[], nn.Module]:
    """Return what makes the network that learns; before a frozen backbone there is none."""
    name, frozen = chosen_backbone(options, embedded)
    if embedded or frozen:
        return nn.Flatten
    if name != SCRATCH:
        return EfficientNetLite0
    of_resnet = {k: v for k, v in options.items() if k not in ("backbone", "frozen")}
    return lambda: resnet_for(image_shape, **of_resnet)
