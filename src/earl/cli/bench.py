"""The command `earl bench`."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from earl.cli.options import Json
from earl.cli.text import plain_table, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from earl.bench.measured import Measured
    from earl.bench.rows import Measure
    from earl.bench.timing import Effort


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Faster, and less precise.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if a figure misses its target.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show where the time of a step goes instead.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ROW", help="Only this row; may be repeated.")
    ] = None,
    history: Annotated[
        Path | None, typer.Option(help="Add a full run to this file, not to that of the checkout.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure what learning and asking cost beside the bare network."""
    from earl.experiments.machine import keep_freed_memory

    keep_freed_memory()  # as runs do
    if profile:
        print_profiles(as_json)
        return
    from earl.bench.record import commit, history_file, remember, summary
    from earl.bench.rows import choose
    from earl.bench.timing import FULL, QUICK

    rows = choose(only or [])
    began, at = time.monotonic(), commit()  # taken now: files may change while it runs
    found = follow(rows, QUICK if quick else FULL)
    result = summary(found, quick, time.monotonic() - began, at)
    file = history or history_file()
    if file is not None and not quick and not only:
        remember(result, file)
    if as_json:
        print_json(result)
    else:
        print_measured(found, quick)
    if check and not result["ok"]:
        raise typer.Exit(1)


def follow(rows: "Mapping[str, Measure]", effort: "Effort") -> "list[tuple[str, Measured]]":
    """Measure the rows, and show on stderr what is being measured."""
    from earl.bench.rows import measure_rows

    found: list[tuple[str, Measured]] = []
    for name, measure in rows.items():
        began = time.monotonic()
        found += list(measure_rows({name: measure}, effort))
        sys.stderr.write(f"measured {name} in {time.monotonic() - began:.0f} s\n")
        sys.stderr.flush()
    return found


def print_measured(found: "list[tuple[str, Measured]]", quick: bool) -> None:
    """Print what was measured beside its targets."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("row", no_wrap=True)
    table.add_column("measured")
    for name in ("value", "quartiles", "target"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for row, one in found:
        low, high = one.spread or (None, None)
        table.add_row(
            row,
            one.case,
            f"{number(one.value)} {one.unit}".strip(),
            "" if low is None or high is None else f"{number(low)}–{number(high)}",
            target(one),
            "" if one.target is None else "ok" if one.ok else "MISSED",
        )
    if quick:
        table.caption = "A quick run: few turns, so take a full one before you believe a miss."
    Console(highlight=False).print(table)


def target(one: "Measured") -> str:
    if one.target is None:
        return "–"
    return f"{'≥' if one.at_least else '≤'} {one.target:g} {one.unit}".strip()


def number(value: float) -> str:
    """Return a number with the digits that matter."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def print_profiles(as_json: bool) -> None:
    """Print the milliseconds and shares of a step's parts."""
    from rich.console import Console

    from earl.bench.profile import profiles
    from earl.experiments.machine import thread_count

    with thread_count(1):
        found = profiles()
    if as_json:
        print_json({p.case: dict(p.parts) for p in found})
        return
    heads = [head for p in found for head in (f"{p.case}, ms", "%")]
    table = plain_table("part of a step", numbers=heads)
    for name in found[0].parts:
        cells = [(f"{p.parts[name]:.2f}", f"{100 * p.parts[name] / p.total:.1f}") for p in found]
        table.add_row(name, *(cell for pair in cells for cell in pair))
    table.add_row("in all", *(cell for p in found for cell in (f"{p.total:.2f}", "100")))
    Console(highlight=False).print(table)
