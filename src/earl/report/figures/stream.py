"""The figure of the stream itself: which class arrives when, how many were seen, where tasks end.

It is the only figure that needs the data set, because histories do not name the samples.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from earl.data.streams import Schedule, classes_seen
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import RunRecord
from earl.report.figures.canvas import save, sheet
from earl.report.groups import Group, column_of
from earl.report.selection import only

BLUE, ORANGE = "#0072B2", "#D55E00"  # of Okabe and Ito
MOST_NAMES = 25  # classes whose names fit beside the picture


def stream(runs: Sequence[RunRecord], *, title: str = "", allow_mixed: bool = False) -> Figure:
    """Draw the stream that runs went through; of several seeds, that of the lowest."""
    columns = sorted({column_of(run) for run in runs})
    column, _ = only({column: list[Group]() for column in columns})
    run = min(runs, key=lambda run: run.experiment.seed)
    directory = RunDirectory(run.path)
    dataset = directory.load()
    schedule = directory.experiment.schedule(dataset)
    labels = dataset.train.labels[schedule.order]
    named = title or f"{column}, seed {run.experiment.seed}"
    return picture(labels, schedule, dataset.titles, named)


def draw_stream(
    labels: Tensor, schedule: Schedule, class_names: Sequence[str], title: str, path: Path
) -> None:
    """Write the picture of a stream to a file; the ending of its name says in which format."""
    save(picture(labels, schedule, class_names, title), path)


def picture(labels: Tensor, schedule: Schedule, class_names: Sequence[str], title: str) -> Figure:
    """Draw the class ids of a stream, int64 (T,) in order of arrival.

    Above, each row is a class, in order of its median arrival, and each column a stretch of equal
    length; below, the number of classes seen. At the side, the number of samples of each class
    where it is not the same; else the title tells it. Boundaries are solid lines where classes
    change and dashed lines where they are artificial.
    """
    classes, rows = by_arrival(labels)
    figure = sheet(8, 5.6)
    sizes = rows.bincount(minlength=len(classes))
    alike = int(sizes.min()) == int(sizes.max())
    wide = (6,) if alike else (6, 1)
    grid = figure.add_gridspec(2, len(wide), height_ratios=(3, 1.1), width_ratios=wide)
    density = figure.add_subplot(grid[0, 0])
    seen = figure.add_subplot(grid[1, 0], sharex=density)
    draw_density(density, share_of_classes(rows, len(classes)), len(labels), figure)
    if alike:
        title = f"{title}: {int(sizes[0]):,} samples of each class"
    else:
        draw_sizes(figure.add_subplot(grid[0, 1], sharey=density), sizes)
    draw_seen(seen, labels)
    draw_boundaries((density, seen), schedule)
    name_rows(density, [class_names[c] for c in classes.tolist()])
    density.set_title(title, loc="left")
    return figure


def by_arrival(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the classes of a stream (n,) by median arrival, and every sample's row (T,)."""
    classes, numbers, counts = labels.unique(return_inverse=True, return_counts=True)
    steps = numbers.argsort(stable=True)  # class after class, each in order of arrival
    order = steps[counts.cumsum(0) - (counts + 1) // 2].argsort()
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    return classes[order], place[numbers]


def share_of_classes(rows: Tensor, n: int) -> Tensor:
    """Return the share of each class in each stretch of the stream, (n, stretches)."""
    stretches = min(200, max(10, len(rows) // 20), len(rows))
    column = torch.arange(len(rows)) * stretches // len(rows)
    counts = (rows * stretches + column).bincount(minlength=n * stretches).view(n, stretches)
    return counts / counts.sum(dim=0)


def draw_density(axes: Axes, share: Tensor, length: int, figure: Figure) -> None:
    n = len(share)
    image = axes.imshow(
        100 * share.numpy(),
        aspect="auto",
        origin="lower",
        extent=(0, length, -0.5, n - 0.5),
        cmap=LinearSegmentedColormap.from_list("arrivals", ["#FFFFFF", BLUE, "#00243F"]),
        norm=PowerNorm(0.5, vmin=0, vmax=100 * float(share.max())),  # a rare class stays visible
    )
    bar = figure.colorbar(image, ax=axes, location="top", aspect=60, shrink=0.5, anchor=(1, 0))
    bar.set_label("share of arriving samples, %")
    bar.outline.set_visible(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelbottom=False)


def draw_sizes(axes: Axes, sizes: Tensor) -> None:
    edges = (torch.arange(len(sizes) + 1) - 0.5).tolist()
    axes.stairs(sizes.tolist(), edges, orientation="horizontal", fill=True, color="0.75")
    axes.set_xlabel("samples")
    axes.set_xticks([0, int(sizes.max())])
    axes.tick_params(labelleft=False, left=False)
    axes.spines[["top", "right"]].set_visible(False)


def draw_seen(axes: Axes, labels: Tensor) -> None:
    """Draw the number of classes that have arrived at least once."""
    seen = classes_seen(labels)
    grows = (seen.diff(prepend=torch.zeros(1, dtype=torch.int64)) > 0).nonzero().flatten()
    steps = [0, *(grows + 1).tolist(), len(labels)]
    counts = [0, *seen[grows].tolist(), int(seen[-1])]
    axes.step(steps, counts, where="post", color=ORANGE, linewidth=2)
    axes.set_xlim(0, len(labels))
    axes.set_ylim(0, 1.08 * counts[-1])
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("samples arrived")
    axes.set_ylabel("classes seen")
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def draw_boundaries(panels: Sequence[Axes], schedule: Schedule) -> None:
    style = (0, (4, 3)) if schedule.artificial else "solid"
    width = 1.0 if len(schedule.boundaries) < 30 else 0.4
    for axes in panels:
        for boundary in schedule.boundaries:
            line = axes.axvline(boundary, color="0.35", linewidth=width, linestyle=style)
            line.set_zorder(1.5)  # behind the curve
    if schedule.boundaries:
        line.set_label("artificial boundary" if schedule.artificial else "boundary")
        panels[-1].legend(loc="lower right", frameon=True, framealpha=1, edgecolor="none")


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    if len(names) <= MOST_NAMES:
        axes.set_yticks(range(len(names)), [name[:20] for name in names])
        axes.set_ylabel("class")
    else:
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_ylabel("class, in order of arrival")
