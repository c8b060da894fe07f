"""Curves of a page: what plotly is to draw, as plain data."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, TypeAlias

from earl.report.figures.colours import Look, looks
from earl.report.groups import Column, Group
from earl.report.series import Read, accuracy, moving_average, over_seeds, window
from earl.report.statistics import Spread

MOST_POINTS = 300  # points of one curve; a screen shows no more
MOST_BOUNDARIES = 50
DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
SYMBOLS = {
    "o": ("circle", "●"),
    "s": ("square", "■"),
    "D": ("diamond", "◆"),
    "^": ("triangle-up", "▲"),
    "v": ("triangle-down", "▼"),
    "P": ("cross", "✚"),
    "X": ("x", "✖"),
    "<": ("triangle-left", "◀"),
    ">": ("triangle-right", "▶"),
    "p": ("pentagon", "⬟"),
    "h": ("hexagon", "⬢"),
    "d": ("diamond-tall", "♦"),
    "*": ("star", "★"),
    "8": ("circle-open", "○"),
}
BAND = 0.18  # opacity
LEAST_LIGHT = 0.2  # least luminance of a line on a dark page

Json: TypeAlias = dict[str, Any]


def charts_of(groups: Sequence[Group], look_of: Mapping[str, Look], number: int) -> list[Json]:
    """Return the charts of one stream: accuracy on the exam, and on samples as they arrive."""
    column, arriving = groups[0].column, window(groups[0].one)
    online = f"Accuracy on the last {arriving:,} arriving samples"
    kinds: list[tuple[str, str, Read]] = [
        ("accuracy", "Accuracy on classes seen so far", accuracy),
        ("online", online, moving_average),
    ]
    return [
        chart(f"{name}-{number}", title, column, groups, look_of, read)
        for name, title, read in kinds
    ]


def chart(
    identity: str,
    title: str,
    column: Column,
    groups: Sequence[Group],
    look_of: Mapping[str, Look],
    read: Read,
) -> Json:
    """Return one chart: for each group the mean over seeds, and a band of one deviation around."""
    curves = [over_seeds(group, read) for group in groups]
    shown = [thin(curve) for curve in curves]
    ends = [
        f"{group.row} {list(curve.values())[-1].mean:.1f} %"
        for group, curve in zip(groups, curves, strict=True)
        if curve
    ]
    traces = [
        trace
        for place, (group, curve) in enumerate(zip(groups, shown, strict=True))
        for trace in traces_of(group.row, curve, look_of[group.row], place)
    ]
    last = max(group.one.samples for group in groups)
    return {
        "id": identity,
        "title": title,
        "label": f"{title}, {column}. At the end: {', '.join(ends)}.",
        "thinned": max((len(curve) for curve in curves), default=0) > MOST_POINTS,
        "traces": traces,
        "layout": layout(last, groups[0].one.boundaries),
    }


def thin(curve: Mapping[int, Spread]) -> dict[int, Spread]:
    """Return at most 300 points of a curve, evenly chosen, with its first and its last."""
    steps = list(curve)
    if len(steps) > MOST_POINTS:
        last = len(steps) - 1
        steps = [steps[round(i * last / (MOST_POINTS - 1))] for i in range(MOST_POINTS)]
    return {step: curve[step] for step in steps}


def traces_of(row: str, curve: Mapping[int, Spread], look: Look, place: int) -> list[Json]:
    """Return the line of a group and, where there are several seeds, the band behind it."""
    steps = list(curve)
    means = [round(s.mean, 2) for s in curve.values()]
    stds = [None if s.std is None else round(s.std, 2) for s in curve.values()]
    symbol = SYMBOLS[look.mark][0] if look.mark else None
    spread_text = " ± %{customdata:.1f}" if any(std is not None for std in stds) else ""
    line = {
        "type": "scatter",
        "mode": "lines+markers" if symbol or len(steps) == 1 else "lines",
        "name": escape(row, quote=False),  # plotly reads tags in it
        "x": steps,
        "y": means,
        "customdata": stds,
        "hovertemplate": f"%{{y:.1f}}{spread_text} %",
        "line": {"color": look.colour, "dash": DASHES[look.dash], "width": 2},
        "marker": {"symbol": symbol or "circle", "size": 7, "maxdisplayed": 9},
        "meta": {"line": place, "colours": [look.colour, on_dark(look.colour)]},
    }
    if not spread_text:
        return [line]
    bands = [s.band(0.0, 100.0) for s in curve.values()]
    low, high = [round(b[0], 2) for b in bands], [round(b[1], 2) for b in bands]
    fills = [see_through(look.colour), see_through(on_dark(look.colour))]
    band = {
        "type": "scatter",
        "mode": "none",
        "x": [*steps, *reversed(steps)],
        "y": [*high, *reversed(low)],
        "fill": "toself",
        "fillcolor": fills[0],
        "hoverinfo": "skip",
        "meta": {"line": place, "fills": fills},
    }
    return [band, line]


def layout(last: int, boundaries: Sequence[int]) -> Json:
    """Return the axes; a line stands where the classes of the stream change."""
    shown = boundaries if len(boundaries) <= MOST_BOUNDARIES else ()
    return {
        "margin": {"l": 44, "r": 12, "t": 28, "b": 44},
        "height": 340,
        "showlegend": False,  # the page has one that a keyboard can reach
        "hovermode": "x unified",
        "xaxis": {"title": {"text": "samples learned"}, "range": [0, last], "tickformat": ",d"},
        "yaxis": {"title": {"text": "%"}, "range": [0, 101]},
        "shapes": [
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": step,
                "x1": step,
                "y0": 0,
                "y1": 1,
                "layer": "below",
                "line": {"width": 1, "dash": "dot"},
            }
            for step in shown
        ],
    }


def legend_of(groups: Sequence[Group], look_of: Mapping[str, Look]) -> list[Json]:
    """Return what the page's legend shows of each line."""
    return [
        {
            "name": group.row,
            "seeds": len(group.runs),
            "light": look_of[group.row].colour,
            "dark": on_dark(look_of[group.row].colour),
            "dash": DASHES[look_of[group.row].dash],
            "glyph": SYMBOLS[look_of[group.row].mark][1] if look_of[group.row].mark else "",
        }
        for group in groups
    ]


