"""The parameters of an estimator: what a user may say, checked before anything is made of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite

from torch import nn

from earl.errors import InvalidSetting
from earl.experiments.catalogue import METHODS
from earl.experiments.networks import chosen_backbone
from earl.experiments.options import Options, options_of
from earl.experiments.recipes import MAPS, Value, recipe
from earl.learning import Setting
from earl.nn import Augment, resnet_for
from earl.nn.backbones.catalogue import SCRATCH, check_backbone

IMAGES_ONLY = ("scr", "oddl", "remind", "nc-fscil")  # they augment or encode pictures by themselves
SHARED = ("memory_size", "iterations", "seed", "device")  # of a Setting: parameters of their own
AUGMENT = tuple(option.name for option in options_of("augment", Augment))
FRONT = "front"  # all of a backbone but its last stage
IMAGE_SIZE = 96  # pixels of a side, for networks that have no size of their own
OF_FEATURES = recipe("embeddings")
# Numbers that no network has made: layers that learn, and no pixels to prepare with.
OF_NUMBERS: Mapping[str, Value] = {"d": 512, "hidden": 512, "lr": 1e-3, "preparatory": False}
# On real images the correction costs answers about the stream as it comes, and gains nothing else.
OF_IMAGES: Mapping[str, Value] = {"correction": False}


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The parameters of EARLClassifier, checked; see there for what they mean."""

    method: str
    backbone: str | nn.Module | None
    frozen: bool | str | None
    image_size: int | None
    memory_size: int
    steps_per_sample: float
    seed: int
    device: str
    threads: int | None
    settings: Mapping[str, Value] | None
    max_classes: int | None = None  # which models of earlier versions lack

    def __post_init__(self) -> None:
        for name in ("image_size", "memory_size", "seed", "threads", "max_classes"):
            value = getattr(self, name)
            if name in ("image_size", "threads", "max_classes") and value is None:
                continue
            least = 0 if name == "seed" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidSetting(f"{name} = {value!r} must be a whole number from {least} up")
        steps = self.steps_per_sample
        number = isinstance(steps, int | float) and not isinstance(steps, bool)
        if not number or not isfinite(steps) or steps <= 0:
            raise InvalidSetting(f"steps_per_sample = {steps!r} must be a positive number")
        if not isinstance(self.frozen, bool | None) and self.frozen != FRONT:
            raise InvalidSetting(f"frozen = {self.frozen!r} must be true, false, 'front' or None")
        self._check_backbone()
        if self.settings is not None and not isinstance(self.settings, Mapping):
            raise InvalidSetting("settings must map names to values, for example {'k': 5}")
        given = dict(self.settings or {})
        object.__setattr__(self, "settings", given)  # a copy: the user's may change
        for name in SHARED:
            if name in given:
                raise InvalidSetting(f"{name} is no part of settings but a parameter of its own")
        self.options().read(given)
        self._check_method()

    def _check_backbone(self) -> None:
        if isinstance(self.backbone, str):
            check_backbone(self.backbone)
            frozen = FRONT if self.trains_last else self.freezes
            chosen_backbone({"backbone": self.backbone, "frozen": frozen}, embedded=False)
        elif not (self.backbone is None or isinstance(self.backbone, nn.Module)):
            raise InvalidSetting(
                f"backbone = {self.backbone!r} must be a name, an nn.Module, or None for vectors"
            )

    def _check_method(self) -> None:
        if not isinstance(self.method, str):
            raise InvalidSetting(f"method = {self.method!r} must be a name; see: earl list methods")
        if must_be_told(self.method):
            free = [name for name in METHODS.names() if not must_be_told(name)]
            raise InvalidSetting(
                f"method = {self.method!r} must be told where tasks end, and here nobody says so; "
                f"these need not: {', '.join(free)}"
            )
        if self.on_features and self.method in IMAGES_ONLY:
            what = "vectors" if self.takes_vectors else "features of a frozen backbone"
            raise InvalidSetting(f"method = {self.method!r} learns from images, not from {what}")

    @property
    def takes_vectors(self) -> bool:
        return self.backbone is None

    @property
    def pretrained(self) -> bool:
        """Whether the backbone is one by name that was trained before."""
        return isinstance(self.backbone, str) and self.backbone != SCRATCH

    @property
    def freezes(self) -> bool:
        """Whether the backbone stays as it is: one that was trained before, unless told.

        Vectors are taken for the features of such a backbone, unless told.
        """
        return self.pretrained or self.takes_vectors if self.frozen is None else bool(self.frozen)

    @property
    def trains_last(self) -> bool:
        """Whether the front of the backbone stays as it is, and its last stage learns."""
        return self.frozen == FRONT

    @property
    def encodes(self) -> bool:
        """Whether each image is encoded once: behind a frozen backbone, if nothing is augmented."""
        augments = any(name in AUGMENT for name in self.settings or {})
        return self.freezes and not self.takes_vectors and not augments

    @property
    def on_features(self) -> bool:
        """Whether the learner sees vectors, and not images."""
        return self.takes_vectors or self.encodes

    def options(self) -> Options:
        """Return what `settings` may change: the method's own, and those of training."""
        parts: dict[str, Callable[..., object]] = {
            "method": METHODS[self.method],
            "setting": Setting,
        }
        if not self.takes_vectors:
            parts["augment"] = Augment
        if self.backbone == SCRATCH:
            parts["network"] = resnet_for
        return Options(parts)

    def typed(self) -> dict[str, Value]:
        """Return the settings in their types: those from a command line are texts."""
        return self.options().read(self.settings or {})

    def of(self, part: str) -> dict[str, Value]:
        """Return the settings of one part: as given, else what suits the samples, else defaults."""
        options = self.options()
        usual = OF_IMAGES
        if self.trains_last:
            usual = {**OF_IMAGES, **MAPS}
        elif self.on_features:
            usual = OF_FEATURES if self.freezes else OF_NUMBERS
        values = options.of(part, options.complete(usual, self.settings or {}))
        return {name: value for name, value in values.items() if name not in SHARED}


def must_be_told(method: str) -> bool:
    """Tell whether a method needs to know where tasks end; of a user's own nothing is known."""
    facts = METHODS.entry(method).facts
    return facts is not None and bool(facts.boundaries)
