"""Experiments: names and numbers, checked as soon as they are given, that lead to a run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from earl.data.dataset import Dataset
from earl.data.source import Progress, silent
from earl.data.streams import Schedule
from earl.errors import InvalidSetting, RunConflict
from earl.experiments.catalogue import METHODS, PROBES, STREAMS
from earl.experiments.fields import ExperimentFields
from earl.experiments.loading import DataOptions, load_data
from earl.experiments.names import EMBEDDINGS, FILE, Name, dataset_label
from earl.experiments.networks import options_for
from earl.experiments.options import Options
from earl.experiments.origins import Origins
from earl.experiments.places import Places
from earl.experiments.recipes import MAPS, Value, recipe
from earl.experiments.streamfile import StreamFile, plan
from earl.learning.setting import Setting
from earl.nn.augment import Augment
from earl.nn.ranks import ALONE, Alone

if TYPE_CHECKING:
    from earl.experiments.prepare import PreparedRun

HAVE_THEIR_OWN_PLACE = ("seed", "device")  # options that are no settings


@dataclass(frozen=True, kw_only=True)
class Experiment(ExperimentFields):
    """What to run: names, a seed, and every setting that is to differ from the recipe."""

    def __post_init__(self) -> None:
        self._check_names()
        object.__setattr__(self, "dataset", str(Name.read(self.dataset)))
        if self.stream.startswith(FILE):
            path = Path(self.stream.removeprefix(FILE)).expanduser().absolute()
            object.__setattr__(self, "stream", f"{FILE}{path}")
            digest = self.stream_sha256 or StreamFile.open(path).sha256
            object.__setattr__(self, "stream_sha256", digest)
        read = self._options.read(self.settings)
        object.__setattr__(self, "settings", dict(sorted(read.items())))
        object.__setattr__(self, "probes", tuple(sorted(set(self.probes))))

    def _check_names(self) -> None:
        for field in ("method", "dataset", "stream"):
            if not isinstance(name := getattr(self, field), str):
                raise InvalidSetting(f"{field} = {name!r} must be a name; see: earl list")
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

    def options(self) -> Options:
        """Return the options that this method, on this stream, can be given."""
        return self._options

    @cached_property
    def _options(self) -> Options:
        return Options(
            {
                "method": METHODS[self.method],
                "stream": file_options if self.stream.startswith(FILE) else STREAMS[self.stream],
                "data": DataOptions,
                "setting": Setting,
                "network": options_for(self.method),
                "augment": Augment,
                "run": run_options,
            }
        )

    @property
    def embedded(self) -> bool:
        """Whether the data set is one of embeddings in place of images."""
        return Name.read(self.dataset).kind == EMBEDDINGS

    @property
    def _recipe(self) -> Mapping[str, Value]:
        """The data set's settings; behind a frozen backbone a learner has those of embeddings."""
        part_of = {name: self._options.part(name) for name in self._options.names()}
        frozen = self.settings.get("frozen")
        behind = recipe(EMBEDDINGS) if frozen is True else MAPS if frozen == "front" else {}
        return {**recipe(self.dataset, part_of), **behind}

    @cached_property
    def usual(self) -> Mapping[str, Value]:
        """Every setting as it is if none is given: that of the recipe, or the default."""
        values = self._options.complete(self._recipe, {})
        return {n: v for n, v in values.items() if n not in HAVE_THEIR_OWN_PLACE}

    def values(self) -> dict[str, Value]:
        """Return every setting of the run: the given ones, the recipe's, the defaults."""
        return {name: self.settings.get(name, value) for name, value in self.usual.items()}

    def of(self, part: str) -> dict[str, Any]:
        """Return the settings of one part of the run."""
        return self._options.of(part, self.values())

    @property
    def origins(self) -> Origins:
        """Where each setting comes from."""
        return Origins(
            part_of={name: self._options.part(name) for name in self.usual},
            recipe=tuple(n for n in self._recipe if n in {*self.usual} - {*self.settings}),
            usual={name: self.usual[name] for name in self.settings},
        )

    def path(self) -> PurePath:
        """Return <dataset>/<stream>/<method>/seed-<n>, with the settings that were given."""
        return self.path_by({name: self._options.part(name) for name in self.settings})

    @classmethod
    def recorded(cls, record: Mapping[str, Any]) -> "Experiment":
        """Return the experiment of a run's record, with the settings that it had when it began.

        Recipes and defaults may have changed since: a setting that was another one then is given.
        """
        plain = cls.from_dict({**record["experiment"], "settings": {}})
        usual, given = plain.usual, record["experiment"]["settings"]
        then = {
            name: value
            for name, value in record["settings"].items()
            if name in given or (name in usual and usual[name] != value)
        }
        return replace(plain, settings=then)

    def schedule(self, dataset: Dataset) -> Schedule:
        """Return the order of arrival; a stream file must be the one the experiment began with."""
        if not self.stream.startswith(FILE):
            given = self._options.of("stream", self.settings)
            return plan(self.stream, self.dataset, dataset, seed=self.seed, settings=given)
        file = StreamFile.open(Path(self.stream.removeprefix(FILE)))
        if file.sha256 != self.stream_sha256:
            raise RunConflict(
                f"{file.path} has changed since this run began (SHA-256 {self.stream_sha256[:12]}… "
                f"then, {file.sha256[:12]}… now); put the old file back, or begin another run"
            )
        return file.schedule(dataset_label(self.dataset), dataset)

    def load(self, places: Places | None = None, progress: Progress = silent) -> Dataset:
        """Load the data set; the first time it is prepared, and a broken image is an error."""
        return load_data(self.dataset, DataOptions(**self.of("data")), places, progress)

    def build(
        self, device: str = "cpu", dataset: Dataset | None = None, ranks: Alone = ALONE
    ) -> "PreparedRun":
        """Load the data, unless they are given; make the stream, the exam and a fresh learner."""
        from earl.experiments.prepare import prepare  # which needs this module

        return prepare(self, dataset or self.load(), device, ranks)


def run_options(*, every: int = 100) -> None:
    """The options of the loop itself: the samples between two evaluations."""


def file_options() -> None:
    """A stream from a file has no options: they are in the file."""
