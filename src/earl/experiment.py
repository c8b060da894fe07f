"""Experiments: from names and numbers, which can be written down, to the objects of a run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

import torch

from earl.catalogue import DATASETS, METHODS, PROBES, STREAMS
from earl.datasets.dataset import Dataset
from earl.errors import InvalidSetting
from earl.learner import Learner, Setting
from earl.networks import ResNet, build
from earl.options import Options
from earl.randomness import Randomness
from earl.recipes import Value, recipe
from earl.run import Exam, Probe
from earl.streams import Stream
from earl.transforms import Augment, View


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What to run: names, a seed, and every setting that is to differ from the recipe."""

    method: str
    dataset: str
    stream: str
    seed: int = 1
    settings: Mapping[str, Value] = field(default_factory=dict)
    probes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InvalidSetting(f"seed = {self.seed!r} must be a whole number from 0 up")
        for probe in self.probes:
            PROBES.entry(probe)
        DATASETS.entry(self.dataset)
        read = self.options().read(self.settings)
        object.__setattr__(self, "settings", dict(sorted(read.items())))
        object.__setattr__(self, "probes", tuple(sorted(set(self.probes))))

    def options(self) -> Options:
        """Return the options that this method, on this stream, can be given."""
        return Options(
            {
                "method": METHODS[self.method],
                "stream": STREAMS[self.stream],
                "setting": Setting,
                "network": ResNet,
                "augment": Augment,
                "run": run_options,
            }
        )

    def values(self) -> dict[str, Value]:
        """Return every setting of the run: the given ones, the recipe's, the defaults."""
        values = self.options().complete(recipe(self.dataset), self.settings)
        for derived in ("seed", "device", "channels"):  # they have their own place
            values.pop(derived, None)
        return values

    def path(self) -> PurePath:
        """Return <dataset>/<stream>/<method>/seed-<n>, with the settings that were given."""
        options = self.options()
        of_stream = options.of("stream", self.settings)
        others = {n: v for n, v in self.settings.items() if n not in of_stream}
        others |= {"probes": "+".join(self.probes)} if self.probes else {}
        return PurePath(
            self.dataset,
            named(self.stream, of_stream),
            named(self.method, others),
            f"seed-{self.seed}",
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"settings": dict(self.settings), "probes": list(self.probes)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Experiment":
        return cls(**{**fields, "probes": tuple(fields["probes"])})

    def build(self, device: str = "cpu") -> "Built":
        """Load the data and make the stream, the exam and a fresh learner."""
        options, values = self.options(), self.values()
        dataset = DATASETS[self.dataset]()
        schedule = STREAMS[self.stream](
            dataset.train, seed=self.seed, **options.of("stream", values)
        )
        view = View(dataset.mean, dataset.std)
        setting = Setting(
            image_shape=dataset.image_shape,
            view=view,
            augment=Augment(view=view, **options.of("augment", values)),
            seed=self.seed,
            device=device,
            **options.of("setting", values),
        )
        network = options.of("network", values)
        backbone = build(
            lambda: ResNet(channels=dataset.image_shape[0], **network),
            Randomness(self.seed).at(0, "backbone"),
        )
        learner = METHODS[self.method](backbone.to(device), setting, **options.of("method", values))
        return Built(
            dataset=dataset,
            learner=learner,
            stream=Stream(dataset.train, schedule),
            exam=Exam(dataset.test),
            probes={name: PROBES[name] for name in self.probes},
            **options.of("run", values),
        )


@dataclass(frozen=True, kw_only=True)
class Built:
    """The objects of one run."""

    dataset: Dataset
    learner: Learner
    stream: Stream
    exam: Exam
    probes: Mapping[str, Probe]
    every: int


def run_options(*, every: int = 100) -> None:
    """The options of the loop itself: the number of samples between two evaluations."""


def named(name: str, settings: Mapping[str, Value]) -> str:
    """Return a name for a folder: the name, and each setting that differs, behind commas."""
    return ",".join([name, *(f"{key}={str(value).lower()}" for key, value in settings.items())])


def best_device() -> str:
    """Return "cuda" where there is one, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"
