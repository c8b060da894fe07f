"""The layout of a table: which columns of text it has, and how a number is written in them."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor, log10
from typing import Literal, TypeAlias

from earl.report.groups import Column
from earl.report.measures import MEAN, Measure
from earl.report.statistics import Difference
from earl.report.tables.table import Cell, Table

Kind = Literal["ours", "paper", "gap", "versus"]
NOTHING = "–"
TITLES = {
    "images": "images trained",
    "flops": "training FLOPs",
    "bytes": "bytes held",
    "seconds": "time",
}
SCALES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Head:
    """One column of text: what it is about, and what it says of it."""

    column: Column
    measure: Measure
    kind: Kind
    title: str


def heads_of(table: Table) -> list[Head]:
    """Return the columns from left to right; the paper's only where it has a number."""
    return [
        Head(column, measure, kind, title)
        for column in table.columns
        for measure in table.measures
        for kind, title in kinds_of(table, column, measure)
    ]


def kinds_of(table: Table, column: Column, measure: Measure) -> list[tuple[Kind, str]]:
    cells = [table.cells.get((row, column, measure.name)) for row in table.rows]
    kinds: list[tuple[Kind, str]] = [("ours", TITLES.get(measure.name, measure.name))]
    if any(cell and cell.paper for cell in cells):
        kinds += [("paper", "paper"), ("gap", "gap")]
    if table.versus is not None and measure.kind != "cost":
        kinds += [("versus", f"vs {table.versus}")]
    return kinds


def text_of(table: Table, row: str, head: Head) -> str:
    """Return what stands in a row below a head."""
    cell = table.cells.get((row, head.column, head.measure.name))
    if cell is None:
        return NOTHING
    if head.kind == "ours":
        return ours(cell, head.measure)
    if head.kind == "paper":
        return plus_minus(cell.paper.mean, cell.paper.std) if cell.paper else NOTHING
    if head.kind == "gap":
        return NOTHING if cell.gap is None else signed(cell.gap)
    return interval(cell.difference, places(cell, head.measure)) if cell.difference else NOTHING


def ours(cell: Cell, measure: Measure) -> str:
    """Return mean ± standard deviation (number of seeds); of costs the mean alone.

    >>> ours(Cell("er", {}, {1: 78.0, 2: 79.0}), Measure("A_AUC"))
    '78.50 ± 0.71 (2)'
    >>> ours(Cell("er", {}, {1: 78.0}), Measure("A_AUC"))
    '78.00 (1)'
    >>> ours(Cell("er", {}, {1: 0.0123, 2: 0.0101}), Measure("NC1", "", "reading"))
    '0.0112 ± 0.0016 (2)'
    """
    spread = cell.spread
    if measure.kind == "cost":
        return quantity(spread.mean, measure.unit)
    return f"{plus_minus(spread.mean, spread.std, places(cell, measure))} ({spread.n})"


def places(cell: Cell, measure: Measure) -> int:
    """Return the digits behind the point: two for percent, else three digits of the mean."""
    mean = abs(cell.spread.mean)
    if measure.unit == "%" or not mean:
        return 2
    return min(6, max(0, 2 - floor(log10(mean))))


def plus_minus(mean: float, std: float | None, digits: int = 2) -> str:
    return number(mean, digits) + ("" if std is None else f" ± {number(std, digits)}")


def interval(difference: Difference, digits: int = 2) -> str:
    """Return a difference with its confidence interval and the number of common seeds.

    >>> interval(Difference(8.9, 5.1, 12.7, 3))
    '+8.90 [+5.10, +12.70] (3)'
    """
    mean = signed(difference.mean, digits)
    if difference.low is None or difference.high is None:
        return f"{mean} ({difference.n})"
    between = f"[{signed(difference.low, digits)}, {signed(difference.high, digits)}]"
    return f"{mean} {between} ({difference.n})"


def number(value: float, digits: int = 2) -> str:
    """Return a number with this many digits behind the point; zero has no sign."""
    text = f"{value:.{digits}f}"
    return (text if float(text) else f"{0:.{digits}f}").replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    text = f"{value:+.{digits}f}"
    return (text if float(text) else f"{0:.{digits}f}").replace("-", "−")


def quantity(value: float, unit: str) -> str:
    """Return a cost in few digits: counts in full, the rest scaled.

    >>> quantity(3600, ""), quantity(1.234e12, "FLOP"), quantity(44_700_000, "B")
    ('3,600', '1.23 TFLOP', '44.7 MB')
    """
    if not unit:
        return f"{value:,.0f}"
    if unit == "s":
        return f"{value:,.1f} s"
    scale, letter = next((pair for pair in SCALES if value >= pair[0]), (1.0, ""))
    return f"{value / scale:.3g} {letter}{unit}"


def legend(table: Table) -> str:
    """Return one sentence on how to read the numbers."""
    over_seeds = "mean ± standard deviation over seeds (number of seeds)."
    percent = any(m.unit == "%" for m in table.measures)
    readings = [m.name for m in table.measures if m.kind == "reading" and m.unit != "%"]
    parts = [f"Percent: {over_seeds}"] if percent else []
    how = "likewise, not in percent." if percent else over_seeds
    for mean, when in ((False, "at the end of the stream"), (True, "over all evaluations")):
        if named := [name for name in readings if name.endswith(MEAN) == mean]:
            parts.append(f"{', '.join(named)} {when}: {how}")
    if table.versus is not None:
        parts.append(
            f"vs {table.versus}: mean of the paired differences on common seeds with its 95 % "
            "t interval."
        )
    if any(cell.paper for cell in table.cells.values()):
        parts.append(f"paper: its table {table.paper}; gap: ours − paper.")
    return " ".join(parts)


Cut: TypeAlias = Callable[[Head], Hashable]


def family(head: Head) -> str:
    """Return what should stay together: a metric with its comparisons, and all costs."""
    return "costs" if head.measure.kind == "cost" else head.measure.name


# By data set and stream, then by metric, then every column of text alone
CUTS: tuple[Cut, ...] = (lambda head: head.column, family, lambda head: head)


def pieces(
    heads: Sequence[Head], fits: Callable[[Sequence[Head]], bool], cuts: Sequence[Cut] = CUTS
) -> Iterator[Sequence[Head]]:
    """Yield all columns of text if they fit, else cut them into as few pieces as possible."""
    if fits(heads) or not cuts:
        yield heads
        return
    for _, piece in groupby(heads, key=cuts[0]):
        yield from pieces(list(piece), fits, cuts[1:])
