"""The published table of what the paper's tables take to run, from `earl reproduce --cost`."""

from collections.abc import Mapping
from typing import Any

from earl.report.results.description import Sheet
from earl.report.results.sheets import table
from earl.report.tables.layout import quantity

TITLES = ("table", "command", "runs", "training", "exams", "hours", "memory", "disk")
SECONDS = 3600  # of an hour
PACE = 1e13  # FLOPs a second of the device that hours are told for


def paper_cost(sheet: Sheet, content: Mapping[str, Any]) -> str:
    """Return a line for each table of the paper: FLOPs, hours, and the most that a run needs."""
    lines = []
    for name, cost in content.items():
        work = [cost["training"], cost["exams"]]
        cells = [f"`{name}`", f"`earl reproduce {name}`", f"{cost['runs']:,}"]
        cells += [quantity(flops, "FLOP") for flops in work]
        cells.append(f"{sum(work) / PACE / SECONDS:,.0f}")
        cells += [quantity(cost[what], "B") for what in ("memory", "disk")]
        lines.append(cells)
    facts = (
        f"FLOPs of all runs of a table; hours of a device that sustains {PACE / 1e12:g} TFLOP/s; "
        f"memory and disk of the run that needs most. Made by `{sheet.command}`."
    )
    return table(TITLES, lines, facts)
