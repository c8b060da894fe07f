"""The command `earl forget`: a service's state without the samples of a source."""

from pathlib import Path
from typing import Annotated

import typer

from earl.cli.options import Json
from earl.cli.text import answer


def forget(
    source: Annotated[str, typer.Option(help="Where the samples came from.")],
    state: Annotated[Path, typer.Option(help="The folder of a service that does not run.")],
    as_json: Json = False,
) -> None:
    """Rebuild the state of a service as if a source had never posted."""
    from rich.console import Console

    from earl.service.exporting import opened
    from earl.service.rebuild import Rebuilt, rebuild, without_source

    journal = opened(state)
    leaves_out = without_source(journal.sources(), source)
    journal.close()
    console, shown, so_far = Console(stderr=True), 0, Rebuilt(0)
    for so_far in rebuild(state, leaves_out):
        if so_far.done - shown >= max(64, so_far.total // 10):
            shown = so_far.done
            text = f"{so_far.done} of {so_far.total} operations"
            console.print(text, highlight=False, markup=False)
    facts = {"source": source, "left_out": so_far.left_out, "operations": so_far.total}
    said = f"{state}: rebuilt without {so_far.left_out} samples of {source!r}"
    answer(as_json, {"state": str(state), **facts}, said)
