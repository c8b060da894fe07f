"""Figures over the stream: accuracy, online accuracy, training error and bias."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from earl.evaluation.metrics import a_auc
from earl.experiments.runs.records import RunRecord
from earl.report.figures.canvas import GREY, count_samples, grid, legend_below, plain, sheet
from earl.report.figures.colours import Look, looks
from earl.report.groups import Column, Group
from earl.report.selection import names, panels
from earl.report.series import (
    Read,
    accuracy,
    moving_average,
    over_seeds,
    percent_of,
    reading_of,
    window,
)
from earl.report.statistics import spread

BAND = "band: ± 1 standard deviation"


@dataclass(frozen=True)
class Plan:
    """What a figure over the stream shows."""

    read: Read
    label: str  # of the vertical axis
    reading: str = ""  # that runs must hold
    probe: str = ""  # that records it
    percent: bool = True
    limits: tuple[float, float] = (0.0, 100.0)  # of what a value can be


def curves(runs: Sequence[RunRecord], *, title: str = "", allow_mixed: bool = False) -> Figure:
    """Draw the accuracy on the classes seen so far, and how many those are."""
    plan = Plan(accuracy, "accuracy on seen classes, %")
    figure, of_column = draw(runs, plan, title, allow_mixed)
    for axes, groups in of_column:
        show_classes(axes, groups[0].one)
    if len(of_column) == 1:  # elsewhere a line has several values
        axes, groups = of_column[0]
        for line, group in zip(axes.get_lines(), groups, strict=False):  # then come boundaries
            line.set_label(f"{line.get_label()}, A_AUC {area(group)}")
    return with_legend(figure, of_column)


def online_accuracy(
    runs: Sequence[RunRecord], *, title: str = "", allow_mixed: bool = False
) -> Figure:
    """Draw the share of arriving samples that are right before they are learned.

    It is taken over the last 500 samples, and over a tenth of a stream of less than 5 000.
    """
    plan = Plan(moving_average, "online accuracy, %")
    figure, of_column = draw(runs, plan, title, allow_mixed)
    for axes, groups in of_column:
        axes.set_ylabel(f"accuracy on the last {window(groups[0].one):,}\narriving samples, %")
    return with_legend(figure, of_column)


def tpt(runs: Sequence[RunRecord], *, title: str = "", allow_mixed: bool = False) -> Figure:
    """Draw the training error: 0 would be the terminal phase of training."""
    read = percent_of("training_error")
    plan = Plan(read, "training error, %", reading="training_error", probe="training-error")
    figure, of_column = draw(runs, plan, title, allow_mixed)
    for axes, groups in of_column:
        highest = max(max(s.mean for s in over_seeds(g, read).values()) for g in groups)
        axes.set_ylim(0, 1.08 * max(highest, 1.0))
    return with_legend(figure, of_column)


def bias(runs: Sequence[RunRecord], *, title: str = "", allow_mixed: bool = False) -> Figure:
    """Draw how near the features of the newest class are to the vectors of older ones."""
    label = "cosine of newest class\nwith nearest old class"
    read, limits = reading_of("bias"), (-1.0, 1.0)
    plan = Plan(read, label, reading="bias", probe="bias", percent=False, limits=limits)
    return with_legend(*draw(runs, plan, title, allow_mixed))


def draw(
    runs: Sequence[RunRecord], plan: Plan, title: str, allow_mixed: bool
) -> tuple[Figure, list[tuple[Axes, list[Group]]]]:
    """Return a figure with one panel for each data set and stream, and what is in them."""
    of_column = panels(runs, allow_mixed=allow_mixed, reading=plan.reading, probe=plan.probe)
    wide, count = min(2, len(of_column)), len(of_column)
    lines = -(-count // wide)
    figure = sheet(6.4 if wide == 1 else 9.2, 3.6 if count == 1 else 0.2 + 2.9 * lines)
    of_row = looks_of(list(chain(*of_column.values())))
    axes = grid(figure, count, wide)
    for panel, (column, several) in zip(axes, of_column.items(), strict=True):
        show(panel, several, of_row, plan, column)
    if title and count == 1:
        axes[0].set_title(title, loc="left", fontsize=10)
    elif title:
        figure.suptitle(title, fontsize=11)
    return figure, list(zip(axes, of_column.values(), strict=True))


def looks_of(groups: Sequence[Group]) -> dict[str, tuple[str, Look]]:
    """Return for each row of these groups what it is called and how its line looks."""
    methods = {group.row: group.method for group in groups}
    look = dict(zip(methods, looks(list(methods.values())), strict=True))
    return {row: (name, look[row]) for row, name in names(groups).items()}


def show(
    axes: Axes,
    groups: Sequence[Group],
    of_row: dict[str, tuple[str, Look]],
    plan: Plan,
    column: Column,
) -> None:
    """Draw one panel: for each group the mean over seeds, and a band of one deviation around it."""
    last, banded = 1, False
    for place, group in enumerate(groups):
        (name, look), values = of_row[group.row], over_seeds(group, plan.read)
        steps, means = list(values), [s.mean for s in values.values()]
        axes.plot(
            steps,
            means,
            look.dash,
            color=look.colour,
            label=name,
            linewidth=1.6,
            marker=look.mark or None,
            markersize=5,
            markevery=(0.02 + 0.012 * place, 0.12),
        )
        if any(s.std is not None for s in values.values()):
            low, high = zip(*(s.band(*plan.limits) for s in values.values()), strict=True)
            axes.fill_between(steps, low, high, color=look.colour, alpha=0.18, linewidth=0)
            banded = True
        last = max(last, group.one.samples)
    plain(axes, str(column))
    count_samples(axes, last)
    axes.set_ylabel(plan.label)
    if plan.percent:
        axes.set_ylim(0, 102)
    if banded:
        axes.fill_between([], [], [], color="0.5", alpha=0.3, linewidth=0, label=BAND)
    show_boundaries(axes, groups[0].one)


def show_classes(axes: Axes, run: RunRecord) -> None:
    """Draw the number of classes seen, dotted, against an axis of its own."""
    classes = axes.twinx()
    steps, seen = [e.step for e in run.history], [len(e.total) for e in run.history]
    classes.step(steps, seen, where="post", color="0.6", linewidth=1.2, linestyle=":")
    classes.set_ylabel("classes seen (dotted)", color=GREY)
    classes.set_ylim(0, 1.05 * max(seen))
    classes.locator_params(axis="y", integer=True, nbins=6)
    classes.tick_params(colors=GREY)
    classes.spines[["top", "left"]].set_visible(False)


def show_boundaries(axes: Axes, run: RunRecord) -> None:
    """Draw a line where the classes of the stream change."""
    width = 0.9 if len(run.boundaries) < 30 else 0.4
    for number, step in enumerate(run.boundaries):
        label = "task boundary" if number == 0 else None
        axes.axvline(step, color="0.55", linewidth=width, linestyle=(0, (5, 2)), label=label)


def with_legend(figure: Figure, of_column: Sequence[tuple[Axes, list[Group]]]) -> Figure:
    legend_below(figure, [axes for axes, _ in of_column])
    return figure


def area(group: Group) -> str:
    """Return A_AUC in percent, mean and deviation over seeds."""
    s = spread([100 * a_auc(run.history) for run in group.runs.values()])
    return f"{s.mean:.1f}" if s.std is None else f"{s.mean:.1f} ± {s.std:.1f}"
