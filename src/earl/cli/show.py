"""The command `earl show`: what a model has learned, and what it holds."""

from pathlib import Path
from typing import Annotated

import typer

from earl.cli.options import Json
from earl.cli.text import page, plain_table, print_json, say


def show(
    model: Annotated[Path, typer.Argument(help="The folder of a model.")], as_json: Json = False
) -> None:
    """Show the classes of a model in the order of their arrival, its room and its bytes."""
    from earl.estimator import EARLClassifier
    from earl.nn.room import readable
    from earl.storage.printable import printable

    facts = EARLClassifier.load(model).describe()
    if as_json:
        print_json(facts)
        return
    table = plain_table("class", numbers=("samples", "right before learning", "lately"))
    for c in facts["classes"]:
        name = printable(c["shown"]) + (" (forgotten)" if c["forgotten"] else "")
        table.add_row(
            name, str(c["samples"]), *(f"{100 * c[k]:.1f} %" for k in ("accuracy", "recent"))
        )
    page().print(table, markup=False)
    room = "any number" if facts["capacity"] is None else str(facts["capacity"])
    held = ", ".join(f"{kind} {readable(size)}" for kind, size in facts["bytes"].items())
    say(f"\nmethod    {facts['method']}, backbone {facts['backbone']}, seed {facts['seed']}")
    say(f"samples   {facts['samples']}, {100 * facts['accuracy']:.1f} % right before learning")
    say(f"classes   {len(facts['classes'])} of {room}")
    say(f"memory    {facts['remembered']} of {facts['memory_size']} samples")
    if facts["skipped_steps"]:
        say(f"steps     {facts['skipped_steps']} led to inf or nan and were undone")
    say(f"bytes     {held}")
