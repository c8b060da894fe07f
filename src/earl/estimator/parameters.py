"""The parameters of an estimator: what a user may say, checked before anything is made of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite

from torch import nn

from earl.errors import InvalidSetting
from earl.estimator.backbones import maker
from earl.experiments.catalogue import METHODS
from earl.experiments.options import Options
from earl.experiments.recipes import Value
from earl.learning import Setting
from earl.nn import Augment

IMAGES_ONLY = ("scr", "oddl", "remind", "nc-fscil")  # they augment or encode pictures by themselves
SHARED = ("memory_size", "iterations", "seed", "device")  # of a Setting: parameters of their own
# A projection in proportion to vectors, which come from a network that has done most of the work.
OF_VECTORS: Mapping[str, Value] = {"d": 512, "hidden": 512, "lr": 1e-3}
# On real images the correction costs answers about the stream as it comes, and gains nothing else.
OF_IMAGES: Mapping[str, Value] = {"correction": False}


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The parameters of EARLClassifier, checked; see there for what they mean."""

    method: str
    backbone: str | nn.Module | None
    frozen: bool
    image_size: int
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
            if name in ("threads", "max_classes") and value is None:
                continue
            least = 0 if name == "seed" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidSetting(f"{name} = {value!r} must be a whole number from {least} up")
        steps = self.steps_per_sample
        number = isinstance(steps, int | float) and not isinstance(steps, bool)
        if not number or not isfinite(steps) or steps <= 0:
            raise InvalidSetting(f"steps_per_sample = {steps!r} must be a positive number")
        if not isinstance(self.frozen, bool):
            raise InvalidSetting(f"frozen = {self.frozen!r} must be true or false")
        self._check_method()
        if self.settings is not None and not isinstance(self.settings, Mapping):
            raise InvalidSetting("settings must map names to values, for example {'k': 5}")
        given = dict(self.settings or {})
        object.__setattr__(self, "settings", given)  # a copy: the user's may change
        for name in SHARED:
            if name in given:
                raise InvalidSetting(f"{name} is no part of settings but a parameter of its own")
        self.options().read(given)

    def _check_method(self) -> None:
        if must_be_told(self.method):
            free = [name for name in METHODS.names() if not must_be_told(name)]
            raise InvalidSetting(
                f"method = {self.method!r} must be told where tasks end, and here nobody says so; "
                f"these need not: {', '.join(free)}"
            )
        if self.backbone is None and self.method in IMAGES_ONLY:
            raise InvalidSetting(f"method = {self.method!r} learns from images, not from vectors")
        if isinstance(self.backbone, str):
            maker(self.backbone)
        elif not (self.backbone is None or isinstance(self.backbone, nn.Module)):
            raise InvalidSetting(
                f"backbone = {self.backbone!r} must be a name, an nn.Module, or None for vectors"
            )

    @property
    def takes_vectors(self) -> bool:
        return self.backbone is None

    def options(self) -> Options:
        """Return what `settings` may change: the method's own, and those of training."""
        parts: dict[str, Callable[..., object]] = {
            "method": METHODS[self.method],
            "setting": Setting,
        }
        if not self.takes_vectors:
            parts["augment"] = Augment
        if isinstance(self.backbone, str):
            parts["network"] = maker(self.backbone)
        return Options(parts)

    def typed(self) -> dict[str, Value]:
        """Return the settings in their types: those from a command line are texts."""
        return self.options().read(self.settings or {})

    def of(self, part: str) -> dict[str, Value]:
        """Return the settings of one part: as given, else what suits the samples, else defaults."""
        options = self.options()
        usual = OF_VECTORS if self.takes_vectors else OF_IMAGES
        values = options.of(part, options.complete(usual, self.settings or {}))
        return {name: value for name, value in values.items() if name not in SHARED}


def must_be_told(method: str) -> bool:
    """Tell whether a method needs to know where tasks end; of a user's own nothing is known."""
    facts = METHODS.entry(method).facts
    return facts is not None and bool(facts.boundaries)
