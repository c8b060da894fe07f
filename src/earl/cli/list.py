"""The command `earl list`: what there is, and what methods cost."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earl.cli.options import Json, LightGroup
from earl.cli.text import plain_table, say
from earl.experiments import catalogue
from earl.experiments.recipes import recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    from earl.experiments.matching import Cost

KINDS: dict[str, Any] = {
    "methods": catalogue.METHODS,
    "datasets": catalogue.DATASETS,
    "streams": catalogue.STREAMS,
    "metrics": catalogue.METRICS,
    "probes": catalogue.PROBES,
    "figures": catalogue.FIGURES,
}
SUMS = ("images", "waiting", "network")  # bytes of these have a column, all others are "extra"

app = typer.Typer(
    cls=LightGroup,
    rich_markup_mode=None,
    help="List what there is; everything, or one kind of it.",
)


@app.callback(invoke_without_command=True)
def everything(context: typer.Context, as_json: Json = False) -> None:
    if context.invoked_subcommand is None:
        print_names(tuple(KINDS), as_json)


@app.command()
def methods(
    cost: Annotated[
        bool,
        typer.Option(
            "--cost", help="Measure what an update of each method costs, and the bytes held."
        ),
    ] = False,
    dataset: Annotated[
        str, typer.Option(help="With --cost: the data set whose images and settings are used.")
    ] = "cifar10",
    method: Annotated[
        list[str] | None,
        typer.Option(help="With --cost: measure only this method; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List methods, or measure what they cost."""
    if cost:
        print_costs(dataset, method or list(catalogue.METHODS.names()), as_json)
    else:
        print_names(("methods",), as_json)


def listing(kind: str) -> "Callable[..., None]":
    """Return the command that lists one kind."""

    def show(as_json: Json = False) -> None:
        print_names((kind,), as_json)

    show.__doc__ = f"List {kind}."
    return show


for kind in KINDS:
    if kind != "methods":
        app.command(kind)(listing(kind))


def print_names(kinds: tuple[str, ...], as_json: bool) -> None:
    """Print the names of some kinds, and what they mean."""
    if as_json:
        listed = {kind: {e.name: e.about for e in KINDS[kind]} for kind in kinds}
        say(json.dumps(listed, indent=2))
        return
    for number, kind in enumerate(kinds):
        say(("\n" if number else "") + kind)
        for line in lines_of(kind, detailed=len(kinds) == 1):
            say(f"  {line}")


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
    form = "{:<15} {:<16} {:<5} {:<17} {:>7}  {}"
    yield form.format("name", "paper", "tasks", "stores", "compute", "in a few words")
    for entry in catalogue.METHODS:
        facts = entry.facts
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

    from earl.experiments.experiment import Experiment
    from earl.experiments.loading import load_data
    from earl.experiments.matching import cost_of
    from earl.experiments.names import Name

    facts = catalogue.DATASETS.entry(Name.read(dataset).kind).facts
    shape, classes = facts.image_shape, facts.classes
    if shape is None:
        data = load_data(dataset)
        shape, classes = data.image_shape, len(data.class_names)
    costs: dict[str, Cost] = {}
    for name in dict.fromkeys(["er", *methods]):
        experiment = Experiment(method=name, dataset=dataset, stream="disjoint")
        costs[name] = cost_of(experiment, shape, classes)
        sys.stderr.write(f"measured {name}\n")
    if as_json:
        say(json.dumps({n: cost_fields(c) for n, c in costs.items()}, indent=2))
        return
    Console(highlight=False).print(cost_table(costs))
    for name, c in costs.items():
        if c.correction:
            say(
                f"{name}: residual correction takes 3dN + kN = {c.correction:,} FLOPs an answer, "
                f"{100 * c.correction / c.forward:.2f} % of its forward pass ({c.forward:,})"
            )


def cost_fields(cost: "Cost") -> dict[str, Any]:
    """Return a cost for JSON; that of an answer where it is more than a forward pass."""
    fields: dict[str, Any] = {"flops": cost.flops, "bytes": dict(cost.bytes)}
    if cost.correction:
        fields["answer"] = {"forward": cost.forward, "correction": cost.correction}
    return fields


def cost_table(costs: "dict[str, Cost]") -> "Table":
    er, numbers = costs["er"], ("GFLOPs", "x ER", *SUMS, "extra", "total", "above ER")
    table = plain_table("method", numbers=numbers)
    table.columns[0].no_wrap = True
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
