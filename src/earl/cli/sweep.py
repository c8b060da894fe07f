"""The command `earl sweep`."""

import shlex
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earl.cli.options import (
    CacheRoot,
    DataRoot,
    Device,
    DryRun,
    Imports,
    Json,
    Match,
    MatchTo,
    Out,
    SnapshotSeconds,
    Threads,
)
from earl.cli.text import complain, page, print_json, say

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from earl.experiments.sweeps.engines import Engine
    from earl.experiments.sweeps.sweep import Status


class EngineName(StrEnum):
    local = "local"
    ray = "ray"


Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Runs at a time; unless given 1, or with Ray as many as fit."),
]
EngineChoice = Annotated[EngineName, typer.Option(help="Here, or on a Ray cluster.")]
Address = Annotated[
    str | None,
    typer.Option(help="The Ray cluster: auto or host:port; unless given, one is started."),
]
GpusPerRun = Annotated[
    float, typer.Option(min=0, help="GPUs of a run, with Ray; 0.5 lets two runs share one.")
]


def sweep(
    file: Annotated[str, typer.Argument(help="A sweep file, or the name of one of earl's.")],
    out: Out = Path("runs"),
    workers: Workers = None,
    threads: Threads = None,
    device: Device = "auto",
    engine: EngineChoice = EngineName.local,
    address: Address = None,
    gpus_per_run: GpusPerRun = 0.0,
    match: Match = "",
    to: MatchTo = "",
    data_root: DataRoot = None,
    cache_root: CacheRoot = None,
    snapshot_seconds: SnapshotSeconds = 30.0,
    imports: Imports = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Run all experiments of a file, or go on with them.

    What is finished is skipped, what was stopped goes on.
    """
    from earl.experiments.imports import import_modules
    from earl.experiments.sweeps.sweep import survey, sweep
    from earl.experiments.sweeps.sweepfile import SweepFile, find

    import_modules(imports or ())
    plan = SweepFile.open(find(file))
    experiments = plan.experiments
    if match or to:
        experiments = tuple(replace(e, match=match, to=to) for e in experiments)  # type: ignore[arg-type]
    if dry_run:
        print_runs(survey(experiments, out), as_json)
        return
    places: dict[str, Any] = {"data_root": data_root, "cache_root": cache_root}
    with make_engine(engine, workers, threads, address, gpus_per_run) as chosen:
        how = {**places, "device": device, "snapshot_seconds": snapshot_seconds}
        runs = sweep(experiments, out, engine=chosen, imports=imports or (), **how)
        ended = show(runs, plan.title)
    print_end(ended, as_json)


def make_engine(
    name: EngineName, workers: int | None, threads: int | None, address: str | None, gpus: float
) -> "AbstractContextManager[Engine]":
    """Return an engine that ends with its context."""
    from earl.experiments.sweeps.engines import LocalEngine, RayEngine

    if name is EngineName.ray:
        return RayEngine(address=address, threads=threads or 1, gpus=gpus, workers=workers)
    if address is not None or gpus:
        raise typer.BadParameter("--address and --gpus-per-run need --engine ray")
    return nullcontext(LocalEngine(workers or 1, threads))


def show(snapshots: "Generator[Sequence[Status]]", title: str) -> "Sequence[Status]":
    """Follow a sweep on stderr; when a signal stops it, say how to go on and exit."""
    from rich.console import Console

    from earl.cli.progress import Stopped
    from earl.cli.sweep_progress import follow

    try:
        return follow(snapshots, title=title, console=Console(stderr=True))
    except Stopped as stopped:
        again = shlex.join(["earl", *sys.argv[1:]])
        complain(f"Stopped; every run is saved. Go on with the same command: {again}")
        raise typer.Exit(128 + stopped.number) from None


def print_end(runs: "Sequence[Status]", as_json: bool) -> None:
    """Print the results; if runs have failed, also these, and exit with 1."""
    from earl.cli.sweep_progress import results

    failed = [run for run in runs if run.state == "failed"]
    if as_json:
        print_json({"runs": [as_dict(run) for run in runs]})
    elif len(failed) < len(runs):
        console = page()
        console.print(*results(runs, console.width), sep="\n")
    if failed:
        complain(f"\n{len(failed)} of {len(runs)} runs failed:")
        for run in failed:
            complain(f"  {run.path}\n    " + run.message.replace("\n", "\n    "))
        raise typer.Exit(1)


def print_runs(runs: "Sequence[Status]", as_json: bool) -> None:
    """Print all runs and how they stand."""
    from earl.cli.sweep_progress import counts, percent, share

    if as_json:
        print_json({"runs": [as_dict(run) for run in runs]})
        return
    for run in runs:
        part = percent(share(run)) if run.state in ("interrupted", "in use") else ""
        say(f"{run.state:<12}{part:>4}  {run.path}" + (f": {run.message}" if run.message else ""))
    say(counts(runs))


def as_dict(run: "Status") -> dict[str, Any]:
    """Return what there is to say about a run, and the command that gives it."""
    return {
        "directory": str(run.path),
        "state": run.state,
        "step": run.step,
        "samples": run.total,
        "metrics": dict(run.metrics),
        "message": run.message,
        "command": shlex.join(["earl", *run.experiment.command()]),
        **run.experiment.as_dict(),
    }
