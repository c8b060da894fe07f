"""The figure of k: accuracy against the number of neighbours that correct a feature."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from earl.errors import DataNotFound
from earl.evaluation.history import Metric
from earl.evaluation.metrics import a_auc, a_last
from earl.experiments.runs.records import RunRecord
from earl.report.figures.canvas import grid, legend_below, plain, sheet
from earl.report.figures.colours import colour_of, shade
from earl.report.groups import Group
from earl.report.selection import command, panels, recorded
from earl.report.statistics import spread


@dataclass(frozen=True)
class Mark:
    """How a metric is drawn."""

    metric: Metric
    dash: str
    filled: bool


MARKS = {"A_AUC": Mark(a_auc, "-", True), "A_last": Mark(a_last, "--", False)}
SHAPES = "osD^vPX"  # of the settings of one method
BARS = "bars: ± 1 standard deviation"
ASIDE = 1.03  # shift from line to line, so that no bar hides another


def effect_of_k(runs: Sequence[RunRecord], *, title: str = "", allow_mixed: bool = False) -> Figure:
    """Draw A_AUC and A_last against k, with bars of one deviation over seeds."""
    correcting = with_several_k(recorded(runs))
    of_column = panels(correcting, allow_mixed=allow_mixed)
    values = sorted({int(run.settings["k"]) for run in correcting})
    wide = min(2, len(of_column))
    lines = -(-len(of_column) // wide)
    figure = sheet(5.2 if wide == 1 else 9.2, 0.4 + 3.0 * lines)
    axes = grid(figure, len(of_column), wide)
    for panel, (column, groups) in zip(axes, of_column.items(), strict=True):
        show(panel, groups, values)
        plain(panel, title if title and len(of_column) == 1 else str(column))
    if title and len(of_column) > 1:
        figure.suptitle(title, fontsize=11)
    legend_below(figure, axes)
    return figure


def with_several_k(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the runs that correct features, if there is more than one k among them."""
    correcting = [run for run in runs if run.settings.get("correction", False)]
    values = {int(run.settings["k"]) for run in correcting}
    if len(values) < 2:
        found = f"k = {min(values)} only" if values else "no run of a method that has one"
        method = correcting[0].experiment.method if correcting else "earl"
        other = command((correcting or runs)[0], method=method, k=25 if values == {5} else 5)
        raise DataNotFound(
            f"this figure needs runs with several values of k, and there is {found}; make more "
            f"with, for example: {other}"
        )
    return correcting


def show(axes: Axes, groups: Sequence[Group], values: Sequence[int]) -> None:
    """Draw a line for each metric and each method with its settings, of which k is the axis.

    A method has its colour; its settings differ in shade and in the shape of the marks.
    """
    by_name: dict[str, list[Group]] = {}
    for group in sorted(groups, key=k_of):
        by_name.setdefault(without_k(group.row), []).append(group)
    methods = [several[0].method for several in by_name.values()]
    lines = [(place, metric) for place in range(len(by_name)) for metric in MARKS]
    for number, (place, metric) in enumerate(lines):
        name, several = list(by_name.items())[place]
        variant = methods[:place].count(methods[place])
        aside = ASIDE ** (number - (len(lines) - 1) / 2)
        show_line(axes, f"{name}: {metric}", several, MARKS[metric], variant, aside)
    if any(len(group.runs) > 1 for group in groups):
        axes.errorbar([], [], yerr=[], linestyle="none", capsize=3, color="0.5", label=BARS)
    axes.set_xscale("log")
    axes.set_xticks(values, [str(k) for k in values])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("neighbours k")
    axes.set_ylabel("accuracy, %")


def show_line(
    axes: Axes, label: str, groups: Sequence[Group], mark: Mark, variant: int, aside: float
) -> None:
    """Draw one metric of one method with one choice of its other settings."""
    colour = shade(colour_of(groups[0].method), variant)
    spreads = [spread(percent(group, mark.metric)) for group in groups]
    bands = [s.band(0.0, 100.0) for s in spreads]
    axes.errorbar(
        [aside * k_of(group) for group in groups],
        [s.mean for s in spreads],
        yerr=[
            [s.mean - low for s, (low, _) in zip(spreads, bands, strict=True)],
            [high - s.mean for s, (_, high) in zip(spreads, bands, strict=True)],
        ],
        linestyle=mark.dash,
        marker=SHAPES[variant % len(SHAPES)],
        markersize=5,
        markerfacecolor=colour if mark.filled else "white",
        capsize=3,
        color=colour,
        label=label,
    )


def k_of(group: Group) -> int:
    return int(group.one.settings["k"])


def without_k(row: str) -> str:
    return ", ".join(part for part in row.split(", ") if not part.startswith("k="))


def percent(group: Group, metric: Metric) -> list[float]:
    return [100 * metric(run.history) for run in group.runs.values()]
