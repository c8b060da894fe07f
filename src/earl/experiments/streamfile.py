"""Stream files: an order of arrival as a small, named artefact that is checked before it is used.

A file holds the recipe (setup, options, seed, data set) and a hash of the order it leads to; the
order is made again from the recipe, or, with --embed, is in the file. Published files of other
groups are read too.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import earl
from earl.data import published_streams as published
from earl.data.dataset import Dataset
from earl.data.streams import Schedule
from earl.errors import DataNotFound, EarlError, StreamFileError
from earl.experiments.catalogue import STREAMS
from earl.experiments.options import Options
from earl.experiments.recipes import Value, recipe
from earl.storage.files import replace_text
from earl.storage.reading import read_bounded

KIND = "earl stream"
FORMAT = 1
LARGEST = 1 << 30  # bytes; a published stream of ImageNet has some 200 million


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a stream is made, and what must come out."""

    setup: str
    options: Mapping[str, Value]
    seed: int
    dataset: str
    samples: int  # training images that the data set has
    labels_sha256: str  # of their class ids
    length: int  # images that arrive
    boundaries: tuple[int, ...]
    artificial: bool
    sha256: str  # of order and boundaries
    made_with: Mapping[str, str] = field(default_factory=dict)
    order: tuple[int, ...] | None = None

    def write(self, path: Path) -> None:
        """Write the file; one that is there already is replaced."""
        record = {"kind": KIND, "format": FORMAT} | asdict(self)
        if self.order is None:
            del record["order"]
        lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in record.items()]
        replace_text(path, "{\n" + ",\n".join(lines) + "\n}\n")

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Recipe":
        """Return the recipe of a decoded file."""
        version = record.get("format")
        if version != FORMAT:
            raise StreamFileError(
                f"it has format {version!r}, this earl reads format {FORMAT}; "
                + (
                    "update earl"
                    if isinstance(version, int) and version > FORMAT
                    else "make it anew"
                )
            )
        known = {name: record[name] for name in TYPES if name in record}
        for name in NEEDED | set(known):
            if type(known.get(name)) is not TYPES[name]:
                raise StreamFileError(f"its {name!r} is missing or not of the right kind")
        for name, least, most in (("boundaries", 1, "length"), ("order", 0, "samples")):
            numbers = known.get(name, [])
            if not all(type(n) is int and least <= n < known[most] for n in numbers):
                raise StreamFileError(f"its {name!r} must be whole numbers below its {most!r}")
        known |= {name: tuple(known[name]) for name in ("boundaries", "order") if name in known}
        return cls(**known)

    def schedule(self, name: str, dataset: Dataset) -> Schedule:
        """Return the order for a data set, given by its name and itself; refuse any other order."""
        if (name, len(dataset.train)) != (self.dataset, self.samples):
            raise StreamFileError(
                f"it was made for {self.samples} training images of {self.dataset}, not for "
                f"{len(dataset.train)} of {name}"
            )
        if hash_numbers(dataset.train.labels) != self.labels_sha256:
            raise StreamFileError(
                f"it was made for {self.dataset} with other labels, or in another order; use that "
                "version of the data set"
            )
        if self.order is None:
            schedule = plan(self.setup, name, dataset, seed=self.seed, settings=self.options)
        else:
            schedule = Schedule(torch.tensor(self.order), self.boundaries, self.artificial)
        once = len(schedule.order.unique()) == len(schedule.order)
        if hash_schedule(schedule) != self.sha256 or facts(schedule) != self.facts() or not once:
            raise StreamFileError(
                "it does not lead to the order it was written for: it was changed by hand, or made "
                f"with another version ({describe(self.made_with)}) whose draws differ from ours "
                f"({describe(versions())}); there, make it with --embed"
            )
        return schedule

    def facts(self) -> tuple[int, tuple[int, ...], bool]:
        return self.length, self.boundaries, self.artificial


TYPES: dict[str, type] = {
    "setup": str,
    "options": dict,
    "seed": int,
    "dataset": str,
    "samples": int,
    "labels_sha256": str,
    "length": int,
    "boundaries": list,
    "artificial": bool,
    "sha256": str,
    "made_with": dict,
    "order": list,
}
NEEDED = {f.name for f in fields(Recipe)} - {"made_with", "order"}


