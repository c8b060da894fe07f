"""The command `earl list`: what there is, and what methods cost."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earl import catalogue
from earl.errors import InvalidSetting, UnknownName
from earl.recipes import SHAPES, recipe
from earl.registry import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from earl.matching import Cost

KINDS: dict[str, Any] = {
    "methods": catalogue.METHODS,
    "datasets": catalogue.DATASETS,
    "streams": catalogue.STREAMS,
    "metrics": catalogue.METRICS,
    "probes": catalogue.PROBES,
    "figures": catalogue.FIGURES,
}
SUMS = ("images", "waiting", "network")  # bytes of these have a column, all others are "extra"


def list_names(
    kind: Annotated[
        str | None, typer.Argument(help="methods, datasets, streams, metrics, probes or figures")
    ] = None,
    cost: Annotated[
        bool, typer.Option("--cost", help="Measure what an update of each method costs, and bytes.")
    ] = False,
    dataset: Annotated[
        str, typer.Option(help="With --cost: whose images and settings.")
    ] = "cifar10",
    method: Annotated[
        list[str] | None, typer.Option(help="With --cost: only these methods; repeat at will.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List what there is."""
    if kind is not None and kind not in KINDS:
        raise UnknownName(f"nothing called {kind!r} to list; {suggest(kind, tuple(KINDS))}")
    if cost:
        if kind not in (None, "methods"):
            raise InvalidSetting(f"--cost is about methods, not {kind}")
        print_costs(dataset, method or list(catalogue.METHODS.names()), as_json)
        return
    chosen = {kind: KINDS[kind]} if kind else KINDS
    if as_json:
        listed = {k: {e.name: e.about for e in registry} for k, registry in chosen.items()}
        sys.stdout.write(json.dumps(listed, indent=2) + "\n")
        return
    for number, k in enumerate(chosen):
        sys.stdout.write(("\n" if number else "") + k + "\n")
        for line in lines_of(k, detailed=kind is not None):
            sys.stdout.write(f"  {line}\n")


def lines_of(kind: str, detailed: bool) -> "Iterator[str]":
    """Yield what is printed of one kind; of methods more, if they alone were asked for."""
    if kind == "methods" and detailed:
        yield from method_lines()
        return
    for entry in KINDS[kind]:
        yield f"{entry.name:<17} {entry.about}"
        if kind == "datasets" and (paper := recipe(entry.name)):
            yield " " * 18 + ", ".join(f"{key} {value}" for key, value in paper.items())


def method_lines() -> "Iterator[str]":
    form = "{:<15} {:<16} {:<5} {:<16} {:>7}  {}"
    yield form.format("name", "paper", "tasks", "stores", "compute", "in a few words")
    for entry in catalogue.METHODS:
        facts = catalogue.METHOD_FACTS.get(entry.name)
        known = ("–", "–", "–", "–")
        if facts is not None:
            boundaries = "told" if facts.boundaries else "no"
            known = (facts.paper, boundaries, facts.stores, f"{facts.compute:.2f}")
        yield form.format(entry.name, *known, entry.about)
    yield ""
    yield "tasks: is it told where a task ends?  compute: of an update, beside ER's, on CIFAR-10;"
    yield "to measure it and the bytes held: earl list methods --cost --dataset NAME"


def print_costs(dataset: str, methods: list[str], as_json: bool) -> None:
    """Print what each method costs on images like those of a data set."""
    from rich.console import Console

    from earl.experiment import Experiment, load_data
    from earl.matching import cost_of

    shape, classes = SHAPES.get(dataset, (None, 0))
    if shape is None:
        data = load_data(dataset)
        shape, classes = data.image_shape, len(data.class_names)
    costs: dict[str, Cost] = {}
    for name in dict.fromkeys(["er", *methods]):
        experiment = Experiment(method=name, dataset=dataset, stream="disjoint")
        costs[name] = cost_of(experiment, shape, classes)
        sys.stderr.write(f"measured {name}\n")
    if as_json:
        rows = {n: {"flops": c.flops, "bytes": dict(c.bytes)} for n, c in costs.items()}
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return
    Console(highlight=False).print(cost_table(costs))


def cost_table(costs: "dict[str, Cost]") -> "Table":
    from rich.table import Table

    er = costs["er"]
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("method", no_wrap=True)
    for name in ("GFLOPs", "x ER", *SUMS, "extra", "total", "above ER"):
        table.add_column(name, justify="right")
    for name, c in costs.items():
        sums = [c.bytes.get(s, 0) for s in SUMS]
        bytes_ = [*sums, c.total_bytes - sum(sums), c.total_bytes, c.total_bytes - er.total_bytes]
        cells = [f"{n / 1e6:,.2f}" for n in bytes_]
        table.add_row(name, f"{c.flops / 1e9:,.2f}", f"{c.flops / er.flops:.3f}", *cells)
    table.caption = (
        "GFLOPs of an update; bytes held, in MB of 10⁶, after one boundary; "
        "the optimiser's moments are not counted"
    )
    return table
