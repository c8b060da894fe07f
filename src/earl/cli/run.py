"""The commands `earl run` and `earl resume`, and how a run is followed and its result printed."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earl.cli import data as cli_data
from earl.cli import tensorboard as cli_tensorboard
from earl.cli.options import (
    CacheRoot,
    DataRoot,
    Json,
    Limit,
    Out,
    PerClass,
    RankTimeout,
    Seed,
    SkipBroken,
    SnapshotSeconds,
    TensorBoard,
    TensorBoardDir,
    Threads,
)
from earl.cli.text import complain, page, parse_settings, print_json, say

if TYPE_CHECKING:
    from collections.abc import Generator

    from earl.data.dataset import Dataset
    from earl.evaluation.loop import Moment
    from earl.experiments.runs.directory import RunDirectory
    from earl.nn.ranks import Ranks


def run(
    method: Annotated[str, typer.Option(help="See: earl list methods")],
    dataset: Annotated[str, typer.Option(help="See: earl list datasets")],
    stream: Annotated[
        str, typer.Option(help="See: earl list streams; or file:PATH, from earl stream make")
    ] = "gaussian",
    seed: Seed = 1,
    out: Out = Path("runs"),
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; repeat at will."),
    ] = None,
    probe: Annotated[list[str] | None, typer.Option(help="See: earl list probes")] = None,
    match: Annotated[str, typer.Option(help="flops or bytes: spend what --to does.")] = "",
    to: Annotated[str, typer.Option(metavar="METHOD", help="The method to match.")] = "",
    data_root: DataRoot = None,
    cache_root: CacheRoot = None,
    limit: Limit = None,
    per_class: PerClass = None,
    skip_broken: SkipBroken = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    threads: Threads = None,
    snapshot_seconds: SnapshotSeconds = 30.0,
    rank_timeout: RankTimeout = 60.0,
    tensorboard: TensorBoard = False,
    tensorboard_dir: TensorBoardDir = None,
    as_json: Json = False,
) -> None:
    """Run a method on a stream, or go on with a run that was stopped."""
    from earl.experiments.experiment import Experiment
    from earl.experiments.runs.directory import RunDirectory

    experiment = Experiment(
        method=method,
        dataset=dataset,
        stream=stream,
        seed=seed,
        settings=parse_settings(settings or []) | cli_data.short(limit, per_class, skip_broken),
        probes=tuple(probe or ()),
        match=match,  # type: ignore[arg-type]  # checked there
        to=to,
    )
    directory = RunDirectory(out / experiment.path(), experiment)
    carry_out(
        directory,
        (data_root, cache_root),
        as_json,
        device=device,
        threads=threads,
        seconds=snapshot_seconds,
        rank_timeout=rank_timeout,
        board=cli_tensorboard.tensorboard_folder(directory, tensorboard, tensorboard_dir),
    )


def resume(
    directory: Annotated[Path, typer.Argument(help="A run directory.")],
    data_root: DataRoot = None,
    cache_root: CacheRoot = None,
    snapshot_seconds: SnapshotSeconds = 30.0,
    rank_timeout: RankTimeout = 60.0,
    tensorboard: TensorBoard = False,
    tensorboard_dir: TensorBoardDir = None,
    as_json: Json = False,
) -> None:
    """Go on with a run that was stopped; the result is the same.

    Bit for bit, also after it was killed.
    """
    from earl.experiments.runs.directory import RunDirectory

    opened = RunDirectory(directory)
    carry_out(
        opened,
        (data_root, cache_root),
        as_json,
        seconds=snapshot_seconds,
        rank_timeout=rank_timeout,
        board=cli_tensorboard.tensorboard_folder(opened, tensorboard, tensorboard_dir),
    )


def load_data(
    directory: "RunDirectory", data_root: Path | None, cache_root: Path | None
) -> "Dataset | None":
    """Load the data of a run that has not ended, and show it if they have to be prepared."""
    if directory.summary is not None:
        return None
    with cli_data.progress_bar(directory.experiment.dataset) as progress:
        return directory.load(data_root, cache_root, progress)


def carry_out(
    directory: "RunDirectory",
    places: tuple[Path | None, Path | None],
    as_json: bool,
    *,
    seconds: float,
    rank_timeout: float,
    device: str = "auto",
    threads: int | None = None,
    board: Path | None = None,
) -> None:
    """Run to the end, alone or with the other ranks of torchrun, then print the result."""
    from earl.experiments.allocator import keep_freed_memory
    from earl.experiments.experiment import usable_device
    from earl.experiments.places import check_threads
    from earl.experiments.runs.progress_note import noted
    from earl.experiments.torchrun import carry_on, join, losses_explained

    keep_freed_memory()
    prepare_precision(directory, device)
    if directory.summary is None:  # before data are prepared
        usable_device(device)
        check_threads(threads or 1)
    with losses_explained():
        ranks = join(device, rank_timeout)
        load = partial(load_data, directory, *places)
        dataset = load() if ranks is None else ranks.one_by_one(load)
        moments = carry_on(directory, dataset, ranks, device, threads, seconds)
        if ranks is None or ranks.first:
            moments = cli_tensorboard.mirrored(directory, moments, board)
            moments = noted(moments, directory.path)
        show_progress(moments, directory.experiment.method, directory.path, ranks)
    if ranks is not None and not ranks.first:
        return
    for note in directory.notes:
        complain(f"note: {note}")
    if as_json:
        print_json(result(directory))
    else:
        print_results([directory])
        say(f"\n{directory.path}")


def prepare_precision(directory: "RunDirectory", device: str) -> None:
    """Let oneDNN, which nothing has used yet in this process, take the precision of a run.

    A CPU that does not take it at all is refused here, before any data are looked for.
    """
    from earl.nn.onednn import limit_for_bfloat16, require_bfloat16
    from earl.nn.precision import takes_bfloat16_on_cpu

    if directory.summary is None and takes_bfloat16_on_cpu(
        directory.precision, directory.device(device)
    ):
        directory.notes += limit_for_bfloat16()
        require_bfloat16()


def show_progress(
    moments: "Generator[Moment]", name: str, path: Path, ranks: "Ranks | None" = None
) -> None:
    """Follow a run on stderr; when a signal stops it, say how to go on and exit."""
    from rich.console import Console

    from earl.cli.progress import Stopped, follow

    try:
        if ranks is None:
            follow(moments, name=name, console=Console(stderr=True))
        else:
            console = Console(stderr=True, quiet=not ranks.first)
            follow(moments, name=name, console=console, agree=ranks.largest)
    except Stopped as stopped:
        again = f"earl resume {path}" if (path / "experiment.json").exists() else "earl demo"
        if ranks is None or ranks.first:
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
    """Return a number in a unit of one's own, or a dash where there is none."""
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
