"""The commands `earl data info`, `prepare`, `embed` and `download`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earl.cli.options import (
    CacheRoot,
    DataRoot,
    Device,
    Json,
    Limit,
    PerClass,
    Settings,
    SkipBroken,
)
from earl.cli.text import answer, parse_settings, print_json, say

if TYPE_CHECKING:
    from earl.data.dataset import Dataset
    from earl.data.source import Progress

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Find, prepare and download data sets."
)

Name = Annotated[str, typer.Argument(help="A data set; see: earl list datasets")]


@app.command()
def info(
    name: Name, data_root: DataRoot = None, cache_root: CacheRoot = None, as_json: Json = False
) -> None:
    """Say whether a data set is there, where, and how it is run; nothing is decoded."""
    from earl.experiments.datainfo import describe
    from earl.experiments.places import Places

    print_description(describe(name, Places.find(data_root, cache_root)), as_json)


@app.command()
def prepare(
    name: Name,
    data_root: DataRoot = None,
    cache_root: CacheRoot = None,
    skip_broken: SkipBroken = False,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Decode or check every image once, so that runs start at once; name the broken ones."""
    from earl.experiments.loading import DataOptions, load_data
    from earl.experiments.options import Options
    from earl.experiments.places import Places

    options = Options({"data": DataOptions})
    given = options.read(parse_settings(settings or []) | flag_settings(None, None, skip_broken))
    chosen = DataOptions(**options.of("data", given))
    places, start = Places.find(data_root, cache_root), time.monotonic()
    with progress_bar(name) as progress:
        dataset = load_data(name, chosen, places, progress)
    seconds = round(time.monotonic() - start, 1)
    print_description(summary(dataset) | {"seconds": seconds}, as_json)


@app.command()
def embed(
    name: Name,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write; must be new.")],
    backbone: Annotated[str, typer.Option(help="A pretrained network.")] = "efficientnet-lite0",
    data_root: DataRoot = None,
    cache_root: CacheRoot = None,
    limit: Limit = None,
    per_class: PerClass = None,
    skip_broken: SkipBroken = False,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Encode every image once with a pretrained network; streams of the result are fast."""
    from earl.experiments.embedding import embed
    from earl.experiments.loading import DataOptions, load_data
    from earl.experiments.machine import usable_device
    from earl.experiments.options import Options
    from earl.experiments.places import Places
    from earl.nn.backbones import open_backbone

    opened, options = open_backbone(backbone), Options({"data": DataOptions})
    flags = flag_settings(limit, per_class, skip_broken)
    given = options.read(parse_settings(settings or []) | flags)
    chosen = DataOptions(**options.of("data", given))
    with progress_bar(name) as progress:
        dataset = load_data(name, chosen, Places.find(data_root, cache_root), progress)
        found = embed(dataset, opened, out, device=usable_device(device), progress=progress)
    facts = {"folder": str(out), "backbone": backbone, "features": opened.features}
    print_description(facts | {"train": len(found.train), "test": len(found.test)}, as_json)


@app.command()
def download(name: Name, data_root: DataRoot = None, as_json: Json = False) -> None:
    """Download a data set from its publisher, verify it and unpack it."""
    from earl.data.download import download
    from earl.experiments.catalogue import DATASETS
    from earl.experiments.places import Places

    DATASETS.entry(name)
    with progress_bar(name, unit="bytes") as progress:
        folders = download(name, Places.find(data_root).data_root, progress)
    found = [str(folder) for folder in folders]
    more = f" --data-root {data_root}" if data_root else ""
    answer(as_json, {"folders": found}, *found, f"Next: earl data prepare {name}{more}")


def flag_settings(
    limit: int | None, per_class: int | None, skip_broken: bool
) -> "dict[str, bool | int | float | str]":
    """Return the settings that have options of their own."""
    given: dict[str, bool | int | float | str] = {}
    given |= {"limit": limit} if limit is not None else {}
    given |= {"per_class": per_class} if per_class is not None else {}
    given |= {"skip_broken": True} if skip_broken else {}
    return given


def summary(dataset: "Dataset") -> dict[str, Any]:
    """Return what there is to say about a data set that was loaded."""
    c, h, w = dataset.image_shape
    names = dataset.titles
    return {
        "name": dataset.name,
        "source": dataset.source,
        "images": f"{len(dataset.train)} to train, {len(dataset.test)} to test",
        "classes": f"{len(names)}: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}",
        "image": f"{c} x {h} x {w}",
        "mean": ", ".join(f"{v:g}" for v in dataset.mean),
        "std": ", ".join(f"{v:g}" for v in dataset.std),
        "skipped": list(dataset.skipped),
        "notes": list(dataset.notes),
    }


def print_description(about: dict[str, Any], as_json: bool) -> None:
    """Print what is known about a data set, one line for each fact."""
    if as_json:
        print_json(about)
        return
    for name, value in about.items():
        say(f"  {name:<10} {in_words(value)}")


def in_words(value: Any) -> Any:
    """Return a list, or settings by name, as a text of one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return ("; ".join(value) or "none") if isinstance(value, list) else value


@contextmanager
def progress_bar(name: str, unit: str = "images") -> "Iterator[Progress]":
    """Give a function that shows progress on stderr: a bar on a terminal, few lines elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description:>14}"),
        BarColumn(),
        TextColumn(f"{{task.completed:,.0f}}/{{task.total:,.0f}} {unit}"),
        TimeRemainingColumn(),
    )
    shown = [0.0]
    tasks: dict[tuple[str, int], Any] = {}
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:

        def show(what: str, done: int, total: int) -> None:
            if not total:
                return
            if (what, total) not in tasks:
                tasks[what, total] = bar.add_task(f"{what} {name}"[:30], total=total)
            bar.update(tasks[what, total], completed=done)
            late = time.monotonic() - shown[0] > SECONDS_BETWEEN_LINES
            if not console.is_terminal and late and total > FEW:
                shown[0] = time.monotonic()
                console.print(f"{what} {name}: {done:,} of {total:,} {unit}", highlight=False)

        yield show


SECONDS_BETWEEN_LINES = 5.0
FEW = 5000  # images that are prepared before anyone asks
