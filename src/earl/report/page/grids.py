"""Tables of a page: what stands in each cell, and the number that it is sorted by."""

from collections.abc import Sequence
from dataclasses import dataclass

from earl.experiments.runs.records import RunRecord
from earl.report.groups import Column, Group, column_of
from earl.report.notes import state
from earl.report.statistics import spread
from earl.report.tables.layout import NOTHING, Head, heads_of, number, text_of
from earl.report.tables.table import Cell, Table


@dataclass(frozen=True)
class Item:
    """One cell: its text, the number behind it, and how strongly it is coloured, in percent."""

    text: str
    value: float | None = None
    heat: float | None = None


@dataclass(frozen=True)
class Grid:
    """A table whose first column names the rows; the columns of numbers stand to the right."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Item, ...], ...]
    numeric: bool = True  # all columns but the first


def result_grid(table: Table, column: Column) -> Grid:
    """Return the metrics on one stream, with all they are compared to."""
    return grid_of(table, column, [head for head in heads_of(table) if head.measure.kind != "cost"])


def budget_grid(table: Table, column: Column) -> Grid:
    """Return what learning one stream has cost."""
    return grid_of(table, column, [head for head in heads_of(table) if head.measure.kind == "cost"])


def grid_of(table: Table, column: Column, heads: Sequence[Head]) -> Grid:
    """Return some heads of one column; rows without any run there are left out."""
    chosen = [head for head in heads if head.column == column]
    there = [row for row in table.rows if any(key[:2] == (row, column) for key in table.cells)]
    return Grid(
        caption=str(column),
        heads=("method", *(titled(head) for head in chosen)),
        rows=tuple((Item(row), *(item_of(table, row, head) for head in chosen)) for row in there),
    )


def titled(head: Head) -> str:
    """Return the title of a head that can stand alone."""
    return head.title if head.kind == "ours" else f"{head.measure.name} {head.title}"


def item_of(table: Table, row: str, head: Head) -> Item:
    cell = table.cells.get((row, head.column, head.measure.name))
    return Item(text_of(table, row, head), None if cell is None else value_of(cell, head))


def value_of(cell: Cell, head: Head) -> float | None:
    """Return the number that the text below a head begins with."""
    if head.kind == "ours":
        return cell.spread.mean
    if head.kind == "paper":
        return cell.paper.mean if cell.paper else None
    if head.kind == "gap":
        return cell.gap
    return cell.difference.mean if cell.difference else None


def class_grid(groups: Sequence[Group]) -> Grid:
    """Return the accuracy on each class at the end of one stream, the mean over seeds."""
    runs = [run for group in groups for run in group.runs.values()]
    classes = sorted({c for run in runs for c in run.history[-1].total})
    names = dict(enumerate(next((run.class_names for run in runs if run.class_names), ())))
    return Grid(
        caption=str(groups[0].column),
        heads=("class", *(group.row for group in groups)),
        rows=tuple(
            (
                Item(f"{c} {names.get(c, '')}".strip(), float(c)),
                *(class_item(group, c) for group in groups),
            )
            for c in classes
        ),
    )


def class_item(group: Group, c: int) -> Item:
    """Return the mean over the seeds in which the class was asked about."""
    ends = [run.history[-1] for run in group.runs.values()]
    shares = [100 * end.correct.get(c, 0) / end.total[c] for end in ends if end.total.get(c)]
    if not shares:
        return Item(NOTHING)
    mean = spread(shares).mean
    return Item(number(mean), mean, heat=round(mean))


def progress_grid(runs: Sequence[RunRecord]) -> Grid:
    """Return how far the runs are that have not ended; damaged runs are not listed."""
    lengths = {column_of(run): run.samples for run in runs if run.finished}
    return Grid(
        caption="Runs that have not ended, or are damaged",
        heads=("run", "samples learned", "accuracy so far, %", "state"),
        rows=tuple(
            (
                Item(run.name),
                Item(NOTHING) if run.damage else Item(f"{run.samples:,}", run.samples),
                accuracy_so_far(run),
                Item(state(run, lengths.get(column_of(run)))),
            )
            for run in runs
            if not run.finished
        ),
    )


def accuracy_so_far(run: RunRecord) -> Item:
    if run.damage or not run.history:
        return Item(NOTHING)
    value = 100 * run.history[-1].accuracy
    return Item(number(value), value)
