"""Tables: from runs to means over seeds, beside a reference method and beside the paper.

Every number is computed from the histories, so that old runs can be asked for new metrics. Equal
runs give equal tables: nothing in them depends on dates, paths or the order of files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from earl.errors import InvalidSetting, UnknownName, suggest
from earl.experiments.recipes import Value
from earl.experiments.runs.records import RunRecord
from earl.report.groups import Column, Group, group_runs
from earl.report.measures import Measure, cost_measures, measure_of, value_of
from earl.report.notes import (
    absent,
    left_out,
    matched,
    not_recorded,
    not_the_papers,
    other_readings,
)
from earl.report.paper import READINGS, Reported, check_table, reported
from earl.report.selection import recorded
from earl.report.statistics import Difference, Spread, paired_difference, spread

DEFAULT_METRICS = ("A_AUC", "A_last")


@dataclass(frozen=True)
class Cell:
    """The values of one method on one stream by seed, and what they are compared with."""

    method: str
    changed: Mapping[str, Value]  # settings that are not those of the recipe
    values: Mapping[int, float]
    difference: Difference | None = None  # to the reference method, over common seeds
    paper: Reported | None = None

    @cached_property
    def spread(self) -> Spread:
        return spread(list(self.values.values()))

    @property
    def gap(self) -> float | None:
        """How far our mean lies above the paper's."""
        return None if self.paper is None else self.spread.mean - self.paper.mean


def default_metrics(paper: str | None) -> tuple[str, ...]:
    """Return the metrics of a table if none are named: also those that the paper reports."""
    return (*DEFAULT_METRICS, *READINGS.get(paper or "", {}).values())


Place: TypeAlias = tuple[str, Column, str]  # row, column, name of the measure
Twins: TypeAlias = Mapping[tuple[str, int], Sequence[RunRecord]]  # runs by their kind and seed


@dataclass(frozen=True)
class Table:
    """Cells by row, column and measure; a place without runs has none."""

    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    measures: tuple[Measure, ...]
    cells: Mapping[Place, Cell]
    notes: tuple[str, ...]
    versus: str | None = None
    paper: str | None = None


def make_table(
    runs: Sequence[RunRecord],
    metrics: Sequence[str] = DEFAULT_METRICS,
    *,
    versus: str | None = None,
    paper: str | None = None,
    costs: bool = False,
    allow_mixed: bool = False,
) -> Table:
    """Return the table of all finished runs; the others, and missing seeds, are named in notes.

    metrics: of `METRICS`, or numbers that probes have recorded, as they are at the end.
    versus: a method (or row) to subtract, seed by seed. paper: a table of the paper to set beside.
    """
    if paper is not None:
        check_table(paper)
    finished = recorded(runs)
    asked = [measure_of(name, finished) for name in dict.fromkeys(metrics)]
    groups, mixed = group_runs(finished, allow_mixed)
    measures = asked + (cost_measures(finished) if costs else [])
    cells = cells_of(groups, finished, measures)
    notes = [*mixed, *matched(groups), *left_out(runs), *absent(groups, runs)]
    notes += not_recorded(groups, cells, [m.name for m in asked if m.kind == "reading"])
    if versus is not None:
        versus = reference(versus, groups)
        cells, unpaired = subtract(cells, versus, [m.name for m in asked])
        notes += unpaired
    if paper is not None:
        cells, differences = set_beside(cells, groups, paper)
        notes += [*differences, *other_readings(metrics, paper)]
    return Table(
        rows=tuple(dict.fromkeys(group.row for group in groups)),
        columns=tuple(sorted({group.column for group in groups})),
        measures=tuple(measures),
        cells=cells,
        notes=tuple(notes),
        versus=versus,
        paper=paper,
    )


def cells_of(
    groups: Sequence[Group], runs: Sequence[RunRecord], measures: Sequence[Measure]
) -> dict[Place, Cell]:
    """Return what there is of each measure in each group."""
    again: dict[tuple[str, int], list[RunRecord]] = {}
    for run in runs:
        again.setdefault((run.kind, run.experiment.seed), []).append(run)
    return {
        (group.row, group.column, m.name): Cell(group.method, group.one.changed, values)
        for group in groups
        for m in measures
        if (values := values_of(group, m, again))
    }


def values_of(group: Group, measure: Measure, again: Twins) -> dict[int, float]:
    """Return a metric in percent, a probe's number or a cost by seed, if all runs have it."""
    found = {
        seed: value_of(run, measure, again[run.kind, seed]) for seed, run in group.runs.items()
    }
    known = {seed: value for seed, value in found.items() if value is not None}
    return known if len(known) == len(found) else {}


def reference(versus: str, groups: Sequence[Group]) -> str:
    """Return the row that is meant: named in full, or the only one of a method."""
    rows = list(dict.fromkeys(group.row for group in groups))
    if versus in rows:
        return versus
    fitting = list(dict.fromkeys(group.row for group in groups if group.method == versus))
    if not fitting:
        raise UnknownName(
            f"no finished run of {versus!r} to compare with; {suggest(versus, tuple(rows))}"
        )
    if len(fitting) > 1:
        listed = ", ".join(map(repr, fitting))
        raise InvalidSetting(f"--versus {versus} could be any of {listed}; name one in full")
    return fitting[0]


def subtract(
    cells: Mapping[Place, Cell], versus: str, metrics: Sequence[str]
) -> tuple[dict[Place, Cell], list[str]]:
    """Return the cells with their paired differences to a row, and notes on those without."""
    compared, alone = dict(cells), []
    for (row, column, measure), cell in cells.items():
        other = cells.get((versus, column, measure))
        if row == versus or measure not in metrics:
            continue
        difference = other and paired_difference(cell.values, other.values)
        if difference:
            compared[row, column, measure] = replace(cell, difference=difference)
        else:
            alone.append(f"no common seed with {versus}: {row} on {column}")
    return compared, list(dict.fromkeys(alone))


def set_beside(
    cells: Mapping[Place, Cell], groups: Sequence[Group], paper: str
) -> tuple[dict[Place, Cell], list[str]]:
    """Return the cells with the paper's numbers, and notes on settings that are not the paper's."""
    beside, found = dict(cells), []
    for group in groups:
        run, row = group.one, None
        for place, cell in cells.items():
            if place[:2] != (group.row, group.column):
                continue
            there = reported(
                paper,
                dataset=run.dataset,
                stream=run.experiment.stream,
                method=group.method,
                settings=run.settings,
                metric=place[2],
            )
            if there is not None:
                number, row = there
                beside[place] = replace(cell, paper=number)
        if row is not None:
            found.append((group, row))
    if not found:
        return beside, [f"the paper's table {paper} has no number for these runs"]
    return beside, not_the_papers(found, paper)
