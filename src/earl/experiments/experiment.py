"""Experiments: from names and numbers, which can be written down, to the objects of a run."""

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Literal

import torch

from earl.data.dataset import Dataset
from earl.data.source import Progress, silent
from earl.data.streams import Schedule, Stream
from earl.errors import InvalidSetting, RunConflict
from earl.evaluation.loop import Exam, Moment, Probe, learn_online
from earl.experiments.catalogue import METHODS, PROBES, STREAMS
from earl.experiments.estimate import blamed, check_sizes, estimate
from earl.experiments.loading import DataOptions, Name, load_dataset, source_of
from earl.experiments.matching import matched
from earl.experiments.options import Options
from earl.experiments.places import Places, workers
from earl.experiments.recipes import Value, recipe
from earl.experiments.streamfile import StreamFile, plan
from earl.experiments.threads import threads_for
from earl.learning.learner import Learner
from earl.learning.setting import Setting
from earl.nn.augment import Augment, View
from earl.nn.build import build, resnet_for
from earl.nn.ranks import Ranks
from earl.nn.resnet import ResNet
from earl.randomness import Randomness

FILE = "file:"  # begins the name of a stream that is read from a file


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What to run: names, a seed, and every setting that is to differ from the recipe."""

    method: str
    dataset: str
    stream: str  # a setup, or "file:" and a path
    seed: int = 1
    settings: Mapping[str, Value] = field(default_factory=dict)
    probes: tuple[str, ...] = ()
    stream_sha256: str = ""  # of the stream file
    match: Literal["", "flops", "bytes"] = ""  # what it may spend, as much as the method `to`
    to: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InvalidSetting(f"seed = {self.seed!r} must be a whole number from 0 up")
        if self.match not in ("", "flops", "bytes"):
            raise InvalidSetting(f"match = {self.match!r} must be 'flops' or 'bytes'")
        if bool(self.match) != bool(self.to):
            raise InvalidSetting(
                "to match a budget, say which (flops or bytes) and to which method"
            )
        if self.to:
            METHODS.entry(self.to)
        for probe in self.probes:
            PROBES.entry(probe)
        object.__setattr__(self, "dataset", str(Name.read(self.dataset)))
        if self.stream.startswith(FILE):
            path = Path(self.stream.removeprefix(FILE)).expanduser().absolute()
            object.__setattr__(self, "stream", f"{FILE}{path}")
            digest = self.stream_sha256 or StreamFile.open(path).sha256
            object.__setattr__(self, "stream_sha256", digest)
        read = self.options().read(self.settings)
        object.__setattr__(self, "settings", dict(sorted(read.items())))
        object.__setattr__(self, "probes", tuple(sorted(set(self.probes))))

    def options(self) -> Options:
        """Return the options that this method, on this stream, can be given."""
        return Options(
            {
                "method": METHODS[self.method],
                "stream": file_options if self.stream.startswith(FILE) else STREAMS[self.stream],
                "data": DataOptions,
                "setting": Setting,
                "network": resnet_for,
                "augment": Augment,
                "run": run_options,
            }
        )

    def values(self) -> dict[str, Value]:
        """Return every setting of the run: the given ones, the recipe's, the defaults."""
        values = self.options().complete(recipe(self.dataset), self.settings)
        for derived in ("seed", "device"):  # they have their own place
            values.pop(derived, None)
        return values

    def path(self) -> PurePath:
        """Return <dataset>/<stream>/<method>/seed-<n>, with the settings that were given."""
        options = self.options()
        of_stream = options.of("stream", self.settings)
        of_data = options.of("data", self.settings)
        others = {n: v for n, v in self.settings.items() if n not in of_stream | of_data}
        others |= {"probes": "+".join(self.probes)} if self.probes else {}
        others |= {self.match: f"as-{self.to}"} if self.match else {}
        return PurePath(
            named(Name.read(self.dataset).folder(), of_data),
            named(short(self.stream), of_stream),
            named(self.method, others),
            f"seed-{self.seed}",
        )

    def command(self) -> list[str]:
        """Return the words behind `earl` that give this run."""
        words = ["run", "--method", self.method, "--dataset", self.dataset]
        words += ["--stream", self.stream, "--seed", str(self.seed)]
        for name, value in self.settings.items():
            words += ["--set", f"{name}={value}"]
        for probe in self.probes:
            words += ["--probe", probe]
        if self.match:
            words += ["--match", self.match, "--to", self.to]
        return words

    def as_dict(self) -> dict[str, Any]:
        fields = asdict(self) | {"settings": dict(self.settings), "probes": list(self.probes)}
        return {k: v for k, v in fields.items() if v or k not in ("stream_sha256", "match", "to")}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Experiment":
        return cls(**{**fields, "probes": tuple(fields["probes"])})

    @classmethod
    def recorded(cls, record: Mapping[str, Any]) -> "Experiment":
        """Return the experiment of a run's record, with the settings that it had when it began.

        Recipes and defaults may have changed since: what was another value then is given now.
        """
        plain = cls.from_dict({**record["experiment"], "settings": {}})
        usual, given = plain.values(), record["experiment"]["settings"]
        then = {
            name: value
            for name, value in record["settings"].items()
            if name in given or (name in usual and usual[name] != value)
        }
        return replace(plain, settings=then)

    def schedule(self, dataset: Dataset) -> Schedule:
        """Return the order of arrival; a stream file must be the one the experiment began with."""
        if not self.stream.startswith(FILE):
            given = self.options().of("stream", self.settings)
            return plan(self.stream, self.dataset, dataset, seed=self.seed, settings=given)
        file = StreamFile.open(Path(self.stream.removeprefix(FILE)))
        if file.sha256 != self.stream_sha256:
            raise RunConflict(
                f"{file.path} has changed since this run began (SHA-256 {self.stream_sha256[:12]}… "
                f"then, {file.sha256[:12]}… now); put the old file back, or begin another run"
            )
        return file.schedule(Name.read(self.dataset).folder(), dataset)

    def load(self, places: Places | None = None, progress: Progress = silent) -> Dataset:
        """Load the data set; the first time it is prepared, and a broken image is an error."""
        options = DataOptions(**self.options().of("data", self.values()))
        return load_data(self.dataset, options, places, progress)

    def build(
        self, device: str = "cpu", dataset: Dataset | None = None, ranks: Ranks | None = None
    ) -> "Built":
        """Load the data, unless they are given; make the stream, the exam and a fresh learner."""
        dataset = dataset or self.load()
        shape = dataset.image_shape
        network = estimate(self.network(shape), shape)
        check_sizes(self.values(), network, shape, classes=len(dataset.class_names))
        schedule, options = self.schedule(dataset), self.options().of("run", self.values())
        budget = matched(self, dataset, tasks=len(schedule.boundaries) + 1)
        return Built(
            dataset=dataset,
            learner=self.learner(dataset, len(schedule.order), device, ranks, **budget),
            stream=Stream(dataset.train, schedule),
            exam=Exam(dataset.test, ranks=ranks),
            probes={name: PROBES[name] for name in self.probes},
            budget=budget,
            every=options["every"],
        )

    def learner(
        self,
        dataset: Dataset,
        samples: int,
        device: str = "cpu",
        ranks: Ranks | None = None,
        **budget: float,
    ) -> Learner:
        """Return a fresh learner for this data set and a stream of so many samples."""
        options, values = self.options(), self.values()
        view = View(dataset.mean, dataset.std)
        setting = Setting(
            image_shape=dataset.image_shape,
            view=view,
            augment=Augment(view=view, **options.of("augment", values)),
            seed=self.seed,
            device=device,
            samples=samples,
            ranks=ranks,
            **(options.of("setting", values) | budget),
        )
        make, of_method = self.network(dataset.image_shape), options.of("method", values)
        with blamed(self.settings, replace(self, settings={}).values()):
            backbone = build(make, Randomness(self.seed).at(0, "backbone"))
            return METHODS[self.method](backbone.to(device), setting, **of_method)

    def network(self, image_shape: tuple[int, int, int]) -> Callable[[], ResNet]:
        """Return what makes the backbone for images of this shape."""
        options = self.options().of("network", self.values())
        return lambda: resnet_for(image_shape, **options)

    def threads(self, dataset: Dataset) -> int:
        """Return how many threads this experiment is worth here."""
        network = estimate(self.network(dataset.image_shape), dataset.image_shape)
        return threads_for(int(self.values()["batch_size"]) * network.flops)


