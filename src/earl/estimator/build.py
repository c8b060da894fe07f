"""From parameters to a learner: the network, the setting, and how samples are looked at."""

import copy
from typing import Any

from torch import nn

from earl.estimator.eye import EyeReader, shared_backbone
from earl.estimator.images import ImageReader
from earl.estimator.parameters import IMAGE_SIZE, Parameters
from earl.estimator.vectors import VectorReader
from earl.experiments.catalogue import METHODS
from earl.experiments.machine import usable_device
from earl.learning import Learner, Setting
from earl.learning.encoder import Encoder, on_features
from earl.nn import Augment, View, build, resnet_for
from earl.nn.backbones import Backbone, halves
from earl.randomness import Randomness

# Of the photos of ImageNet, which networks that others have trained expect.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Reader = ImageReader | VectorReader | EyeReader


def make_reader(parameters: Parameters) -> Reader:
    """Return what reads the samples: vectors, images, or features of images."""
    if parameters.takes_vectors:
        return VectorReader()
    opened = opened_backbone(parameters)
    images = ImageReader(parameters.image_size or (opened.side if opened else IMAGE_SIZE))
    if not parameters.encodes:
        return images
    network, maps = whole_backbone(parameters), parameters.trains_last
    setting, name = make_setting(parameters, images.shape), None if opened is None else opened.name
    seeing = halves(network)[0] if maps else network
    return EyeReader(images, Encoder(seeing, setting, name=name, maps=maps), opened)


def whole_backbone(parameters: Parameters) -> nn.Module:
    """Return a copy of the user's module, or the backbone by name that all models share."""
    if isinstance(parameters.backbone, nn.Module):
        return copy.deepcopy(parameters.backbone)
    opened = opened_backbone(parameters)
    assert opened is not None
    return opened.network


def make_learner(parameters: Parameters, shape: tuple[int, int, int]) -> Learner:
    """Return a fresh learner for samples of this shape, as a reader gives them."""
    setting = make_setting(parameters, shape)
    if parameters.on_features:
        setting = on_features(setting, shape)
    backbone = make_backbone(parameters, shape).to(setting.device)
    return METHODS[parameters.method](backbone, setting, **parameters.of("method"))


def make_setting(parameters: Parameters, shape: tuple[int, int, int]) -> Setting:
    """Return the setting of whoever looks at images of this shape."""
    opened = opened_backbone(parameters)
    view = View(MEAN, STD) if opened is None else opened.view
    options: dict[str, Any] = {} if parameters.takes_vectors else parameters.of("augment")
    shared: dict[str, Any] = parameters.of("setting")
    return Setting(
        image_shape=shape,
        view=view,
        augment=Augment(view=view, **options),
        memory_size=parameters.memory_size,
        iterations=parameters.steps_per_sample,
        seed=parameters.seed,
        device=usable_device(parameters.device),
        **shared,
    )


def make_backbone(parameters: Parameters, shape: tuple[int, int, int]) -> nn.Module:
    """Return what a learner of such samples has before its own layers.

    That is a backbone of its own: a copy of the user's, or of one that was trained before, or one
    with weights that are drawn from the seed. Features are taken as they are.
    """
    if parameters.trains_last:
        return copy.deepcopy(halves(whole_backbone(parameters))[1]).requires_grad_(True)
    if parameters.on_features:
        return nn.Flatten() if parameters.freezes else scaled(shape[0])
    if isinstance(parameters.backbone, nn.Module):
        backbone = whole_backbone(parameters)
    elif parameters.pretrained:
        backbone = copy.deepcopy(whole_backbone(parameters)).requires_grad_(True)
    else:
        options: dict[str, Any] = parameters.of("network")
        draw = Randomness(parameters.seed).at(0, "backbone")
        backbone = build(lambda: resnet_for(shape, **options), draw)
    return backbone.requires_grad_(False) if parameters.freezes else backbone


def scaled(size: int) -> nn.Module:
    """Return what brings every number of a vector to the same scale, that of all samples so far."""
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(size, affine=False, momentum=None))


def opened_backbone(parameters: Parameters) -> Backbone | None:
    """Return the backbone that was trained before, if it is one by name."""
    if not parameters.pretrained:
        return None
    return shared_backbone(str(parameters.backbone), usable_device(parameters.device))
