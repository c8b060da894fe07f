"""What tables of the paper take to run, as a table on the terminal."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from earl.cli.text import plain_table, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from earl.experiments.experiment import Experiment
    from earl.experiments.sweeps.cost import SweepCost


def print_sweep_costs(
    sweeps: "Mapping[str, Sequence[Experiment]]", tflops: float, as_json: bool
) -> None:
    """Print what each of these sweeps takes on a device that sustains so many TFLOP/s."""
    from rich.console import Console

    from earl.experiments.sweeps.cost import Costs

    costs, found = Costs(), {}
    for name, experiments in sweeps.items():
        found[name] = costs.of_sweep(experiments)
        sys.stderr.write(f"calculated {name}\n")
    if as_json:
        hours = {name: cost.hours(tflops * 1e12) for name, cost in found.items()}
        print_json({n: {**asdict(c), "hours": hours[n]} for n, c in found.items()})
        return
    Console(highlight=False, width=None if sys.stdout.isatty() else 140).print(
        cost_table(found, tflops)
    )


def cost_table(found: "Mapping[str, SweepCost]", tflops: float) -> "Table":
    heads = ("runs", "training", "exams", "hours", "memory", "disk")
    table = plain_table("table", numbers=heads)
    table.columns[0].no_wrap = True
    for name, cost in found.items():
        work = (f"{cost.training / 1e18:.2f}", f"{cost.exams / 1e18:.2f}")
        hours = f"{cost.hours(tflops * 1e12):,.0f}"
        room = (f"{cost.memory / 1e9:.1f}", f"{cost.disk / 1e9:.1f}")
        table.add_row(name, str(cost.runs), *work, hours, *room)
    table.caption = (
        f"training and exams in EFLOP; hours of a device that sustains {tflops:g} TFLOP/s; "
        "memory and disk in GB, of the run that needs most"
    )
    return table
