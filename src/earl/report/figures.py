"""Figures: one function each, from histories to a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from earl.history import Evaluation
from earl.metrics import a_auc

# Okabe and Ito's colours, then Tol's, which colour-blind readers can tell apart; a method keeps
# its own.
COLOURS = {
    "earl": "#D55E00",
    "er": "#0072B2",
    "er-memory-only": "#56B4E9",
    "vanilla-etf": "#009E73",
    "earl-no-pdt": "#CC79A7",
    "earl-no-rc": "#E69F00",
    "der++": "#000000",
    "x-der": "#7F7F7F",
    "er-mir": "#332288",
    "scr": "#117733",
    "ewc": "#AA4499",
    "memo": "#882255",
    "polrs": "#999933",
}


def accuracy_curves(histories: Mapping[str, Sequence[Evaluation]], title: str, path: Path) -> None:
    """Draw each method's accuracy on the classes seen so far over the stream, as a PNG."""
    figure = Figure(figsize=(7, 4.2), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name, history in histories.items():
        steps = [e.step for e in history]
        accuracy = [100 * e.accuracy for e in history]
        label = f"{name}   A_AUC {100 * a_auc(history):.1f} %"
        axes.plot(steps, accuracy, color=COLOURS.get(name), label=label, linewidth=2)
    longest = max(histories.values(), key=len)
    classes = axes.twinx()
    classes.step(
        [e.step for e in longest],
        [len(e.total) for e in longest],
        where="post",
        color="0.6",
        linewidth=1,
        linestyle=":",
    )
    classes.set_ylabel("classes seen (dotted)", color="0.45")
    classes.set_ylim(0, 1.05 * max(len(e.total) for e in longest))
    classes.tick_params(colors="0.45")
    classes.spines[["top"]].set_visible(False)
    axes.set_xlabel("samples learned")
    axes.set_ylabel("accuracy on the classes seen so far, %")
    axes.set_ylim(0, 102)
    axes.set_xlim(0, longest[-1].step)
    axes.spines[["top"]].set_visible(False)
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    axes.set_title(title, loc="left")
    axes.legend(loc="lower left", frameon=False)
    figure.savefig(path)