@dataclass(frozen=True)
class StreamFile:
    """A stream file as it was read: a recipe of ours, or a published list of images."""

    path: Path
    sha256: str  # of the bytes
    documents: tuple[Any, ...]  # the decoded file, or those of all tasks

    @classmethod
    def open(cls, path: Path) -> "StreamFile":
        """Read a file; one that is called ..._task<n>.json stands for those of all tasks."""
        texts = [read(part) for part in parts(path)]
        try:
            documents = tuple(json.loads(text) for text in texts)
        except (ValueError, RecursionError) as error:
            raise StreamFileError(f"{path} is not JSON: {error}") from error
        return cls(path, hashlib.sha256(b"".join(texts)).hexdigest(), documents)

    @property
    def recipe(self) -> Recipe | None:
        """The recipe, if earl has made this file."""
        first = self.documents[0]
        if not isinstance(first, dict) or first.get("kind") != KIND:
            return None
        try:
            return Recipe.from_dict(first)
        except StreamFileError as error:
            raise StreamFileError(f"stream file {self.path}: {error}") from error

    def schedule(self, name: str, dataset: Dataset) -> Schedule:
        """Return the order of arrival for a data set, given by its name and itself."""
        recipe = self.recipe
        try:
            if recipe is not None:
                return recipe.schedule(name, dataset)
            return published.schedule(self.documents, dataset)
        except EarlError as error:
            raise StreamFileError(f"stream file {self.path}: {error}") from error


def plan(
    setup: str, name: str, dataset: Dataset, *, seed: int, settings: Mapping[str, Value]
) -> Schedule:
    """Return the order that a setup gives to a data set."""
    return STREAMS[setup](dataset.train, seed=seed, **options_of(setup, name, settings))


def options_of(setup: str, name: str, settings: Mapping[str, Value]) -> dict[str, Value]:
    """Return every option of a setup: as given, as in the data set's recipe, or the default."""
    return Options({"stream": STREAMS[setup]}).complete(recipe(name), settings)


def make(
    setup: str,
    name: str,
    dataset: Dataset,
    *,
    seed: int,
    settings: Mapping[str, Value],
    embed: bool = False,
) -> Recipe:
    """Return the recipe of a stream; with `embed`, its order is in it."""
    schedule = plan(setup, name, dataset, seed=seed, settings=settings)
    return Recipe(
        setup=setup,
        options=options_of(setup, name, settings),
        seed=seed,
        dataset=name,
        samples=len(dataset.train),
        labels_sha256=hash_numbers(dataset.train.labels),
        length=len(schedule.order),
        boundaries=schedule.boundaries,
        artificial=schedule.artificial,
        sha256=hash_schedule(schedule),
        made_with=versions(),
        order=tuple(schedule.order.tolist()) if embed else None,
    )


def parts(path: Path) -> list[Path]:
    """Return the files of a stream: itself, or all of its tasks."""
    numbered = re.fullmatch(r"(.*_task)[0-9]+", path.stem)
    if not numbered:
        return [path]
    found: list[Path] = []
    while (task := path.with_stem(f"{numbered[1]}{len(found)}")).exists():
        found.append(task)
    if path not in found:
        raise DataNotFound(
            f"stream file {path}: there is no {path.with_stem(f'{numbered[1]}{len(found)}').name} "
            "beside it; the files of all tasks, from 0 on, must be in one directory"
        )
    return found


def read(path: Path) -> bytes:
    try:
        data = read_bounded(path, LARGEST, follow=True)
    except EarlError as error:
        raise DataNotFound(f"no stream file can be read at {path}: {error}") from None
    if data is None:
        raise DataNotFound(f"no stream file can be read at {path}: there is no such file")
    return data


def hash_schedule(schedule: Schedule) -> str:
    """Return the SHA-256 of the order, then -1, then the boundaries."""
    return hash_numbers(torch.cat([schedule.order, torch.tensor([-1, *schedule.boundaries])]))


def hash_numbers(numbers: Tensor) -> str:
    """Return the SHA-256 of whole numbers as little-endian int64."""
    return hashlib.sha256(numbers.numpy().astype("<i8").tobytes()).hexdigest()


def facts(schedule: Schedule) -> tuple[int, tuple[int, ...], bool]:
    return len(schedule.order), schedule.boundaries, schedule.artificial


def versions() -> dict[str, str]:
    return {"earl": earl.__version__, "torch": torch.__version__}


def describe(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items()) or "unknown"
