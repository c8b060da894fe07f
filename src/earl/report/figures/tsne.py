"""The t-SNE figure: how the features of new classes lie among those of old ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from earl.errors import DataNotFound, EarlError
from earl.evaluation.history import Evaluation
from earl.experiments.runs.records import RunRecord
from earl.report.figures.canvas import grid, legend_below, sheet
from earl.report.selection import command, panels

EARLY, LATE = 100, 10_000  # samples after the newest of the classes shown has appeared
COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00")  # of classes: two blue, two orange
MARKS = "osD^"
PERPLEXITY = 30


@dataclass(frozen=True)
class Cloud:
    """Features (samples, dimensions) of some classes, some samples after the newest of them."""

    features: np.ndarray
    classes: np.ndarray
    age: int

    @classmethod
    def of(cls, evaluation: Evaluation) -> "Cloud":
        extra = evaluation.extra
        age = evaluation.numbers["feature_age"]
        features, classes = (np.asarray(extra[name]) for name in ("features", "feature_classes"))
        return cls(features, classes, int(age))

    def places(self) -> np.ndarray:
        """Return a point in the plane for each sample, (samples, 2), by exact t-SNE."""
        try:
            from sklearn.manifold import TSNE
        except ModuleNotFoundError:
            raise EarlError(
                't-SNE needs scikit-learn; install it with: pip install "earl-learn[tsne]"'
            ) from None
        perplexity = min(PERPLEXITY, (len(self.features) - 1) / 3)
        method = TSNE(perplexity=perplexity, init="pca", method="exact", random_state=0)
        points: np.ndarray = method.fit_transform(self.features)
        return points


def tsne(runs: Sequence[RunRecord], *, title: str = "", allow_mixed: bool = False) -> Figure:
    """Draw each method twice: soon after the newest of the first four classes came, and later."""
    of_column = panels(runs, allow_mixed=allow_mixed, reading="features", probe="features")
    groups = [group for several in of_column.values() for group in several]
    figure = sheet(6.4, 0.3 + 3.0 * len(groups), title)
    axes = grid(figure, 2 * len(groups), 2)
    for number, group in enumerate(groups):
        name = f"{group.row} on {group.column}" if len(of_column) > 1 else group.row
        for panel, cloud in zip(axes[2 * number :], early_and_late(group.one), strict=False):
            show(panel, cloud)
            panel.set_title(f"{name}\n{cloud.age:,} samples after class {cloud.classes.max()}")
            panel.title.set_fontsize(9)
    legend_below(figure, axes)
    return figure


def early_and_late(run: RunRecord) -> tuple[Cloud, Cloud]:
    """Return the features recorded nearest to 100 and to 10 000 samples after the newest class.

    Where less than 1 000 samples follow, a tenth of them stands for the 100.
    """
    clouds = [Cloud.of(e) for e in run.history if "features" in e.extra]
    most = max(len(set(cloud.classes)) for cloud in clouds)
    full = [cloud for cloud in clouds if len(set(cloud.classes)) == most]
    late = min(full, key=lambda cloud: (abs(cloud.age - LATE), cloud.age))
    soon = min(EARLY, late.age // 10)
    early = min(full, key=lambda cloud: (abs(cloud.age - soon), cloud.age))
    if early.age == late.age:
        raise DataNotFound(
            f"{run.path} has recorded features only once since class {most - 1} appeared; record "
            f"more with: {command(run, every=max(1, run.history[0].step // 10))}"
        )
    return early, late


def show(axes: Axes, cloud: Cloud) -> None:
    points = cloud.places()
    for c in sorted(set(cloud.classes.tolist())):
        x, y = points[cloud.classes == c].T
        axes.scatter(
            x,
            y,
            s=18,
            color=COLOURS[c],
            marker=MARKS[c],
            label=f"class {c}",
            alpha=0.8,
            linewidth=0,
        )
    axes.set_xticks([])  # t-SNE keeps neighbourhoods, not distances
    axes.set_yticks([])
