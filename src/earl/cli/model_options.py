"""Options that decide about a new model, for `earl learn` and `earl serve`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from earl.cli.text import parse_settings

PARAMETERS = (  # of EARLClassifier, as the options are called
    *("method", "backbone", "frozen", "image_size", "memory_size", "max_classes"),
    *("steps_per_sample", "seed", "device", "threads"),
)

Method = Annotated[str | None, typer.Option(help="See: earl list methods; else earl.")]
Backbone = Annotated[
    str | None,
    typer.Option(
        help="A network that was trained before: efficientnet-lite0 or hf:NAME. It stays as it is, "
        "unless --frozen false lets it learn, or --frozen front its last stage."
    ),
]
Frozen = Annotated[Literal["true", "false", "front"] | None, typer.Option(help="See --backbone.")]
ImageSize = Annotated[
    int | None, typer.Option(min=1, help="Pixels of a side; the backbone's own, or 96.")
]
MemorySize = Annotated[int | None, typer.Option(min=1, help="Images kept; 500.")]
MaxClasses = Annotated[int | None, typer.Option(min=1, help="One class more is refused.")]
Steps = Annotated[float | None, typer.Option(help="Training steps for each sample; 1.")]
Seed = Annotated[int | None, typer.Option(min=0, help="All draws follow from it; 0.")]
Device = Annotated[str | None, typer.Option(help="auto, cpu or cuda")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads of a step.")]


def parameters_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a command line gives a model, those left out excepted."""
    found = {name: given[name] for name in PARAMETERS if given[name] is not None}
    if "frozen" in found:
        found["frozen"] = {"true": True, "false": False}.get(found["frozen"], found["frozen"])
    if given["settings"]:
        found["settings"] = parse_settings(given["settings"])
    return found
