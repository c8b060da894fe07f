"""One page about runs: tables, curves, budgets, settings and environment in a single file.

The page asks for nothing: plotly's script is in it. Equal runs give equal bytes.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from earl.errors import EarlError
from earl.experiments.runs.records import RunRecord
from earl.report.groups import column_of, group_runs
from earl.report.page.charts import MOST_POINTS, charts_of, legend_of, looks_of
from earl.report.page.grids import Grid, budget_grid, class_grid, progress_grid, result_grid
from earl.report.page.inventory import (
    Read,
    command_of,
    differing_grid,
    environment_of,
    settings_of,
    shared_grid,
)
from earl.report.tables.layout import legend
from earl.report.tables.table import DEFAULT_METRICS, make_table
from earl.storage.files import replace_text
from earl.storage.printable import printable

# Nothing may be fetched, not even by a mistake of ours. Pictures: plotly's "save as PNG".
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def write_page(path: Path, runs: Sequence[RunRecord], **given: Any) -> None:
    """Write the page of `make_page`; it takes the place of an older one when it is complete."""
    text = make_page(runs, **given)
    try:
        replace_text(path, text)
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
) -> str:
    """Return a page on these runs as HTML; where none has ended it shows how far they are."""
    script = plotly_script()
    finished = [run for run in runs if run.finished]
    results: dict[str, Any] = {}
    if finished:
        made = make_table(
            runs, metrics, versus=versus, paper=paper, costs=True, allow_mixed=allow_mixed
        )
        results = {
            "tables": [result_grid(made, column) for column in made.columns],
            "legend": legend(made),
            "table_notes": made.notes,
            "budgets": [budget_grid(made, column) for column in made.columns],
            **curves_of(finished, allow_mixed),
        }
    return render(
        title=title or "Online continual learning: runs and results",
        about=about(runs),
        progress=progress_grid(runs) if len(finished) < len(runs) else None,
        **results,
        settings=particulars(runs, settings_of, "Settings and data"),
        environment=particulars(runs, environment_of, "Environment"),
        notes=[(run.name, note) for run in runs for note in run.notes],
        commands=[(run.name, command_of(run)) for run in runs],
        policy=POLICY,
        plotly=script,
    )


def curves_of(finished: Sequence[RunRecord], allow_mixed: bool) -> dict[str, Any]:
    """Return charts, their legends and the accuracy by class, for each data set and stream."""
    groups, _ = group_runs(finished, allow_mixed)
    look_of = looks_of(groups)
    panels: list[dict[str, Any]] = []
    classes: list[Grid] = []
    for number, column in enumerate(sorted({group.column for group in groups}), start=1):
        here = [group for group in groups if group.column == column]
        charts = charts_of(here, look_of, number)
        panels.append({"name": str(column), "legend": legend_of(here, look_of), "charts": charts})
        classes.append(class_grid(here))
    thinned = any(chart["thinned"] for panel in panels for chart in panel["charts"])
    return {"panels": panels, "classes": classes, "thinned": MOST_POINTS if thinned else 0}


def particulars(runs: Sequence[RunRecord], read: Read, what: str) -> dict[str, Grid]:
    """Return what was not the same in all runs, and what was."""
    return {
        "differing": differing_grid(runs, read, f"{what} that not all runs share"),
        "shared": shared_grid(runs, read, f"{what} that all runs share"),
    }


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


def render(**content: Any) -> str:
    """Fill the template; every text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("earl.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["script_json"] = script_json
    environment.finalize = fit
    empty = {"tables": [], "panels": [], "classes": [], "budgets": [], "thinned": 0}
    template = environment.get_template("page.html.jinja")
    return template.render(**(empty | {"legend": "", "table_notes": ()} | content))


def fit(value: Any) -> Any:
    """Return a value of the template; a text that was not made by us is made printable."""
    return printable(value) if type(value) is str else value


def script_json(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    from markupsafe import Markup

    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def plotly_script() -> str:
    """Return plotly's own bundled script."""
    try:
        import jinja2  # noqa: F401
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise EarlError(
            'a report needs plotly and Jinja2; install them with: pip install "earl-learn[report]"'
        ) from None
    script: str = get_plotlyjs()
    return script
