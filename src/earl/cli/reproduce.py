"""The command `earl reproduce`: the paper's tables and figures by name, and how far we are."""

import sys
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from earl.cli import sweep as cli_sweep
from earl.cli.options import CacheRoot, DataRoot, Device, DryRun, Json, Out, Threads
from earl.cli.text import answer, plain_table, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from earl.report.ledger import Line

SMALL = "-small"
FIGURE = "fig-"


class Scale(StrEnum):
    paper = "paper"
    small = "small"


Reproduced = Annotated[
    str | None, typer.Argument(help="A table or figure of the paper; without one, all are listed.")
]
Size = Annotated[Scale, typer.Option(help="The paper's own settings, or a size for CPUs.")]
WithCost = Annotated[
    bool, typer.Option("--cost", help="Run nothing: what the runs take, in FLOPs and hours.")
]
Sustained = Annotated[
    float, typer.Option(min=0.001, help="With --cost: what the device sustains, in TFLOP/s.")
]


def reproduce(
    name: Reproduced = None,
    scale: Size = Scale.paper,
    status: Annotated[
        bool, typer.Option("--status", help="Run nothing: the paper's numbers beside ours.")
    ] = False,
    cost: WithCost = False,
    tflops: Sustained = 10.0,
    out: Out = Path("runs"),
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at a time.")] = None,
    threads: Threads = None,
    device: Device = "auto",
    data_root: DataRoot = None,
    cache_root: CacheRoot = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Run a table or figure of the paper, or tell how far we are."""
    if status:
        print_ledger(name, out, as_json)
    elif cost:
        print_costs(name, scale, tflops, as_json)
    elif name is None:
        print_names(as_json)
    else:
        cli_sweep.sweep(
            file_of(name, scale),
            out=out,
            workers=workers,
            threads=threads,
            device=device,
            data_root=data_root,
            cache_root=cache_root,
            dry_run=dry_run,
            as_json=as_json,
        )


def file_of(name: str, scale: Scale) -> str:
    """Return the name of the sweep file for a table or figure in one of its two sizes."""
    from earl.errors import UnknownName, suggest

    if name not in (known := files()):
        raise UnknownName(f"no table or figure named {name!r}; {suggest(name, tuple(known))}")
    return name + (SMALL if scale is Scale.small else "")


def files() -> dict[str, Path]:
    """Return the files of all tables and figures: those that come in both sizes."""
    from earl.experiments.sweeps.sweepfile import bundled

    found = bundled()
    return {name: path for name, path in found.items() if name + SMALL in found}


def print_names(as_json: bool) -> None:
    titles = {n: tomllib.loads(p.read_text(encoding="utf-8"))["title"] for n, p in files().items()}
    lines = [f"  {name:<20} {title}" for name, title in titles.items()]
    more = "earl reproduce NAME [--scale small] runs one; --status tells how far we are with each."
    answer(as_json, titles, *lines, "", more)


def print_costs(name: str | None, scale: Scale, tflops: float, as_json: bool) -> None:
    """Print what the runs of one table or figure take, or of all tables of the paper."""
    from earl.cli.sweep_costs import print_sweep_costs
    from earl.experiments.sweeps.sweepfile import SweepFile, find

    names = [name] if name else [n for n in files() if not n.startswith(FIGURE)]
    found = {n: SweepFile.open(find(file_of(n, scale))).experiments for n in names}
    print_sweep_costs(found, tflops, as_json)


def print_ledger(table: str | None, out: Path, as_json: bool) -> None:
    """Print one table's numbers, ours beside the paper's, or how many of each table there are."""
    from rich.console import Console

    from earl.cli.report import settle
    from earl.errors import UnknownName, suggest
    from earl.experiments.runs.records import find_runs
    from earl.report.ledger import ledger, summary

    runs = find_runs([out]) if out.exists() else []
    lines = ledger(runs)
    if table is not None:
        tables = tuple(dict.fromkeys(line.table for line in lines))
        if table not in tables:
            raise UnknownName(f"no numbers of {table!r} in the paper; {suggest(table, tables)}")
        lines = [line for line in lines if line.table == table]
    if as_json:
        print_json([as_dict(line) for line in lines])
    else:
        shown = lines_table(lines) if table else summary_table(summary(lines))
        Console(highlight=False, width=None if sys.stdout.isatty() else 140).print(shown)
    settle(runs)


def summary_table(counts: "dict[str, dict[str, int]]") -> "Table":
    from earl.report.ledger import command_for

    shown = plain_table("table", numbers=("numbers", "run", "reduced", "not run"))
    shown.add_column("command")
    for name, row in counts.items():
        total = sum(row.values())
        numbers = [str(n) for n in (total, row["run"], row["reduced"], row["not run"])]
        shown.add_row(name, *numbers, command_for(name))
    shown.caption = "reduced: only with a smaller network, fewer samples or other settings"
    return shown


def lines_table(lines: "Sequence[Line]") -> "Table":
    texts, numbers = ("data set", "setup", "row", "metric"), ("paper", "ours", "n", "gap")
    shown = plain_table(*texts, numbers=numbers)
    shown.add_column("")
    for line in lines:
        paper = f"{line.paper.mean:.2f}" + (f" ± {line.paper.std:.2f}" if line.paper.std else "")
        ours, n, gap = "–", "", ""
        if line.spread is not None and line.gap is not None:
            ours, n, gap = f"{line.spread.mean:.2f}", str(line.spread.n), f"{line.gap:+.2f}"
            ours += f" ± {line.spread.std:.2f}" if line.spread.std is not None else ""
        shown.add_row(*line.key[1:], paper, ours, n, gap, line.state if line.state != "run" else "")
    shown.caption = f"To run them: {lines[0].command}"
    return shown


def as_dict(line: "Line") -> dict[str, object]:
    spread = line.spread
    return {
        **dict(zip(("table", "dataset", "setup", "row", "metric"), line.key, strict=True)),
        "paper": {"mean": line.paper.mean, "std": line.paper.std},
        "ours": None if spread is None else {"mean": spread.mean, "std": spread.std, "n": spread.n},
        "gap": line.gap,
        "state": line.state,
        "command": line.command,
    }
