"""The published table of what the paper's tables take to run, from `earl reproduce --cost`."""

import json
from pathlib import Path

from earl.report.results.description import Sheet
from earl.report.results.sheets import table
from earl.report.tables.layout import quantity
from earl.storage.reading import read_text

LARGEST = 1 << 20  # bytes of a file of costs
TITLES = ("table", "command", "runs", "training", "exams", "hours", "memory", "disk")
SECONDS = 3600  # of an hour
PACE = 1e13  # FLOPs a second of the device that hours are told for


def paper_cost(sheet: Sheet, file: Path) -> str:
    """Return a line for each table of the paper: FLOPs, hours, and the most that a run needs."""
    if not file.is_file():
        return f"No records yet: `{sheet.command}` makes them.\n"
    lines = []
    for name, cost in json.loads(read_text(file, LARGEST)).items():
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
