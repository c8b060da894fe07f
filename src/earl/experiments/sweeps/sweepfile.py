"""Sweep files: many experiments as a few grids, written down in TOML."""

import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from earl.errors import DataNotFound, EarlError, SweepFileError, UnknownName, suggest
from earl.experiments.experiment import Experiment
from earl.experiments.recipes import Value
from earl.storage.printable import printable
from earl.storage.reading import read_text

LARGEST = 1 << 20  # bytes of a sweep file
KEY = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
TOO_DEEP = re.compile(rf"(?<![\w-]){KEY}(?:[ \t]*\.[ \t]*{KEY}){{20}}")  # keys joined by dots
FILE_KEYS = ("title", "about", "table", "common", "grid")
FACTORS = {"method": str, "dataset": str, "stream": str, "seed": int}  # one value or a list
GRID_KEYS = (*FACTORS, "probes", "match", "to", "settings")
KINDS = {str: "text", int: "a whole number"}


@dataclass(frozen=True)
class SweepFile:
    """What a sweep file says: a title, what it reproduces, and the runs in their order."""

    path: Path
    title: str
    about: str
    table: str  # of the paper, or a figure
    experiments: tuple[Experiment, ...]

    @classmethod
    def open(cls, path: Path) -> "SweepFile":
        """Read a file; every run in it is checked before anybody starts the first."""
        if not path.exists():
            raise DataNotFound(f"there is no sweep file {path}")
        try:
            text = read_text(path, LARGEST)
        except EarlError as error:
            raise SweepFileError(str(error)) from None
        try:
            return cls._read(path, parse(text))
        except EarlError as error:
            raise SweepFileError(f"{path}: {error}") from error
        except RecursionError:
            raise SweepFileError(f"{path}: it is nested too deeply; write plain grids") from None

    @classmethod
    def _read(cls, path: Path, content: dict[str, Any]) -> "SweepFile":
        refuse_unknown(content, FILE_KEYS)
        texts = {key: text(content, key) for key in ("title", "about", "table")}
        texts["title"] = printable(texts["title"])  # it is shown
        if not texts["title"]:
            raise SweepFileError('it needs a title, as in: title = "EARL beside ER"')
        grids = content.get("grid", [])
        if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
            raise SweepFileError("a grid begins with [[grid]], in double brackets")
        if not grids:
            raise SweepFileError("it needs at least one [[grid]]")
        common = content.get("common", {})
        if not isinstance(common, dict):
            raise SweepFileError("what all grids have in common is one table: [common]")
        refuse_unknown(common, GRID_KEYS)
        found: dict[str, Experiment] = {}  # grids may overlap: a run is run once
        for number, grid in enumerate(grids, start=1):
            try:
                for experiment in expand(combined(common, grid)):
                    found.setdefault(json.dumps(experiment.as_dict()), experiment)
            except EarlError as error:
                raise SweepFileError(f"grid {number}: {error}") from error
        return cls(path, **texts, experiments=tuple(found.values()))


def parse(text: str) -> dict[str, Any]:
    """Return what a TOML file says; keys such as a.a.a. … are refused: they take much memory."""
    if TOO_DEEP.search(text):
        raise RecursionError
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise SweepFileError(f"it is not TOML: {error}") from None


def bundled() -> dict[str, Path]:
    """Return the sweep files that come with earl, by name."""
    folder = Path(str(resources.files("earl.experiments.sweeps"))) / "files"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find(name: str) -> Path:
    """Return the path of a sweep file: a file that is there, or one of earl's by its name."""
    known = bundled()
    if name in known and not Path(name).is_file():
        return known[name]
    if name.endswith(".toml") or Path(name).exists():
        return Path(name)
    raise UnknownName(f"no sweep file named {name!r}; {suggest(name, tuple(known))}")


def combined(common: Mapping[str, Any], grid: Mapping[str, Any]) -> dict[str, Any]:
    """Return a grid with all that it does not say itself taken from what grids have in common."""
    tables = [table.get("settings", {}) for table in (common, grid)]
    for table in tables:
        if not isinstance(table, dict):
            raise SweepFileError("settings must be a table, as in: [grid.settings]")
    return {**common, **grid, "settings": {**tables[0], **tables[1]}}


def expand(grid: Mapping[str, Any]) -> Iterator[Experiment]:
    """Yield the experiments of a grid: the product of its lists, the last one changing fastest."""
    refuse_unknown(grid, GRID_KEYS)
    if missing := [key for key in ("method", "dataset", "stream") if key not in grid]:
        raise SweepFileError(f"{missing[0]} is missing")
    factors = {key: several(key, grid[key], kind) for key, kind in FACTORS.items() if key in grid}
    settings = setting_factors(grid["settings"])
    fixed: dict[str, Any] = {"probes": tuple(texts("probes", grid.get("probes", [])))}
    fixed |= {key: text(grid, key) for key in ("match", "to") if key in grid}
    for values in itertools.product(*factors.values()):
        names = dict(zip(factors, values, strict=True))
        for given in itertools.product(*settings.values()):
            chosen = dict(zip(settings, given, strict=True))
            yield checked(names, chosen, fixed, factors["method"])


def checked(
    names: dict[str, Any],
    settings: dict[str, Value],
    fixed: dict[str, Any],
    methods: Sequence[str],
) -> Experiment:
    """Return an experiment; a setting that only some of the methods have gets its own advice."""
    try:
        return Experiment(**names, settings=settings, **fixed)
    except UnknownName as error:
        bare = Experiment(**names)  # a wrong name of another kind fails here again, as itself
        for other in methods:
            theirs = Experiment(**names | {"method": other}).options().names()
            for name in settings:
                if name in theirs and name not in bare.options().names():
                    raise SweepFileError(
                        f"{bare.method} has no setting {name!r}, which {other} has; "
                        "put these methods in separate [[grid]]s"
                    ) from error
        raise


def refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise UnknownName(f"no key named {key!r}; {suggest(key, known)}")


def text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise SweepFileError(f"{key} = {value!r} must be text")
    return value


def texts(key: str, given: Any) -> list[Any]:
    """Return a list of texts, which may be empty."""
    return several(key, given, str) if given != [] else []


def several(key: str, given: Any, kind: type) -> list[Any]:
    """Return one value, or a list of different values, as a list; all must be of one kind."""
    values = given if isinstance(given, list) else [given]
    if not values:
        raise SweepFileError(f"{key} = [] holds nothing to run")
    for value in values:
        if type(value) is not kind:  # a bool is an int, but no seed
            raise SweepFileError(f"{key} = {value!r} must be {KINDS[kind]}, or a list of such")
    return refuse_twins(key, values)


def setting_factors(given: Mapping[str, Any]) -> dict[str, list[Value]]:
    """Return every setting's values as a list."""
    factors = {}
    for name, value in given.items():
        values = value if isinstance(value, list) else [value]
        if not values:
            raise SweepFileError(f"{name} = [] holds nothing to run")
        for one in values:
            if not isinstance(one, Value):
                raise SweepFileError(f"{name} = {one!r} must be a number, text, true or false")
        factors[name] = refuse_twins(name, values)
    return factors


def refuse_twins(key: str, values: list[Any]) -> list[Any]:
    for value in values:
        if values.count(value) > 1:
            raise SweepFileError(f"{key} holds {value!r} twice")
    return values
