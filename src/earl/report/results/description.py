"""The description of published tables: which runs, in which rows, in which pages."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from earl.errors import DataNotFound, InvalidSetting, suggest
from earl.storage.reading import read_text

LARGEST = 1 << 20  # bytes of a description
Kind = Literal["methods", "grid", "differences", "few-shot"]
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Choice:
    """Some of a table's runs, by NAME=VALUE, and what they are called."""

    label: str
    where: tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """Two methods of which one is subtracted from the other."""

    label: str
    plus: tuple[str, ...]
    minus: tuple[str, ...]


@dataclass(frozen=True)
class Sheet:
    """A table as it is described.

    methods: a row for each choice, a column for each metric, differences to the row `versus`, and
    the costs.
    grid: one metric, a row for each choice and a column for each of `columns`; the best of a row
    among the runs that fit `best_by` is bold. differences: a row for each pair, likewise.
    few-shot: curves from a file of benchmarks/few_shot.py, `where` says of how many classes.
    """

    name: str
    kind: Kind
    runs: tuple[str, ...]  # folders of its records, beside the description
    command: str  # that made them
    metrics: tuple[str, ...] = ("A_AUC",)
    where: tuple[str, ...] = ()
    rows: tuple[Choice, ...] = ()
    columns: tuple[Choice, ...] = ()
    pairs: tuple[Pair, ...] = ()
    versus: str = ""  # the label of a row
    compared: tuple[str, ...] = ()  # metrics that have a column of differences
    settings: tuple[str, ...] = ()  # that have a column
    costs: tuple[str, ...] = ("flops",)  # that have a column: flops, bytes
    best_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Description:
    """The pages to fill, below the folder of the description's folder, and their tables."""

    path: Path
    pages: tuple[str, ...]
    sheets: Mapping[str, Sheet]

    @property
    def root(self) -> Path:
        """The folder that pages are named from."""
        return self.path.absolute().parent.parent

    @classmethod
    def open(cls, path: Path) -> "Description":
        """Read a description; whatever is wrong in it is an error in one line."""
        if not path.is_file():
            raise DataNotFound(f"there is no description of results {path}; name one")
        try:
            content = tomllib.loads(read_text(path, LARGEST))
        except tomllib.TOMLDecodeError as error:
            raise InvalidSetting(f"{path} is not TOML: {error}") from None
        refuse_unknown(path, content, ("pages", "table"))
        tables = content.get("table", {})
        sheets = {name: sheet(path, name, about) for name, about in tables.items()}
        return cls(path, tuple(content.get("pages", ())), sheets)


def sheet(path: Path, name: str, about: Mapping[str, Any]) -> Sheet:
    """Return a table from its part of the description."""
    refuse_unknown(path, about, [field.name for field in fields(Sheet) if field.name != "name"])
    kind = about.get("kind", "methods")
    if kind not in get_args(Kind):
        raise InvalidSetting(
            f"{path}: table {name} has kind {kind!r}; {suggest(kind, get_args(Kind))}"
        )
    of = {"rows": Choice, "columns": Choice, "pairs": Pair}
    values: dict[str, Any] = {}
    for key, value in about.items():
        if key in of:
            value = [entry(path, of[key], one) for one in value]
        values[key] = tuple(value) if isinstance(value, list) else value
    if isinstance(values.get("runs"), str):
        values["runs"] = (values["runs"],)
    if missing := {"runs", "command"} - set(values):
        raise InvalidSetting(f"{path}: table {name} needs {' and '.join(sorted(missing))}")
    return Sheet(**{**values, "name": name, "kind": kind})


def of_method(name: str) -> Choice:
    """Return the row of a method."""
    return Choice(f"`{name}`", (f"method={name}",))


def entry(path: Path, kind: type[Entry], value: Any) -> Entry:
    """Return a row, column or pair; a text stands for the method of that name."""
    if isinstance(value, str):
        value = asdict(of_method(value))
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    if set(value) != set(names):
        raise InvalidSetting(f"{path}: {value} must have {', '.join(names)}, and nothing else")
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in value.items()})


def refuse_unknown(path: Path, content: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in content:
        if key not in known:
            raise InvalidSetting(f"{path} has {key!r}; {suggest(key, tuple(known))}")
