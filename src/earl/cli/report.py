"""The commands `earl table`, `figure`, `report` and `export`: from runs to what is printed."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from earl.cli.options import (
    AllowMixed,
    BesidePaper,
    Folders,
    Json,
    Metrics,
    PaperTable,
    Versus,
    Where,
)
from earl.cli.output import keep_fonts, writable
from earl.cli.text import answer, complain, put
from earl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from earl.experiments.runs.records import RunRecord
    from earl.report.tables import Table

DAMAGED = 65  # the exit code where a snapshot, or a run, is not what was written
UNSEALED = "have no seals, as in earlier versions: damage to them would go unseen"


def chosen(folders: list[Path], where: list[str] | None) -> "list[RunRecord]":
    """Return the runs in the folders that fit; DamagedRun if none of them can be believed."""
    from earl.errors import DamagedRun
    from earl.experiments.runs.records import choose_runs, find_runs

    runs = choose_runs(find_runs(folders), where or [])
    if all(run.damage for run in runs):
        others = f" (and so are {len(runs) - 1} more runs)" if len(runs) > 1 else ""
        raise DamagedRun(runs[0].damage + others)
    return runs


def settle(runs: "Sequence[RunRecord]") -> None:
    """Say which runs could not be checked; if damaged ones were left out, exit with 65."""
    old = sum(not run.sealed for run in runs)
    if old:
        complain(f"note: {old} of {len(runs)} runs {UNSEALED}")
    damaged = [run for run in runs if run.damage]
    for run in damaged:
        complain(f"earl: left out as damaged: {run.damage}")
    if damaged:
        raise typer.Exit(DAMAGED)


class TableFormat(StrEnum):
    """How a table can be written."""

    terminal = "terminal"
    md = "md"
    latex = "latex"
    csv = "csv"
    json = "json"


class ExportFormat(StrEnum):
    """What histories can be written as; onnx is for a model, taught for what a service learned."""

    csv = "csv"
    parquet = "parquet"
    tensorboard = "tensorboard"
    records = "records"
    onnx = "onnx"
    taught = "taught"


def table(
    folders: Folders,
    metric: Metrics = None,
    versus: Versus = None,
    beside_paper: BesidePaper = False,
    paper_table: PaperTable = None,
    costs: Annotated[bool, typer.Option("--costs", help="Add what learning has cost.")] = False,
    where: Where = None,
    allow_mixed: AllowMixed = False,
    fmt: Annotated[
        TableFormat | None,
        typer.Option("--format", help="Unless given: terminal on a terminal, md elsewhere."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
) -> None:
    """Average finished runs over seeds, in a table.

    Methods in rows, data sets and streams in columns.
    """
    from earl.report.tables.table import default_metrics, make_table

    paper = paper_table or ("main" if beside_paper else None)
    runs = chosen(folders, where)
    made = make_table(
        runs,
        metric or default_metrics(paper),
        versus=versus,
        paper=paper,
        costs=costs,
        allow_mixed=allow_mixed,
    )
    print_table(made, TableFormat.json if as_json else fmt)
    settle(runs)


def print_table(made: "Table", form: TableFormat | None) -> None:
    """Print a table; unless a form is given, choose the one that suits where it goes."""
    from earl.report.tables.formats import FORMATS

    if form is None:
        form = TableFormat.terminal if sys.stdout.isatty() else TableFormat.md
    if form is TableFormat.terminal:
        print_in_colour(made)
    else:
        put(FORMATS[form](made))
    if form is TableFormat.csv:  # it has no room for them
        for note in made.notes:
            complain(f"note: {note}")


def print_in_colour(made: "Table") -> None:
    """Print a table for a terminal, with rich, which takes as long to import as all the rest."""
    from rich.console import Console

    from earl.report.tables.terminal import show_table

    show_table(made, Console(highlight=False))


def figure(
    name: Annotated[str, typer.Argument(help="See: earl list figures")],
    folders: Folders,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A .png, .svg or .pdf; NAME.png unless given."),
    ] = None,
    where: Where = None,
    title: Annotated[str, typer.Option(help="Stands above the picture.")] = "",
    allow_mixed: AllowMixed = False,
    as_json: Json = False,
) -> None:
    """Draw a figure from finished runs."""
    from earl.experiments.catalogue import FIGURES

    FIGURES.entry(name)
    keep_fonts()
    from earl.report.figures.canvas import check_picture, save
    from earl.report.notes import left_out

    path = writable(out or Path(f"{name}.png"))
    check_picture(path)
    runs = chosen(folders, where)
    save(FIGURES[name](runs, title=title, allow_mixed=allow_mixed), path)
    for note in left_out(runs):
        complain(f"note: {note}")
    answer(as_json, {"figure": name, "runs": len(runs), "picture": str(path)}, str(path))
    settle(runs)


def report(
    folders: Folders,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    metric: Metrics = None,
    versus: Versus = None,
    beside_paper: BesidePaper = False,
    paper_table: PaperTable = None,
    where: Where = None,
    title: Annotated[str, typer.Option(help="Stands at the top of the page.")] = "",
    allow_mixed: AllowMixed = False,
    as_json: Json = False,
) -> None:
    """Write one HTML page about runs, which needs no network.

    Tables, curves, budgets, settings, environment and commands.
    """
    from earl.report.page import write_page
    from earl.report.tables.table import default_metrics

    runs = chosen(folders, where)
    paper = paper_table or ("main" if beside_paper else None)
    write_page(
        writable(out),
        runs,
        metrics=metric or default_metrics(paper),
        title=title,
        versus=versus,
        paper=paper,
        allow_mixed=allow_mixed,
    )
    finished = sum(run.finished for run in runs)
    answer(as_json, {"page": str(out), "runs": len(runs), "finished": finished}, str(out))
    settle(runs)


def export(
    to: Annotated[ExportFormat, typer.Argument(help="What to write.")],
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders with run directories, or a model.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The folder to write to, or the ONNX or parquet file."),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="The folder of a service, for what it was taught.")
    ] = None,
    where: Where = None,
    as_json: Json = False,
) -> None:
    """Write histories as CSV, parquet or records; a model as ONNX; what a service was taught."""
    if to is ExportFormat.taught:
        export_taught(state, out or Path("taught"), as_json)
    elif not folders:
        raise InvalidInput(f"{to} needs folders with runs, or the folder of a model")
    elif to is ExportFormat.onnx:
        export_model(folders, out, as_json)
    else:
        export_runs(to, chosen(folders, where), out or Path("export"), as_json)


def export_runs(to: ExportFormat, runs: "list[RunRecord]", out: Path, as_json: bool) -> None:
    """Write the histories of runs."""
    from earl.report.export import (
        export_csv,
        export_parquet,
        export_records,
        export_tensorboard,
    )

    write = {
        "csv": export_csv,
        "parquet": export_parquet,
        "tensorboard": export_tensorboard,
        "records": export_records,
    }[to]
    whole = [run for run in runs if not run.damage]
    paths = write(whole, out)
    lines = [str(path) for path in paths]
    lines += [f"Next: tensorboard --logdir {out}"] if to is ExportFormat.tensorboard else []
    facts = {"runs": len(whole), "written": [path.as_posix() for path in paths]}
    answer(as_json, facts, *lines)
    settle(runs)


def export_taught(state: Path | None, out: Path, as_json: bool) -> None:
    """Write every image and label that a service was taught, as folders or as a parquet file."""
    from earl.service.exporting import export_folders, export_parquet, opened

    if state is None:
        raise InvalidInput("taught needs the folder of a service: --state ...")
    journal = opened(state)
    if out.suffix == ".parquet":
        count = export_parquet(journal, writable(out))
    else:
        count = export_folders(journal, out)
    journal.close()
    facts = {"state": str(state), "samples": count, "written": [out.as_posix()]}
    answer(as_json, facts, f"{out}: {count} samples")


def export_model(folders: list[Path], out: Path | None, as_json: bool) -> None:
    """Write the model of `earl learn` as an ONNX file."""
    from earl.estimator import EARLClassifier

    if len(folders) != 1:
        raise InvalidInput(f"onnx takes one model, not {len(folders)}")
    file = writable(out or Path(f"{folders[0].resolve().name}.onnx"))
    EARLClassifier.load(folders[0]).export_onnx(file)
    answer(as_json, {"model": str(folders[0]), "written": [file.as_posix()]}, str(file))