@dataclass(frozen=True, kw_only=True)
class Built:
    """The objects of one run."""

    dataset: Dataset
    learner: Learner
    stream: Stream
    exam: Exam
    probes: Mapping[str, Probe]
    budget: Mapping[str, float]  # settings that follow from a match
    every: int

    def learn(self, start: Moment | None = None) -> Generator[Moment]:
        """Yield after every sample, from the beginning or from where a run stopped."""
        return learn_online(
            self.learner,
            self.stream,
            self.exam,
            every=self.every,
            start=start,
            probes=self.probes,
        )


def load_data(
    name: str,
    options: DataOptions | None = None,
    places: Places | None = None,
    progress: Progress = silent,
) -> Dataset:
    """Return a data set by its name: for a run, and for all that looks at streams without one."""
    options, places, parsed = options or DataOptions(), places or Places.find(), Name.read(name)
    source = source_of(
        parsed,
        options,
        root=places.data_root,
        cache=places.cache_root,
        workers=workers(),
        progress=progress,
    )
    return load_dataset(parsed, options, source)


def run_options(*, every: int = 100) -> None:
    """The options of the loop itself: the samples between two evaluations."""


def file_options() -> None:
    """A stream from a file has no options: they are in the file."""


def short(stream: str) -> str:
    """Return the name of a stream for a folder: of a file, its name without path and ending."""
    if not stream.startswith(FILE):
        return stream
    return "file-" + re.sub(r"[^A-Za-z0-9._-]+", "-", Path(stream.removeprefix(FILE)).stem)[:60]


def named(name: str, settings: Mapping[str, Value]) -> str:
    """Return a name for a folder: the name, and each setting that differs, behind commas."""
    texts = (f"{key}={str(value).lower()}" for key, value in settings.items())
    return ",".join([name, *(re.sub(r"[^\w.,=+-]+", "-", text)[:60] for text in texts)])


def best_device() -> str:
    """Return "cuda" where there is one, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def usable_device(name: str) -> str:
    """Return a device that torch really calculates on; "auto" is the best one."""
    device = best_device() if name == "auto" else name
    try:
        float(torch.ones(1, device=device).sum())
    except (RuntimeError, AssertionError, NotImplementedError):
        found = f"the best here is {best_device()}"
        raise InvalidSetting(f"device = {name!r} cannot be used: {found}; or say auto") from None
    return device
