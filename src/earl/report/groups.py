"""Sorting runs into the cells of a table, and refusing those that cannot be compared.

A column is a data set and a stream with their settings, a row a method with its own. Runs in one
cell differ in nothing but their seed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import NamedTuple

from earl.errors import MixedRuns
from earl.experiments.recipes import Value
from earl.experiments.runs.records import SHARED_CAME_LATER, RunRecord, show

ENVIRONMENT = ("earl", "torch", "device")  # what results may depend on beside the settings
PLACES = ("source", "skipped")  # facts about data that may differ between machines
NAMES = ("class_names", "class_words")  # long, and no result depends on them
IMAGES = "data images_sha256"
SHARED = ("setting", "network", "augment", "run")  # parts that methods under comparison share


class Column(NamedTuple):
    """A data set and a stream, as a table names them."""

    dataset: str
    stream: str

    def __str__(self) -> str:
        return f"{self.dataset}, {self.stream}"


@dataclass(frozen=True)
class Group:
    """The runs of one cell, by seed."""

    row: str
    column: Column
    runs: Mapping[int, RunRecord]

    @property
    def one(self) -> RunRecord:
        """Any of them: they differ in nothing but their seed."""
        return self.runs[min(self.runs)]

    @property
    def method(self) -> str:
        return self.one.experiment.method


def group_runs(
    runs: Sequence[RunRecord], allow_mixed: bool = False
) -> tuple[list[Group], list[str]]:
    """Return the groups in the order of rows and columns, and notes on what was mixed.

    No run goes under a name that hides what was changed in it: its own settings stand in the row,
    those that all runs of a column share in the column.
    """
    runs = distinct(runs)
    files: dict[str, set[str]] = {}
    for run in runs:
        files.setdefault(run.stream, set()).add(run.experiment.stream_sha256)
    by_column: dict[Column, list[RunRecord]] = {}
    for run in runs:
        by_column.setdefault(column_of(run, len(files[run.stream]) > 1), []).append(run)
    notes = [note for c in sorted(by_column) for note in check(c, by_column[c], allow_mixed)]
    shared = {name for of in by_column.values() for name in differing(map(shared_settings, of))}
    own = {m: own_settings(m, runs) for m in {run.experiment.method for run in runs}}

    cells: dict[tuple[Variant, Column], list[RunRecord]] = {}
    for of_column in by_column.values():
        run = of_column[0]
        alike = set(shared_settings(run)) - shared
        common = {n: v for n, v in run.changed.items() if n in alike}
        column = column_of(run, len(files[run.stream]) > 1, common)
        for run in of_column:
            row = Variant.of(run, own[run.experiment.method] | shared)
            cells.setdefault((row, column), []).append(run)
    return [
        Group(str(row), column, by_seed(of)) for (row, column), of in sorted(cells.items())
    ], notes


class Variant(NamedTuple):
    """A method, and the settings that tell it from others of its name; numbers sort as such."""

    method: str
    settings: tuple[tuple[str, float, str], ...]

    @classmethod
    def of(cls, run: RunRecord, names: set[str]) -> "Variant":
        values = {**run.settings, **run.matching}
        chosen = ((name, values[name]) for name in sorted(names) if name in values)
        return cls(run.experiment.method, tuple((n, size(v), display_value(v)) for n, v in chosen))

    def __str__(self) -> str:
        return ", ".join([self.method, *(f"{name}={text}" for name, _, text in self.settings)])


def column_of(
    run: RunRecord, several_files: bool = False, common: Mapping[str, Value] | None = None
) -> Column:
    """Return a run's column; every setting of data and stream that was changed is named.

    So are the settings in `common`: those that its runs share and that are not the recipe's.
    """
    of_data, of_stream = run.of("data"), run.of("stream")
    data = {n: v for n, v in run.changed.items() if n in of_data} | dict(common or {})
    stream = {n: v for n, v in run.changed.items() if n in of_stream}
    if several_files:  # of the same name
        stream["sha256"] = run.experiment.stream_sha256[:8]
    return Column(in_brackets(run.dataset, data), in_brackets(run.stream, stream))


def own_settings(method: str, runs: Iterable[RunRecord]) -> set[str]:
    """Return the names of a method's own settings that were changed in any of its runs.

    What a recipe gives to one data set and not to another is no change.
    """
    of_method = [run for run in runs if run.experiment.method == method]
    changed = {name for run in of_method for name in run.changed.keys() & run.of("method").keys()}
    return changed | differing([run.matching for run in of_method])


def shared_settings(run: RunRecord) -> dict[str, Value]:
    """Return what methods under comparison share; what came later is as runs had it before."""
    return {**SHARED_CAME_LATER, **run.of(*SHARED)}


def differing(settings: Iterable[Mapping[str, Value]]) -> set[str]:
    """Return the names whose values, or whose presence, are not the same everywhere."""
    several = list(settings)
    if all(one == several[0] for one in several):
        return set()
    names = {name for one in several for name in one}
    return {n for n in names if len({one.get(n) for one in several}) > 1}


def check(column: Column, runs: Sequence[RunRecord], allow_mixed: bool) -> list[str]:
    """Raise MixedRuns if runs of a column differ in what they should share; or note it."""
    terms = [comparable(run) for run in runs]
    if any(IMAGES not in of_run for of_run in terms):  # of runs made before it was recorded
        terms = [{n: v for n, v in of_run.items() if n != IMAGES} for of_run in terms]
    mixed = sorted(differing(terms))
    if not mixed:
        return []
    if not allow_mixed:
        other = next(i for i, of_run in enumerate(terms) if of_run != terms[0])
        (a, one), (b, two) = (runs[0], terms[0]), (runs[other], terms[other])
        found = ", ".join(
            f"{name} ({value_in(one, name)} and {value_in(two, name)})"
            for name in sorted(differing((one, two)))
        )
        example = next((name for name in mixed if name in a.facts()), "seed")
        raise MixedRuns(
            f"{a.path} and {b.path} do not belong in one column of a table: they differ in "
            f"{found}. Choose some with --where {example}={show(a.facts()[example])}, or pass "
            "--allow-mixed"
        )
    values = {n: sorted({value_in(of_run, n) for of_run in terms}) for n in mixed}
    listed = "; ".join(f"{name} {' and '.join(of)}" for name, of in values.items())
    return [f"mixed in {column}: {listed}"]


def value_in(terms: Mapping[str, Value], name: str) -> str:
    return display_value(terms.get(name, "none"))


def comparable(run: RunRecord) -> dict[str, Value]:
    """Return what must be the same in all runs of a column."""
    environment = {n: run.environment.get(n, "unknown") for n in ENVIRONMENT}
    data = {f"data {n}": str(v) for n, v in run.data.items() if n not in (*PLACES, *NAMES)}
    return {**shared_settings(run), **environment, **data}


def distinct(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the runs without those that only repeat another run with other probes."""
    kept: dict[tuple[str, int], RunRecord] = {}
    chosen = []
    for run in runs:
        other = kept.setdefault((run.kind, run.experiment.seed), run)
        if other is run or other.experiment.probes == run.experiment.probes:
            chosen.append(run)  # a mere copy is for `by_seed` to refuse
    return chosen


def by_seed(runs: Iterable[RunRecord]) -> dict[int, RunRecord]:
    """Return the runs of one cell by seed; one seed twice is an error."""
    seeds: dict[int, RunRecord] = {}
    for run in sorted(runs, key=lambda run: (run.experiment.seed, run.name)):
        other = seeds.setdefault(run.experiment.seed, run)
        if other is not run:
            raise MixedRuns(
                f"{other.path} and {run.path} are the same experiment with the same seed; leave "
                "one of them out, or it would count twice"
            )
    return seeds


def in_brackets(name: str, settings: Mapping[str, Value]) -> str:
    """Return a name with its settings in brackets."""
    listed = ", ".join(f"{n}={display_value(v)}" for n, v in sorted(settings.items()))
    return f"{name} ({listed})" if listed else name


def size(value: Value) -> float:
    return 0.0 if isinstance(value, str) else float(value)


@lru_cache(typed=True)  # runs share most of their settings; 1, 1.0 and true are not the same
def display_value(value: Value) -> str:
    """Return a setting's value; of a path only its end, because tables name no places."""
    if value == "":
        return "none"
    return PurePath(value).name if isinstance(value, str) and "/" in value else show(value)
