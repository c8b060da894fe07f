"""From parameters to a learner: the network, the setting, and how samples are looked at."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from earl.errors import InvalidInput
from earl.estimator.backbones import maker
from earl.estimator.images import ImageReader
from earl.estimator.parameters import Parameters
from earl.estimator.vectors import VectorReader
from earl.experiments.catalogue import METHODS
from earl.experiments.machine import usable_device
from earl.learning import Learner, Setting
from earl.learning.inputs import check_dense, check_labels
from earl.nn import Augment, View, build
from earl.randomness import Randomness

# Of the photos of ImageNet, which networks that others have trained expect.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Reader = ImageReader | VectorReader


def make_reader(parameters: Parameters) -> Reader:
    """Return what reads the samples: vectors where there is no backbone, else images."""
    return VectorReader() if parameters.takes_vectors else ImageReader(parameters.image_size)


def make_learner(parameters: Parameters, shape: tuple[int, int, int]) -> Learner:
    """Return a fresh learner for samples of this shape."""
    device = usable_device(parameters.device)
    backbone = make_backbone(parameters, shape).to(device)
    shared: dict[str, Any] = {
        "image_shape": shape,
        "memory_size": parameters.memory_size,
        "iterations": parameters.steps_per_sample,
        "seed": parameters.seed,
        "device": device,
        **parameters.of("setting"),
    }
    if parameters.takes_vectors:
        setting: Setting = VectorSetting(view=as_it_is, augment=as_it_is, **shared)
    else:
        view = View(MEAN, STD)
        options: dict[str, Any] = parameters.of("augment")
        setting = Setting(view=view, augment=Augment(view=view, **options), **shared)
    return METHODS[parameters.method](backbone, setting, **parameters.of("method"))


def make_backbone(parameters: Parameters, shape: tuple[int, int, int]) -> nn.Module:
    """Return a backbone of its own: a copy of the user's, or one with weights of the seed."""
    given, generator = parameters.backbone, Randomness(parameters.seed).at(0, "backbone")
    if isinstance(given, nn.Module):
        backbone = copy.deepcopy(given)
    elif given is None:
        backbone = build(lambda: scaled(shape), generator)
    else:
        make, options = maker(given), parameters.of("network")
        backbone = build(lambda: make(shape, **options), generator)
    return backbone.requires_grad_(False) if parameters.frozen else backbone


def scaled(shape: tuple[int, int, int]) -> nn.Module:
    """Return what brings every number of a vector to the same scale, that of all samples so far."""
    size = shape[0] * shape[1] * shape[2]
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(size, affine=False, momentum=None))


def as_it_is(x: Tensor, source: Generator | object = None) -> Tensor:
    """Return vectors as they are: there is no way to turn them about that keeps their class."""
    return x


@dataclass(frozen=True, kw_only=True)
class VectorSetting(Setting):
    """What learners of vectors share: samples are float32, laid out as squares."""

    def check_images(self, x: Tensor) -> None:
        """Raise InvalidInput unless x is a batch of vectors of the right shape."""
        if not isinstance(x, Tensor) or x.dtype != torch.float32:
            raise InvalidInput("vectors must be a torch.Tensor of float32")
        check_dense(x, "vectors")
        if x.dim() != 4 or tuple(x.shape[1:]) != self.image_shape or not len(x):
            raise InvalidInput(f"vectors must have the shape (B, {self.image_shape}), B >= 1")

    def check_samples(self, x: Tensor, y: Tensor) -> None:
        """Raise InvalidInput unless x and y are a batch of vectors with class ids."""
        self.check_images(x)
        check_labels(y, len(x))
