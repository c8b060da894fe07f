"""Heat maps: the cosines of single test samples of a class with the vectors of all classes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from earl.errors import DataNotFound
from earl.evaluation.history import Evaluation
from earl.experiments.runs.records import RunRecord
from earl.report.figures.canvas import grid, sheet
from earl.report.groups import Group
from earl.report.selection import command, only, panels, recorded

NEW, SOON = 4, 50  # the class, and the samples after its arrival, of the figure of methods
OLD, LATE = 0, 10_000  # the same of the figure of negative transformations
BOX = "#00A5C8"
# The order of the panels: that of the method's own list, which would import torch
NEGATIVES = ("rotation", "permutation", "cutmix", "noise")


@dataclass(frozen=True)
class Cosines:
    """Cosines (samples, classes) of samples of one class, some samples after its arrival."""

    values: np.ndarray
    of: int
    age: int

    @property
    def moment(self) -> str:
        samples = "sample" if self.age == 1 else "samples"
        return f"class {self.of}, {self.age:,} {samples} after its first"


def cosine(runs: Sequence[RunRecord], *, title: str = "", allow_mixed: bool = False) -> Figure:
    """Draw class 4, or one before it, 50 samples after it appeared: one panel per method.

    Only the newest class of an evaluation is recorded. Where several appear between two of them, as
    on a disjoint stream, another class is drawn: the last one up to class 4 that all runs have.
    """
    _, groups = only(panels(runs, allow_mixed=allow_mixed, reading="cosines", probe="cosines"))
    seed = common_seed(groups)
    shown = {group.row: group.runs.get(seed, group.one) for group in groups}
    c = newest_of(list(shown.values()), NEW)
    return draw({name: nearest(run, c, SOON) for name, run in shown.items()}, title)


def transforms(runs: Sequence[RunRecord], *, title: str = "", allow_mixed: bool = False) -> Figure:
    """Draw class 0, 10 000 samples after it appeared: one panel per negative transformation."""
    comparing = with_several_negatives(recorded(runs, "cosines", "cosines"))
    _, groups = only(panels(comparing, allow_mixed=allow_mixed))
    groups = sorted(groups, key=lambda g: (g.method, NEGATIVES.index(negative_of(g.one))))
    alone = len({negative_of(group.one) for group in groups}) == len(groups)
    seed = common_seed(groups)
    shown = {
        negative_of(group.one) if alone else group.row: group.runs.get(seed, group.one)
        for group in groups
    }
    c = newest_of(list(shown.values()), OLD)
    return draw({name: nearest(run, c, LATE) for name, run in shown.items()}, title)


def with_several_negatives(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the runs of methods that were run with more than one negative transformation."""
    preparing = [run for run in runs if run.settings.get("preparatory", False)]
    tried: dict[str, set[str]] = {}
    for run in preparing:
        tried.setdefault(run.experiment.method, set()).add(negative_of(run))
    several = [run for run in preparing if len(tried[run.experiment.method]) > 1]
    if not several:
        example = (preparing or runs)[0]
        done = tried.get(example.experiment.method, set())
        other = next(name for name in NEGATIVES if name not in done)
        raise DataNotFound(
            "this figure needs runs of one method with several negative transformations, and there "
            f"is {' or '.join(done) or 'no run with any'}; make more with, for example: "
            f"{command(example, 'cosines', method='' if done else 'earl', negative=other)}"
        )
    return several


def negative_of(run: RunRecord) -> str:
    return str(run.settings["negative"])


def common_seed(groups: Sequence[Group]) -> int:
    """Return the lowest seed that all groups have, or else the lowest of all."""
    seeds = [set(group.runs) for group in groups]
    return min(set.intersection(*seeds) or set.union(*seeds))


def newest_of(runs: Sequence[RunRecord], most: int) -> int:
    """Return the last class up to this one of which all runs have recorded cosines."""
    held = [{cosines.of for e in run.history for cosines in recorded_in(e)} for run in runs]
    if not (shared := [c for c in set.intersection(*held) if c <= most]):
        raise DataNotFound(
            f"the {len(runs)} runs have recorded cosines of no class up to {most} in common; "
            "evaluate more often (--set every=50), or choose runs with --where"
        )
    return max(shared)


def nearest(run: RunRecord, c: int, age: int) -> Cosines:
    """Return the cosines of class c that were recorded nearest to this many samples after it."""
    found = [cosines for e in run.history for cosines in recorded_in(e) if cosines.of == c]
    return min(found, key=lambda cosines: (abs(cosines.age - age), cosines.age))


def recorded_in(evaluation: Evaluation) -> list[Cosines]:
    """Return the cosines of all classes that an evaluation holds."""
    names = ("cosines", "cosine_classes", "cosine_ages")
    values, classes, ages = (np.atleast_1d(evaluation.extra.get(name, ())) for name in names)
    several = zip(values, classes.tolist(), ages.tolist(), strict=True)
    return [Cosines(of_class, c, since) for of_class, c, since in several]


def draw(shown: dict[str, Cosines], title: str) -> Figure:
    """Return panels side by side, four in a row; samples are sorted by their own class's cosine."""
    wide = min(4, len(shown))
    lines = -(-len(shown) // wide)
    moments = {cosines.moment for cosines in shown.values()}
    common = next(iter(moments)) if len(moments) == 1 else ""
    figure = sheet(1.2 + 2.1 * wide, 0.9 + 2.7 * lines, ": ".join(filter(None, (title, common))))
    axes = grid(figure, len(shown), wide)
    for number, (panel, (name, cosines)) in enumerate(zip(axes, shown.items(), strict=True)):
        image = show(panel, cosines)
        panel.set_title(name if common else f"{name}\n{cosines.moment}", fontsize=9)
        if number % wide == 0:
            panel.set_ylabel("test samples")
    bar = figure.colorbar(image, ax=axes, aspect=30, shrink=0.8)
    bar.set_label("cosine")
    bar.outline.set_visible(False)
    return figure


def show(axes: Axes, cosines: Cosines) -> AxesImage:
    """Draw the cosines of one class; a box marks those with its own vector."""
    order = np.argsort(-cosines.values[:, cosines.of], kind="stable")
    samples, classes = cosines.values.shape
    image = axes.imshow(
        cosines.values[order],
        aspect="auto",
        interpolation="nearest",
        cmap="RdBu_r",  # red and blue stay apart for colour-blind readers
        vmin=-1,
        vmax=1,
    )
    box = Rectangle((cosines.of - 0.5, -0.5), 1, samples, fill=False, edgecolor=BOX, linewidth=2.5)
    box.set_clip_on(False)
    axes.add_patch(box)
    step = -(-classes // 10)
    ticks = range(0, classes, step)
    axes.set_xticks(list(ticks), [f"$w_{{{c}}}$" for c in ticks])
    axes.set_yticks([])
    return image
