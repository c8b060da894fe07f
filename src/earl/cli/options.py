"""The options that commands share, each defined once, and the group of commands they stand in."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperGroup


class LightGroup(TyperGroup):
    """A group in which words that need no check are read without pydantic.

    To read any option, typer would import it, which takes as long as all else together.
    """

    def get_help_option(self, ctx: Any) -> Any:
        return lighter(super().get_help_option(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        for parameter in command.get_params(ctx) if command else ():
            lighter(parameter)
        return command


def lighter(parameter: Any) -> Any:
    """Return an option or argument that leaves to typer only what is not plain, or is wrong."""
    by_typer = type(parameter).process_value
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)

    def process(ctx: Any, value: Any) -> Any:
        missing = parameter.required and parameter.value_is_missing(value)
        if missing or not is_plain(kind, value):
            return by_typer(parameter, ctx, value)
        value = plain(kind, value)
        return parameter.callback(ctx, parameter, value) if parameter.callback else value

    if parameter is not None:
        parameter.process_value = process
    return parameter


def is_plain(kind: Any, value: Any) -> bool:
    """Return whether a value is what is wanted already, or words that become it unchecked."""
    if get_origin(kind) is list and isinstance(value, list | tuple):
        return all(is_plain(get_args(kind)[0], one) for one in value)
    if value is None or not isinstance(kind, type) or isinstance(value, kind):
        return value is None or isinstance(kind, type)
    if issubclass(kind, Path) and isinstance(value, str):
        return os.access(value, os.R_OK) or not os.path.lexists(value)
    return issubclass(kind, StrEnum) and value in {*kind}


def plain(kind: Any, value: Any) -> Any:
    """Return a plain value as what is wanted."""
    if get_origin(kind) is list and value is not None:
        return [plain(get_args(kind)[0], one) for one in value]
    return value if value is None or isinstance(value, kind) else kind(value)


# What is printed, and where run directories go
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Where run directories go.")]

# Where data lie, and how much of them is used
DatasetName = Annotated[str, typer.Option(help="See: earl list datasets")]
DataRoot = Annotated[
    Path | None,
    typer.Option(help="Where data sets lie; unless given, EARL_DATA or the user's cache."),
]
CacheRoot = Annotated[
    Path | None,
    typer.Option(help="For decoded copies; unless given, EARL_CACHE or the user's cache."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Train on this many images only.")]
PerClass = Annotated[int | None, typer.Option(min=1, help="Train on this many of each class.")]
SkipBroken = Annotated[bool, typer.Option("--skip-broken", help="Leave broken images out.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; may be repeated."),
]

# How runs are made
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Import a module of your own that registers a method, data set, stream, metric or "
        "probe; may be repeated.",
    ),
]
MethodName = Annotated[str, typer.Option(help="See: earl list methods")]
StreamName = Annotated[
    str, typer.Option(help="See: earl list streams; or file:PATH, from earl stream make")
]
Seed = Annotated[int, typer.Option(help="Stream, network and all random draws follow from it.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="CPU threads of a run; unless given, few for small networks."),
]
Match = Annotated[str, typer.Option(help="flops or bytes: spend as much as the method of --to.")]
MatchTo = Annotated[str, typer.Option(metavar="METHOD", help="The method to match.")]
RankTimeout = Annotated[
    float, typer.Option(min=1, help="Seconds until a silent rank of torchrun is taken for lost.")
]
SnapshotSeconds = Annotated[float, typer.Option(min=0, help="Time between two snapshots.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the runs, but run none.")]
TensorBoard = Annotated[
    bool, typer.Option("--tensorboard", help="Show the run live: tensorboard --logdir <OUT>")
]
TensorBoardDir = Annotated[
    Path | None, typer.Option(help="The same, with the log elsewhere than in the run directory.")
]

# Which runs are read, and how they are compared
Folders = Annotated[list[Path], typer.Argument(help="Folders with run directories, at any depth.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Only runs with this method, dataset, stream, seed or setting; may be repeated.",
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        help="A_AUC and A_last unless given; see: earl list metrics. Or a number that a probe "
        "has recorded: bias, NC1, NC2, NC3, training_error."
    ),
]
Versus = Annotated[
    str | None, typer.Option(help="Subtract this method, seed by seed, with a 95 % interval.")
]
BesidePaper = Annotated[
    bool, typer.Option("--beside-paper", help="Set the paper's numbers beside ours.")
]
PaperTable = Annotated[
    str | None, typer.Option(help="Which of the paper's tables; main unless given.")
]
AllowMixed = Annotated[
    bool, typer.Option("--allow-mixed", help="Do not refuse runs that cannot be compared.")
]
