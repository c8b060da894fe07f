"""Finding and reading run directories; nothing is run, and nothing in them is changed."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from earl.errors import DamagedRun, DataNotFound, EarlError, InvalidSetting, UnknownName, suggest
from earl.evaluation.history import Evaluation
from earl.experiments.fields import ExperimentFields
from earl.experiments.names import dataset_label, stream_label
from earl.experiments.origins import Origins
from earl.experiments.recipes import Value, recipe
from earl.experiments.runs.files import read_record
from earl.experiments.runs.seals import SEALED, read_checked, read_summary
from earl.storage.printable import printable, titles

IDENTITY = ("method", "dataset", "stream", "seed", "settings", "probes", "stream_sha256")

# Settings that there have not always been, and what every run before had in their place. Frames
# that grow make no difference to it: it ended, so there was room for all its classes.
SHARED_CAME_LATER: Mapping[str, Value] = {"backbone": "resnet18", "frozen": False}
CAME_LATER: Mapping[str, Value] = {**SHARED_CAME_LATER, "projection": "random", "growth": True}
CAME_LATER_TO: Mapping[str, Mapping[str, Value]] = {  # single methods
    "er-memory-only": {"policy": "greedy_balanced"},
}


@dataclass(frozen=True)
class RunRecord:
    """One run as its directory tells it."""

    path: Path
    name: str  # the path below the folder it was found in, with slashes
    experiment: ExperimentFields
    settings: Mapping[str, Value]  # all of them, as they were when the run began
    environment: Mapping[str, Any]
    data: Mapping[str, Any]
    summary: Mapping[str, Any] | None  # None while the run has not ended
    record: Mapping[str, Any]  # all that experiment.json says
    fault: str = ""  # why there is no summary although there is a summary.json
    boundaries: tuple[int, ...] = ()  # steps after which the classes changed

    @cached_property
    def history(self) -> list[Evaluation]:
        """All evaluations; a torn last line is not one of them. DamagedRun if it is spoilt."""
        if self.fault:
            raise DamagedRun(self.fault)
        return read_checked(self.path, self.record, self.summary)

    @cached_property
    def damage(self) -> str:
        """Why no number of this run can be believed; nothing if they can."""
        try:
            _ = self.history
        except EarlError as error:
            return str(error)
        return ""

    @property
    def sealed(self) -> bool:
        """Whether damage would be noticed; runs of earlier versions have no seals."""
        return bool(self.record.get(SEALED)) or "seals" in (self.summary or {})

    @property
    def finished(self) -> bool:
        """Whether the run has ended, and can be believed."""
        if self.summary is None or self.damage:
            return False
        return bool(
            self.samples == self.summary["samples"]
        )  # otherwise the history has lost its end

    @property
    def samples(self) -> int:
        """The samples that were learned up to the last evaluation."""
        return self.history[-1].step if self.history else 0

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(printable(str(note)) for note in (self.summary or {}).get("notes", ()))

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, with their words; () if the run did not record them."""
        found = (self.data.get(name) for name in ("class_names", "class_words"))
        names, words = (tuple(map(str, f)) if isinstance(f, list) else () for f in found)
        return titles(names, words)

    @property
    def seconds(self) -> float | None:
        return (self.summary or {}).get("seconds")

    @property
    def dataset(self) -> str:
        """The data set without the path of one's own data."""
        return dataset_label(self.experiment.dataset)

    @property
    def stream(self) -> str:
        """The stream without the path of its file."""
        return stream_label(self.experiment.stream)

    @cached_property
    def matching(self) -> dict[str, Value]:
        """What else was asked of the experiment, such as an equal budget."""
        fields = self.experiment.as_dict()
        return {name: value for name, value in fields.items() if name not in IDENTITY}

    @cached_property
    def origins(self) -> Origins:
        """Where each setting comes from; for format 1, which does not say so, it is worked out."""
        if "origins" in self.record:
            return Origins.from_dict(self.record["origins"])
        from earl.experiments.runs.format1 import origins  # imports torch and the method

        return origins(self.experiment, self.settings)

    @cached_property
    def parts(self) -> dict[str, dict[str, Value]]:
        """The settings of each part: method, stream, data, setting, network, …"""
        part_of = self.origins.part_of
        parts: dict[str, dict[str, Value]] = {}
        for name, value in self.settings.items():
            parts.setdefault(part_of.get(name, ""), {})[name] = value
        return parts

    def of(self, *parts: str) -> dict[str, Value]:
        """Return the settings of these parts."""
        return {n: v for part in parts for n, v in self.parts.get(part, {}).items()}

    @cached_property
    def changed(self) -> dict[str, Value]:
        """The settings that are not those of the data set's recipe, nor the defaults."""
        usual = self.usual
        return {n: v for n, v in self.settings.items() if n not in usual or usual[n] != v}

    @cached_property
    def usual(self) -> dict[str, Value]:
        """The settings of the same experiment if none were given.

        Recipes are those of today, and defaults those of when the run began.
        """
        given = self.experiment.settings
        others = {name: value for name, value in self.settings.items() if name not in given}
        ours = recipe(self.experiment.dataset, self.origins.part_of)
        today = {name: value for name, value in ours.items() if name in self.settings}
        return {**others, **self.origins.usual, **today}

    def path_below_out(self) -> PurePath:
        """Return the path that the run has below the folder given as --out."""
        return self.experiment.path_by(self.origins.part_of)

    @property
    def completed(self) -> dict[str, Value]:
        """The settings, with those that the method had not when the run began."""
        return {**CAME_LATER_TO.get(self.experiment.method, {}), **self.settings}

    @cached_property
    def kind(self) -> str:
        """Everything but the seed: runs of one kind may be averaged."""
        names = [self.experiment.method, self.dataset, self.stream, self.experiment.stream_sha256]
        settings = {**CAME_LATER, **self.completed}
        return json.dumps([names, settings, self.matching], sort_keys=True)

    def facts(self) -> dict[str, Value]:
        """Return everything that a run can be chosen by."""
        chosen = {name: self.environment.get(name, "") for name in ("earl", "torch", "device")}
        names = {"method": self.experiment.method, "dataset": self.dataset, "stream": self.stream}
        asked = {"match": "none", **self.matching, "seed": self.experiment.seed}
        return {**self.completed, **asked, **chosen, **names}


