"""The commands `earl run` and `earl resume`, and how a run is followed and its result printed."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earl.cli import data as cli_data
from earl.cli.options import (
    CacheRoot,
    DataRoot,
    DatasetName,
    Device,
    Imports,
    Json,
    Limit,
    Match,
    MatchTo,
    MethodName,
    Out,
    PerClass,
    RankTimeout,
    Seed,
    Settings,
    SkipBroken,
    SnapshotSeconds,
    StreamName,
    TensorBoard,
    TensorBoardDir,
    Threads,
)
from earl.cli.tensorboard import mirrored, tensorboard_folder
from earl.cli.text import complain, page, parse_settings, print_json, say

if TYPE_CHECKING:
    from collections.abc import Generator

    from earl.data.dataset import Dataset
    from earl.evaluation.loop import Moment
    from earl.experiments.runs.directory import RunDirectory
    from earl.nn.ranks import Alone


def run(
    method: MethodName,
    dataset: DatasetName,
    stream: StreamName = "gaussian",
    seed: Seed = 1,
    out: Out = Path("runs"),
    settings: Settings = None,
    probe: Annotated[list[str] | None, typer.Option(help="See: earl list probes")] = None,
    match: Match = "",
    to: MatchTo = "",
    data_root: DataRoot = None,
    cache_root: CacheRoot = None,
    limit: Limit = None,
    per_class: PerClass = None,
    skip_broken: SkipBroken = False,
    device: Device = "auto",
    threads: Threads = None,
    imports: Imports = None,
    snapshot_seconds: SnapshotSeconds = 30.0,
    rank_timeout: RankTimeout = 60.0,
    tensorboard: TensorBoard = False,
    tensorboard_dir: TensorBoardDir = None,
    as_json: Json = False,
) -> None:
    """Run a method on a stream, or go on with a run that was stopped."""
    from earl.experiments.experiment import Experiment
    from earl.experiments.imports import import_modules
    from earl.experiments.runs.directory import RunDirectory

    import_modules(imports or ())
    names = {"method": method, "dataset": dataset, "stream": stream, "match": match, "to": to}
    given = parse_settings(settings or []) | cli_data.flag_settings(limit, per_class, skip_broken)
    fields = {**names, "seed": seed, "settings": given, "probes": probe or ()}
    experiment = Experiment.from_dict(fields)
    directory = RunDirectory(out / experiment.path(), experiment, imports or ())
    board = tensorboard_folder(directory, tensorboard, tensorboard_dir)
    how = Following(data_root, cache_root, snapshot_seconds, rank_timeout, board, device, threads)
    run_and_print(directory, how, as_json)


def resume(
    directory: Annotated[Path, typer.Argument(help="A run directory.")],
    data_root: DataRoot = None,
    cache_root: CacheRoot = None,
    imports: Imports = None,
    snapshot_seconds: SnapshotSeconds = 30.0,
    rank_timeout: RankTimeout = 60.0,
    tensorboard: TensorBoard = False,
    tensorboard_dir: TensorBoardDir = None,
    as_json: Json = False,
) -> None:
    """Go on with a run that was stopped; the result is the same.

    Bit for bit, also after it was killed.
    """
    from earl.experiments.imports import import_modules
    from earl.experiments.runs.directory import RunDirectory

    import_modules(imports or ())
    opened = RunDirectory(directory)
    board = tensorboard_folder(opened, tensorboard, tensorboard_dir)
    how = Following(data_root, cache_root, snapshot_seconds, rank_timeout, board)
    run_and_print(opened, how, as_json)


@dataclass(frozen=True)
class Following:
    """How a run is carried out and followed; no result depends on it."""

    data_root: Path | None
    cache_root: Path | None
    snapshot_seconds: float
    rank_timeout: float
    tensorboard: Path | None
    device: str = "auto"
    threads: int | None = None


def run_and_print(directory: "RunDirectory", how: Following, as_json: bool) -> None:
    """Run to the end, alone or with the other ranks of torchrun, then print the result."""
    from earl.experiments.runs.progress_note import noted
    from earl.experiments.torchrun import explain_lost_rank, join

    if directory.summary is None:
        refuse_at_once(directory, how)
    with explain_lost_rank():
        ranks = join(how.device, how.rank_timeout)
        moments = directory.run(
            device=how.device,
            threads=how.threads,
            snapshot_seconds=how.snapshot_seconds,
            dataset=ranks.one_by_one(lambda: load_data(directory, how)),
            ranks=ranks,
        )
        if ranks.first:
            moments = mirrored(directory, moments, how.tensorboard)
            moments = noted(moments, directory.path)
        show_progress(moments, directory.experiment.method, directory.path, ranks)
    if not ranks.first:
        return
    for note in directory.notes:
        complain(f"note: {note}")
    if as_json:
        print_json(result(directory))
    else:
        print_results([directory])
        say(f"\n{directory.path}")


def refuse_at_once(directory: "RunDirectory", how: Following) -> None:
    """Raise if this machine cannot carry out a run; before any data are looked for."""
    from earl.experiments.machine import check_threads, keep_freed_memory, usable_device
    from earl.experiments.places import check_writable
    from earl.nn.onednn import limit_for_bfloat16, require_bfloat16
    from earl.nn.precision import takes_bfloat16_on_cpu

    keep_freed_memory()
    # Nothing has used oneDNN yet in this process, so that it can still be limited.
    if takes_bfloat16_on_cpu(directory.precision, directory.device(how.device)):
        directory.notes += limit_for_bfloat16()
        require_bfloat16()
    usable_device(how.device)
    check_threads(how.threads or 1)
    check_writable(directory.path)


def load_data(directory: "RunDirectory", how: Following) -> "Dataset | None":
    """Load the data of a run that has not ended; show progress if they have to be prepared."""
    if directory.summary is not None:
        return None
    with cli_data.progress_bar(directory.experiment.dataset) as progress:
        return directory.load(how.data_root, how.cache_root, progress)


def show_progress(
    moments: "Generator[Moment]", name: str, path: Path, ranks: "Alone | None" = None
) -> None:
    """Follow a run on stderr; when a signal stops it, say how to go on and exit."""
    from rich.console import Console

    from earl.cli.progress import Stopped, follow
    from earl.nn.ranks import ALONE

    ranks = ranks or ALONE
    console = Console(stderr=True, quiet=not ranks.first)
    try:
        follow(moments, name=name, console=console, agree=ranks.largest)
    except Stopped as stopped:
        again = f"earl resume {path}" if (path / "experiment.json").exists() else "earl demo"
        if ranks.first:
            complain(f"Stopped and saved. Go on with: {again}")
        raise typer.Exit(128 + stopped.number) from None


def result(directory: "RunDirectory") -> dict[str, Any]:
    """Return what there is to say about a finished run."""
    return {
        "directory": str(directory.path),
        **directory.experiment.as_dict(),
        **(directory.summary or {}),
    }


def shown(value: float | None, times: float, form: str) -> str:
    """Return a number in the given unit, or a dash if there is none."""
    return "–" if value is None else format(value * times, form)


def print_results(runs: "list[RunDirectory]") -> None:
    """Print the metrics of finished runs in percent, and what they cost."""
    from rich.table import Table

    results = [result(run) for run in runs]
    metrics = list(results[0]["metrics"])
    table = Table(title=None, box=None, header_style="bold", pad_edge=False)
    table.add_column("method", overflow="fold")
    for name in (*metrics, "images", "GFLOPs", "MB", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for r in results:
        cells = [shown(r["metrics"].get(name), 100, ".1f") for name in metrics]
        costs = r.get("costs", {})
        images = costs["images"] + costs.get("replayed", 0) if "images" in costs else None
        cells += [shown(images, 1, ","), shown(costs.get("flops"), 1e-9, ",.0f")]
        cells.append(shown(costs.get("bytes"), 1e-6, ",.2f"))
        table.add_row(r["method"], *cells, f"{r['seconds']:.0f}")
    page().print(table)
