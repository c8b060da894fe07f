"""The sections of a page, from its head to its scripts, as HTML."""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from earl.report.page.grids import Grid, Item
from earl.report.page.markup import Html, fill, lines, when

# Nothing may be fetched, not even by a mistake of ours. Pictures: plotly's "save as PNG".
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="earl report">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}
</style>
</head>
<body>
<a class="skip" href="#main">Skip to the results</a>
<header>
<h1>{title}</h1>
<p class="about">{about}</p>
<nav aria-label="Contents"><ul>
{contents}
</ul></nav>
<noscript><p class="hint">Curves and sorting need JavaScript; all tables can be read without.\
</p></noscript>
</header>
<main id="main">
{sections}
</main>
{scripts}
</body>
</html>
"""
PROGRESS = (
    "<p>No run has ended; averages and curves appear here once one has. Go on with "
    "<code>earl resume</code>.</p>"
)
SORTING = '<span class="screen"> Press a heading to sort by it.</span>'
CURVES = """\
<p class="hint">Lines are means over seeds, bands one standard deviation, within 0 and 100 %; \
dotted lines are task boundaries.
{thinned}<span class="screen"> Press a method to hide or show it\
<span class="mouse">; drag to zoom, double-click to go back</span>.</span></p>"""
PANEL = """\
<div class="panel" data-panel="{place}">
<h3>{name}</h3>
<div class="legend" role="group" aria-label="Methods shown, {name}">
{legend}
</div>
<div class="charts">
{charts}
</div>
</div>"""
LINE = """\
<button type="button" aria-pressed="true" data-line="{place}" \
style="--light:{light};--dark:{dark}">\
<span class="swatch {dash}" aria-hidden="true">{glyph}</span>{name} \
<small>({seeds}<span class="unseen"> {noun}</span>)</small></button>"""
CHART = """\
<figure>
<figcaption>{title}</figcaption>
<div class="chart" id="{id}" role="img" aria-label="{label}"></div>
</figure>"""
CLASSES = (
    '<p class="hint">Percent right at the end of the stream, mean over seeds; the stronger the '
    "colour, the worse. Classes have their number in the data set, and their name where runs have "
    "recorded it.</p>"
)
BUDGETS = (
    '<p class="hint">What learning has cost by the end of the stream, mean over seeds. The time is '
    "that of the machines the runs were on.</p>"
)
TABLE = """\
<div class="scroll" role="region" tabindex="0" aria-label="{caption}">
<table class="sortable {kind}{words}">
<caption>{caption}</caption>
<thead><tr>
{heads}
</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>"""
HEAD = (
    '<th scope="col"><button type="button">{head}<span class="arrow" aria-hidden="true"></span>'
    "</button></th>"
)


ORDER = (
    *("Results", "Progress", "Curves", "Classes", "Budgets"),
    *("Settings", "Environment", "Notes", "Commands"),
)
HEADINGS = {"Classes": "Accuracy by class", "Notes": "Notes of runs"}  # longer than their links
SECTION = """\
<section id="{name}" aria-labelledby="{name}-title">
<h2 id="{name}-title">{title}</h2>
{content}
</section>"""


def page(title: str, about: str, named: Mapping[str, Html], scripts: Html) -> str:
    """Return the whole page; of its sections, those without content are left out.

    >>> page("t", "a", {"Results": Html("<p>r</p>"), "Notes": Html()}, Html()).count("<section")
    1
    """
    there = {name: named[name] for name in ORDER if named.get(name)}
    links = sorted(there, key=lambda name: name != "Progress")  # which comes first
    link = '<li><a href="#{name}">{title}</a></li>'
    return fill(
        PAGE,
        policy=POLICY,
        title=title,
        style=own_file("page.css"),
        about=about,
        contents=lines(fill(link, name=name.lower(), title=name) for name in links),
        sections=lines(
            fill(SECTION, name=name.lower(), title=HEADINGS.get(name, name), content=content)
            for name, content in there.items()
        ),
        scripts=scripts,
    )


def results(legend: str, tables: Sequence[Grid], notes: Sequence[str]) -> Html:
    """Return the tables with what has to be known before believing them."""
    hint = fill('<p class="hint">{legend}{sorting}</p>', legend=legend, sorting=Html(SORTING))
    items = lines(fill("<li>{note}</li>", note=note) for note in notes)
    remarks = fill('<ul class="remarks">\n{items}\n</ul>', items=items)
    return lines([hint, *(table_of(grid, "results") for grid in tables), when(notes, remarks)])


def progress(grid: Grid, any_ended: bool) -> Html:
    """Return how far the runs are that have not ended."""
    return lines([when(not any_ended, Html(PROGRESS)), table_of(grid, "states")])


def curves(panels: Sequence[Mapping[str, Any]], thinned: int) -> Html:
    """Return a place for every chart, with legends that a keyboard can reach."""
    few = fill(" Each curve shows {thinned} of its evaluations, evenly chosen.\n", thinned=thinned)
    hint = fill(CURVES, thinned=when(thinned, few))
    return lines([hint, *(panel_of(panel, place) for place, panel in enumerate(panels))])


def panel_of(panel: Mapping[str, Any], place: int) -> Html:
    named = (
        fill(LINE, place=n, noun="seed" if line["seeds"] == 1 else "seeds", **line)
        for n, line in enumerate(panel["legend"])
    )
    charts = (fill(CHART, **chart) for chart in panel["charts"])
    return fill(PANEL, place=place, name=panel["name"], legend=lines(named), charts=lines(charts))


def by_class(grids: Sequence[Grid]) -> Html:
    return lines([Html(CLASSES), *(table_of(grid, "heat") for grid in grids)])


def budgets(grids: Sequence[Grid]) -> Html:
    return lines([Html(BUDGETS), *(table_of(grid, "budgets") for grid in grids)])


def settings(differing: Grid, shared: Grid) -> Html:
    """Return the settings that can be opened: first those in which runs differ."""
    details = "<details{open}><summary>{caption}</summary>\n{table}\n</details>"
    count = f"{shared.caption} ({len(shared.rows)})"
    one = fill(details, open=" open", caption=differing.caption, table=table_of(differing))
    two = fill(details, open="", caption=count, table=table_of(shared))
    return lines([when(differing.rows, one), when(shared.rows, two)])


def environment(differing: Grid, shared: Grid) -> Html:
    return lines(table_of(grid) for grid in (differing, shared) if grid.rows)


def notes_of(notes: Sequence[tuple[str, str]]) -> Html:
    """Return what runs have noted, or nothing."""
    item = "<li><code>{run}</code> {note}</li>"
    items = lines(fill(item, run=run, note=note) for run, note in notes)
    return when(notes, fill('<ul class="remarks">\n{items}\n</ul>', items=items))


def commands_of(commands: Sequence[tuple[str, str]]) -> Html:
    """Return the command of every run, to be opened."""
    item = "<dt>{run}</dt><dd><code>{command}</code></dd>"
    items = lines(fill(item, run=run, command=command) for run, command in commands)
    return fill(
        "<details><summary>The command of every run ({count})</summary>\n"
        '<dl class="commands">\n{items}\n</dl>\n</details>',
        count=len(commands),
        items=items,
    )


def scripts_of(panels: Sequence[Mapping[str, Any]], plotly: str) -> Html:
    """Return what draws the charts, their data, and the script of the page."""
    return lines(
        [
            when(panels, fill("<script>{plotly}</script>", plotly=Html(plotly))),
            fill(
                '<script type="application/json" id="panels">{panels}</script>',
                panels=script_json(panels),
            ),
            fill("<script>\n{script}\n</script>", script=own_file("page.js")),
        ]
    )


def script_json(value: Any) -> Html:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Html(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def table_of(grid: Grid, kind: str = "") -> Html:
    """Return a table that can be sorted by the numbers behind its texts."""
    return fill(
        TABLE,
        caption=grid.caption,
        kind=kind,
        words="" if grid.numeric else " words",
        heads=lines(fill(HEAD, head=head) for head in grid.heads),
        rows=lines(row_of(row) for row in grid.rows),
    )


def row_of(row: Sequence[Item]) -> Html:
    first, *others = row
    named = fill('<th scope="row"{about}>{text}</th>', about=about_item(first), text=first.text)
    cell = "<td{about}>{text}</td>"
    cells = (fill(cell, about=about_item(item), text=item.text) for item in others)
    return fill("<tr>\n{cells}\n</tr>", cells=lines([named, *cells]))


def about_item(item: Item) -> Html:
    """Return the number behind a text, and its colour, where it has them."""
    value = when(item.value is not None, fill(' data-value="{value}"', value=item.value))
    heat = when(item.heat is not None, fill(' style="--heat:{heat}%"', heat=item.heat))
    return Html(value + heat)


def own_file(name: str) -> Html:
    return Html(files("earl.report.page").joinpath(name).read_text(encoding="utf-8").rstrip("\n"))
