"""What runs were made with: what they share, what differs, and who has which value."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from earl.experiments.runs.records import RunRecord
from earl.report.groups import NAMES, PLACES, Column, column_of, differing, display_value
from earl.report.page.grids import Grid, Item

Texts: TypeAlias = Mapping[str, str]  # values of a run by name
Read = Callable[[RunRecord], Texts]


def settings_of(run: RunRecord) -> dict[str, str]:
    """Return all settings, the budget that was matched, and the data; no places."""
    data = {
        f"data: {name}": value for name, value in run.data.items() if name not in (*PLACES, *NAMES)
    }
    chosen = {**run.settings, **run.matching, **data}
    return {name: text(value) for name, value in sorted(chosen.items())}


def environment_of(run: RunRecord) -> dict[str, str]:
    return {name: text(value) for name, value in run.environment.items()}


def text(value: Any) -> str:
    """Return a value of a record: a list as its members, such as the shape of an image."""
    if isinstance(value, list | tuple):
        return " × ".join(map(str, value))
    return display_value(value)


def shared_grid(values: Sequence[Texts], caption: str) -> Grid:
    """Return the values that are the same in all runs."""
    differ = differing(values)
    rows = [(Item(n), Item(v)) for n, v in values[0].items() if n not in differ]
    return Grid(caption, ("name", "value"), tuple(rows), numeric=False)


def differing_grid(runs: Sequence[RunRecord], values: Sequence[Texts], caption: str) -> Grid:
    """Return each value that not all runs have, and the runs that have it."""
    rows = []
    for name in sorted(differing(values)):
        having: dict[str, list[RunRecord]] = {}
        for run, of_run in zip(runs, values, strict=True):
            if name in of_run:
                having.setdefault(of_run[name], []).append(run)
        rows += [(Item(name), Item(v), Item(users(some, runs))) for v, some in having.items()]
    return Grid(caption, ("name", "value", "in the runs of"), tuple(rows), numeric=False)


def users(some: Sequence[RunRecord], runs: Sequence[RunRecord]) -> str:
    """Say which runs these are, in as few words as possible."""
    of_method, of_column = counts(runs)
    ours, here = counts(some)
    named = []
    for method, count in ours.items():
        if count == of_method[method]:
            named.append(method)
            continue
        for (other, column), part in here.items():
            if other == method:
                whole = of_column[other, column]
                rest = "" if part == whole else f" ({part} of {whole} runs)"
                named.append(f"{method} on {column}{rest}")
    return "; ".join(named)


def counts(runs: Sequence[RunRecord]) -> tuple[dict[str, int], dict[tuple[str, Column], int]]:
    """Return the number of runs of each method, and of each method on each stream."""
    of_method: dict[str, int] = {}
    of_column: dict[tuple[str, Column], int] = {}
    for run in runs:
        method, place = run.experiment.method, (run.experiment.method, column_of(run))
        of_method[method] = of_method.get(method, 0) + 1
        of_column[place] = of_column.get(place, 0) + 1
    return of_method, of_column


def command_of(run: RunRecord) -> str:
    """Return the line that makes this run again."""
    return shlex.join(["earl", *run.experiment.command()])
