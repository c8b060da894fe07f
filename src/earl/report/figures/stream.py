"""The figure of the stream itself: which class arrives when."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import Run
from earl.report.figures.selection import only
from earl.report.figures.streampicture import picture
from earl.report.groups import Group, column_of


def stream(runs: Sequence[Run], *, title: str = "", allow_mixed: bool = False) -> Figure:
    """Draw the stream that runs went through; of several seeds, that of the lowest.

    This is the one figure that needs the data set: histories do not name the samples.
    """
    columns = sorted({column_of(run) for run in runs})
    column, _ = only({column: list[Group]() for column in columns})
    run = min(runs, key=lambda run: run.experiment.seed)
    dataset = RunDirectory(run.path).load()
    schedule = run.experiment.schedule(dataset)
    labels = dataset.train.labels[schedule.order]
    named = title or f"{column}, seed {run.experiment.seed}"
    return picture(labels, schedule, dataset.titles, named)
