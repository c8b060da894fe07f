"""The command `earl settings`: what --set can change, and what it means."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from earl.cli.options import DatasetName, Json, MethodName
from earl.cli.text import print_json, say

if TYPE_CHECKING:
    from earl.experiments.recipes import Value

HEAD = ("setting", "value", "from", "meaning (values it takes)")


@dataclass(frozen=True)
class Row:
    """One setting of a run: its value, who chose that one, its meaning, which values it takes."""

    name: str
    value: "Value"
    source: str
    about: str
    takes: str

    def cells(self) -> tuple[str, ...]:
        value = str(self.value).lower() if isinstance(self.value, bool) else str(self.value)
        return self.name, value or "–", self.source, f"{self.about} ({self.takes})".strip()


def settings(
    method: MethodName = "earl",
    dataset: DatasetName = "digits",
    stream: Annotated[str, typer.Option(help="See: earl list streams")] = "gaussian",
    as_json: Json = False,
) -> None:
    """List every setting of a run: what --set can change.

    With the values it takes, its meaning, and where its value comes from: the recipe of the data
    set, the paper, the code of the paper's authors, or earl itself.
    """
    rows = rows_of(method, dataset, stream)
    if as_json:
        print_json(
            {
                r.name: {"value": r.value, "from": r.source, "meaning": r.about, "takes": r.takes}
                for r in rows
            }
        )
        return
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD) - 1)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        say("  " + "  ".join([*cells, line[-1]]).rstrip())


def rows_of(method: str, dataset: str, stream: str) -> list[Row]:
    """Return all settings of a run in their order."""
    from earl.experiments.experiment import Experiment
    from earl.experiments.recipes import recipe

    experiment = Experiment(method=method, dataset=dataset, stream=stream)
    options, ours = experiment.options(), recipe(experiment.dataset)
    rows = []
    for name, value in experiment.values().items():
        option = options[name]
        source = "recipe" if name in ours else option.meaning.source or "method"
        rows.append(Row(name, value, source, option.meaning.about, option.range()))
    return rows
