"""The description of published tables: which runs, in which rows, in which pages."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from earl.errors import DataNotFound, InvalidSetting, suggest
from earl.storage.reading import read_text

LARGEST = 1 << 20  # bytes of a description
Kind = Literal["methods", "grid", "differences", "few-shot", "paper-cost", "written"]
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Choice:
    """Some of a table's runs, by NAME=VALUE, and what they are called."""

    label: str
    where: tuple[str, ...] = ()
    metric: str = ""  # of a column: that of the table, unless given


@dataclass(frozen=True)
class Pair:
    """Two methods of which one is subtracted from the other; each may have a metric of its own."""

    label: str
    plus: tuple[str, ...]
    minus: tuple[str, ...]
    plus_metric: str = ""  # that of the table, unless given
    minus_metric: str = ""


@dataclass(frozen=True)
class Sheet:
    """A table as it is described.

    methods: a row for each choice, a column for each metric, differences to the row `versus`, and
    the costs.
    grid: one metric, unless a column has its own, a row for each choice and a column for each of
    `columns`; the best of a row among the runs that fit `best_by` is bold.
    differences: a row for each pair, likewise.
    few-shot: curves from a file of benchmarks/few_shot.py, `where` says of how many classes.
    paper-cost: what the tables of the paper take, from a file of `earl reproduce --cost --json`.
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
class Picture:
    """A figure as it is described: its name in `earl list figures`, and the runs that it shows."""

    figure: str
    runs: str  # the folder of its records, beside the description
    file: str  # a PNG, below the folder that pages are named from
    where: tuple[str, ...] = ()
    title: str = ""


@dataclass(frozen=True)
class Description:
    """The pages to fill, below the folder of its folder, with their tables and pictures."""

    path: Path
    pages: tuple[str, ...]
    sheets: Mapping[str, Sheet]
    pictures: Mapping[str, Picture]

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
        refuse_unknown(path, content, ("pages", "table", "picture"))
        tables, drawn = content.get("table", {}), content.get("picture", {})
        sheets = {name: sheet(path, name, about) for name, about in tables.items()}
        pictures = {name: picture(path, name, about) for name, about in drawn.items()}
        return cls(path, tuple(content.get("pages", ())), sheets, pictures)


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
    if any(row.metric for row in values.get("rows", ())):
        raise InvalidSetting(f"{path}: table {name}: a column or a pair has a metric, not a row")
    if missing := {"runs", "command"} - set(values):
        raise InvalidSetting(f"{path}: table {name} needs {' and '.join(sorted(missing))}")
    return Sheet(**{**values, "name": name, "kind": kind})


def picture(path: Path, name: str, about: Mapping[str, Any]) -> Picture:
    """Return a picture from its part of the description."""
    refuse_unknown(path, about, [field.name for field in fields(Picture)])
    if missing := {"figure", "runs", "file"} - set(about):
        raise InvalidSetting(f"{path}: picture {name} needs {' and '.join(sorted(missing))}")
    if not about["file"].endswith(".png"):
        raise InvalidSetting(f"{path}: picture {name} has the file {about['file']}; name a .png")
    return Picture(**{**about, "where": tuple(about.get("where", ()))})


def of_method(name: str) -> Choice:
    """Return the row of a method."""
    return Choice(f"`{name}`", (f"method={name}",))


def entry(path: Path, kind: type[Entry], value: Any) -> Entry:
    """Return a row, column or pair; a text stands for the method of that name."""
    if isinstance(value, str):
        value = asdict(of_method(value))
    known = fields(kind)  # type: ignore[arg-type]
    needed = {field.name for field in known if field.default is MISSING}
    names = [field.name for field in known]
    if not needed <= set(value) <= set(names):
        raise InvalidSetting(f"{path}: {value} must have {', '.join(names)}, and nothing else")
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in value.items()})


def refuse_unknown(path: Path, content: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in content:
        if key not in known:
            raise InvalidSetting(f"{path} has {key!r}; {suggest(key, tuple(known))}")