def looks_of(groups: Sequence[Group]) -> dict[str, Look]:
    """Return how each row is drawn, the same in all charts of a page."""
    methods = {group.row: group.method for group in groups}
    return dict(zip(methods, looks(list(methods.values())), strict=True))


def on_dark(colour: str) -> str:
    """Return a colour that can be seen on a dark page: greys are inverted, others lightened.

    >>> on_dark("#000000"), on_dark("#E69F00"), on_dark("#332288")
    ('#FFFFFF', '#E69F00', '#857AB8')
    """
    rgb = channels(colour)
    if len(set(rgb)) == 1:
        rgb = [255 - c for c in rgb]
    else:
        share = next(s / 20 for s in range(21) if luminance(lighter(rgb, s / 20)) >= LEAST_LIGHT)
        rgb = lighter(rgb, share)
    return "#" + "".join(f"{c:02X}" for c in rgb)


def see_through(colour: str) -> str:
    return f"rgba({', '.join(map(str, channels(colour)))}, {BAND})"


def channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def lighter(rgb: Sequence[int], share: float) -> list[int]:
    """Return a mixture with this share of white."""
    return [round(c + (255 - c) * share) for c in rgb]


def luminance(rgb: Sequence[int]) -> float:
    """Return the relative luminance of an sRGB colour, from 0 (black) to 1 (white)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in by_255(rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def by_255(rgb: Sequence[int]) -> list[float]:
    return [c / 255 for c in rgb]
