"""One page about runs: tables, curves, budgets, settings and environment in a single file.

The page asks for nothing: plotly's script is in it. Equal runs give equal bytes.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from earl.errors import EarlError
from earl.experiments.runs.records import RunRecord
from earl.report.groups import column_of, group_runs
from earl.report.page import sections
from earl.report.page.charts import MOST_POINTS, Json, charts_of, legend_of, looks_of
from earl.report.page.grids import Grid, budget_grid, class_grid, progress_grid, result_grid
from earl.report.page.inventory import (
    Read,
    command_of,
    differing_grid,
    environment_of,
    settings_of,
    shared_grid,
)
from earl.report.page.markup import Html
from earl.report.tables.layout import legend
from earl.report.tables.table import DEFAULT_METRICS, Table, make_table
from earl.storage.files import replace_bytes

TITLE = "Online continual learning: runs and results"
PLACE = "\0"  # of plotly's script, which is longer than all the rest; no text keeps such a letter


def write_page(path: Path, runs: Sequence[RunRecord], **given: Any) -> None:
    """Write the page of `make_page`; it takes the place of an older one when it is complete."""
    page = make_page(runs, **given)
    try:
        replace_bytes(path, page)
    except OSError as error:
        raise EarlError(f"cannot write {path} ({error.strerror}); choose another -o") from error


def make_page(
    runs: Sequence[RunRecord],
    metrics: Sequence[str] = DEFAULT_METRICS,
    *,
    title: str = "",
    versus: str | None = None,
    paper: str | None = None,
    allow_mixed: bool = False,
) -> bytes:
    """Return a page on these runs as HTML; where none has ended it shows how far they are."""
    script = plotly_script()
    finished = [run for run in runs if run.finished]
    panels: list[Json] = []
    named: dict[str, Html] = {}
    if finished:
        made = make_table(
            runs, metrics, versus=versus, paper=paper, costs=True, allow_mixed=allow_mixed
        )
        panels, classes = drawn(finished, allow_mixed)
        named = outcomes(made, panels, classes)
    if len(finished) < len(runs):
        named["Progress"] = sections.progress(progress_grid(runs), bool(finished))
    named["Settings"] = sections.settings(*particulars(runs, settings_of, "Settings and data"))
    named["Environment"] = sections.environment(*particulars(runs, environment_of, "Environment"))
    named["Notes"] = sections.notes_of([(run.name, note) for run in runs for note in run.notes])
    named["Commands"] = sections.commands_of([(run.name, command_of(run)) for run in runs])
    scripts = sections.scripts_of(panels, PLACE)
    text = sections.page(title or TITLE, about(runs), named, scripts)
    return text.encode().replace(PLACE.encode(), script, 1)


def outcomes(made: Table, panels: Sequence[Json], classes: Sequence[Grid]) -> dict[str, Html]:
    """Return the sections about what runs have given."""
    grids = [result_grid(made, column) for column in made.columns]
    thinned = any(chart["thinned"] for panel in panels for chart in panel["charts"])
    return {
        "Results": sections.results(legend(made), grids, made.notes),
        "Curves": sections.curves(panels, MOST_POINTS if thinned else 0),
        "Classes": sections.by_class(classes),
        "Budgets": sections.budgets([budget_grid(made, column) for column in made.columns]),
    }


def drawn(finished: Sequence[RunRecord], allow_mixed: bool) -> tuple[list[Json], list[Grid]]:
    """Return charts with their legends, and the accuracy by class, for each data set and stream."""
    groups, _ = group_runs(finished, allow_mixed)
    look_of = looks_of(groups)
    panels: list[Json] = []
    classes: list[Grid] = []
    for number, column in enumerate(sorted({group.column for group in groups}), start=1):
        here = [group for group in groups if group.column == column]
        charts = charts_of(here, look_of, number)
        panels.append({"name": str(column), "legend": legend_of(here, look_of), "charts": charts})
        classes.append(class_grid(here))
    return panels, classes


def particulars(runs: Sequence[RunRecord], read: Read, what: str) -> tuple[Grid, Grid]:
    """Return what was not the same in all runs, and what was."""
    values = [read(run) for run in runs]
    return (
        differing_grid(runs, values, f"{what} that not all runs share"),
        shared_grid(values, f"{what} that all runs share"),
    )


def about(runs: Sequence[RunRecord]) -> str:
    """Say in a few sentences what the page is about."""
    methods = sorted({run.experiment.method for run in runs})
    places = sorted({column_of(run) for run in runs})
    seeds = sorted({run.experiment.seed for run in runs})
    damaged = sum(bool(run.damage) for run in runs)
    open_ones = sum(not run.finished for run in runs) - damaged
    if damaged:
        rest = f"; {open_ones} more have not ended" if open_ones else ""
        state = f"{damaged} of them {'is' if damaged == 1 else 'are'} damaged and left out{rest}."
    elif not open_ones:
        state = "It has ended." if len(runs) == 1 else "All have ended."
    elif open_ones == len(runs):
        state = "None has ended, so there is nothing to average yet."
    else:
        state = f"{open_ones} of them {'has' if open_ones == 1 else 'have'} not ended."
    return (
        f"{counted(len(runs), 'run')} of {counted(len(methods), 'method')} "
        f"({', '.join(methods)}) on {'; '.join(map(str, places))}, with "
        f"{'seed' if len(seeds) == 1 else 'seeds'} {ranges(seeds)}. {state}"
    )


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def ranges(numbers: Sequence[int]) -> str:
    """Return rising numbers as text; consecutive numbers become a range.

    >>> ranges([1, 2, 3, 7, 9, 10])
    '1–3, 7, 9, 10'
    """
    rows: list[list[int]] = []
    for n in numbers:
        if rows and n == rows[-1][-1] + 1:
            rows[-1].append(n)
        else:
            rows.append([n])
    texts = [f"{r[0]}–{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in rows]
    return ", ".join(texts)


def plotly_script() -> bytes:
    """Return plotly's own bundled script; the file is read without importing the package."""
    plotly = find_spec("plotly")
    if plotly is None or plotly.origin is None:
        raise EarlError('a report needs plotly; install it with: pip install "earl-learn[report]"')
    bundled = Path(plotly.origin).parent / "package_data" / "plotly.min.js"
    if bundled.is_file():
        return bundled.read_bytes()
    from plotly.offline import get_plotlyjs  # wherever else it keeps the script

    return str(get_plotlyjs()).encode()
