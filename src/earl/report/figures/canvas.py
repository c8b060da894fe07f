"""What all figures share: their type, the sheet they are drawn on, and the file they become."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Protocol

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from earl.errors import InvalidSetting
from earl.experiments.runs.records import RunRecord

# A picture of equal runs has equal bytes: no dates. Fonts that journals accept go into a PDF.
UNDATED: dict[str, dict[str, None]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
GREY = "0.4"
PER_INCH = 14.5  # letters of a legend
PER_INCH_OF_TITLE = 11
LINE = 0.195  # inches


class Draw(Protocol):
    """A figure by its name: draws runs."""

    def __call__(
        self, runs: Sequence[RunRecord], *, title: str = "", allow_mixed: bool = False
    ) -> Figure: ...


def sheet(width: float, height: float, title: str = "") -> Figure:
    """Return an empty figure of this size in inches."""
    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def grid(figure: Figure, count: int, columns: int, *, share: bool = False) -> list[Axes]:
    """Return this many axes in rows of `columns`; with `share`, all have the same vertical axis."""
    lines = -(-count // columns)
    panels: list[Axes] = []
    for number in range(count):
        other = panels[0] if share and panels else None
        panels.append(figure.add_subplot(lines, columns, number + 1, sharey=other))
    return panels


def plain(axes: Axes, title: str = "") -> None:
    """Take away what a reader does not need, and name the panel."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    place = axes.get_subplotspec()
    beside = place.get_gridspec().ncols if place else 1
    letters = int(PER_INCH_OF_TITLE * figure_of(axes).get_figwidth() / beside)
    axes.set_title(fill(title, letters), loc="left", fontsize=10)


def figure_of(axes: Axes) -> Figure:
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure


def count_samples(axes: Axes, last: int) -> None:
    """Let the horizontal axis count samples from 0 to the last."""
    axes.set_xlim(0, last)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("samples learned")


def legend_below(figure: Figure, panels: Sequence[Axes]) -> None:
    """Name each line once, below the panels; the sheet grows by the space that this takes."""
    named: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    widest = max(map(len, named), default=0)
    columns = min(len(named), max(1, int(figure.get_figwidth() * PER_INCH / (widest + 8))))
    lines = -(-len(named) // columns)
    figure.set_figheight(figure.get_figheight() + LINE * lines)  # it takes no room from them
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
    )


def check_picture(path: Path) -> None:
    """Raise unless the name is that of a picture we can write."""
    if path.suffix.lower() not in UNDATED:
        raise InvalidSetting(f"{path} must end in .png, .pdf or .svg to be a picture")


def save(figure: Figure, path: Path, facts: Mapping[str, str] | None = None) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of the name; a PNG may hold facts."""
    check_picture(path)
    if path.suffix.lower() == ".png":
        # savefig would draw it twice
        FigureCanvasAgg(figure).print_png(path, metadata=facts)  # type: ignore[no-untyped-call]
        return
    with rc_context(rc={"svg.hashsalt": "earl", "pdf.fonttype": 42}):
        figure.savefig(path, metadata=UNDATED[path.suffix.lower()])
