"""The figure of neural collapse: NC1, NC2 and NC3 over the stream."""

from collections.abc import Sequence
from itertools import chain

from matplotlib.figure import Figure

from earl.experiments.runs.records import RunRecord
from earl.report.figures.canvas import grid, legend_below, sheet
from earl.report.figures.curves import Plan, looks_of, show
from earl.report.selection import panels
from earl.report.series import reading_of

LABELS = {  # what each measure is about; all of them are 0 where collapse is complete
    "NC1": "NC1: spread within\nclasses ÷ between them",
    "NC2": "NC2: distance of means\nfrom equal angles",
    "NC3": "NC3: distance of means\nfrom class vectors",
}


def collapse(runs: Sequence[RunRecord], *, title: str = "", allow_mixed: bool = False) -> Figure:
    """Draw how far features have collapsed to the vectors of their classes: a row a measure."""
    of_column = panels(runs, allow_mixed=allow_mixed, reading="NC1", probe="collapse")
    wide = len(of_column)
    figure = sheet(6.4 if wide == 1 else 4.6 * wide, 0.2 + 2.3 * len(LABELS), title)
    axes = grid(figure, wide * len(LABELS), wide)
    of_row = looks_of(list(chain(*of_column.values())))
    shown = [(name, column) for name in LABELS for column in of_column]
    for panel, (name, column) in zip(axes, shown, strict=True):
        plan = Plan(reading_of(name), LABELS[name], percent=False, limits=(0.0, float("inf")))
        show(panel, of_column[column], of_row, plan, column)
        panel.set_ylim(bottom=0)
        if name != "NC1":
            panel.set_title("", loc="left")  # it stands above
        if name != "NC3":
            panel.set_xlabel("")
    legend_below(figure, axes)
    return figure