def find_runs(folders: Iterable[Path]) -> list[RunRecord]:
    """Return all runs in these folders, however deep, each once, in the order of their names."""
    found: dict[Path, RunRecord] = {}
    folders = list(folders)
    for folder in folders:
        if not folder.is_dir():
            raise DataNotFound(f"there is no folder {folder}; name one that `earl run` wrote")
        for path in run_directories(folder):
            place = path.resolve() if len(folders) > 1 else path  # one folder has each run once
            found.setdefault(place, read_run(path, folder))
    if not found:
        listed = ", ".join(map(str, folders))
        raise DataNotFound(
            f"no runs in {listed} (a run is a folder with an experiment.json); make some with "
            f"`earl run --out {folders[0]} …`"
        )
    return sorted(found.values(), key=lambda run: (run.name, str(run.path)))


def run_directories(folder: Path) -> Iterator[Path]:
    """Yield the run directories in a folder, or the folder itself; runs hold no runs."""
    for path, folders, files in os.walk(folder):
        if "experiment.json" in files:
            folders.clear()
            yield Path(path)


def read_run(path: Path, folder: Path) -> RunRecord:
    """Return the run in a directory that was found in a folder."""
    record = read_record(path / "experiment.json")
    summary, fault = None, ""
    try:
        summary = read_summary(path / "summary.json", record)
    except DamagedRun as error:
        fault = str(error)
    run = RunRecord(
        path=path,
        name="",
        experiment=ExperimentFields.from_dict(record["experiment"]),
        settings=record["settings"],
        environment=record["environment"],
        data=record.get("data", {}),
        summary=summary,
        record=record,
        fault=fault,
        boundaries=tuple(record.get("boundaries", ())),
    )
    below = run.path_below_out() if path == folder else path.relative_to(folder)
    return replace(run, name=printable(below.as_posix()))


def choose_runs(runs: Sequence[RunRecord], where: Sequence[str]) -> list[RunRecord]:
    """Return the runs that fit all of these NAME=VALUE; of one name, any of its values fits.

    A run that has no such setting does not fit.
    """
    if not where:
        return list(runs)
    wanted: dict[str, list[str]] = {}
    for text in where:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidSetting(f"--where {text!r} must have the form NAME=VALUE")
        wanted.setdefault(name.strip(), []).append(value.strip())
    facts = [run.facts() for run in runs]
    known = sorted({name for of_run in facts for name in of_run})
    for name in wanted:
        if name not in known:
            raise UnknownName(f"no run has a setting named {name!r}; {suggest(name, tuple(known))}")
    chosen = [
        run
        for run, of_run in zip(runs, facts, strict=True)
        if all(n in of_run and fits(of_run[n], values) for n, values in wanted.items())
    ]
    if not chosen:
        values = {n: sorted({show(f[n]) for f in facts if n in f}) for n in wanted}
        there = "; ".join(f"{name}: {', '.join(of)}" for name, of in values.items())
        raise DataNotFound(f"no run fits --where {' --where '.join(where)}; the runs have {there}")
    return chosen


def fits(value: Value, texts: Iterable[str]) -> bool:
    """Return whether a value is one of those that were written as text."""
    return any(show(value) == text or same_number(value, text) for text in texts)


def same_number(value: Value, text: str) -> bool:
    if isinstance(value, bool | str):
        return False
    try:
        return float(text) == value
    except ValueError:
        return False


def show(value: Value) -> str:
    """Return a setting as it is written on a command line."""
    return str(value).lower() if isinstance(value, bool) else printable(str(value))
