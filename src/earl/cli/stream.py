"""The commands `earl stream make` and `earl stream show`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earl.cli.options import DataRoot, DatasetName, Json, Settings
from earl.cli.output import keep_fonts, writable
from earl.cli.text import complain, parse_settings, print_json, say
from earl.errors import InvalidSetting

if TYPE_CHECKING:
    from earl.data.dataset import Dataset
    from earl.data.streams import Schedule
    from earl.experiments.recipes import Value

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Make streams as small files, and look at them before you run.",
)

OrderSeed = Annotated[int, typer.Option(min=0, help="The order follows from it.")]
Sigma = Annotated[float | None, typer.Option(help="Short for --set sigma=...")]
Tasks = Annotated[int | None, typer.Option(help="Short for --set tasks=...")]


@app.command("make")
def make_file(
    setup: Annotated[str, typer.Argument(help="See: earl list streams")],
    dataset: DatasetName,
    seed: OrderSeed = 1,
    settings: Settings = None,
    sigma: Sigma = None,
    tasks: Tasks = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write.")] = None,
    embed: Annotated[bool, typer.Option("--embed", help="Write the order itself too.")] = False,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Write a stream to a file: its recipe, and a hash of the order that must come out."""
    from earl.experiments.streamfile import make

    given = gather(settings, sigma, tasks)
    name, data = load(dataset, given, data_root)
    recipe = make(setup, name, data, seed=seed, settings=given, embed=embed)
    path = writable(out or Path(f"{name}-{setup}-seed-{seed}.json"))
    recipe.write(path)
    about = describe(recipe.schedule(name, data), data)
    if as_json:
        print_json({"file": str(path), "sha256": recipe.sha256, **about})
        return
    print_description(about)
    say(f"\n{path}\nNext: earl run --method earl --dataset {dataset} --stream file:{path}")


@app.command("show")
def show_stream(
    stream: Annotated[str, typer.Argument(help="A stream file, or a setup.")],
    dataset: Annotated[
        str | None, typer.Option(help="The data set; needed unless the file names it.")
    ] = None,
    seed: OrderSeed = 1,
    settings: Settings = None,
    sigma: Sigma = None,
    tasks: Tasks = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A picture to draw.")] = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Print what a stream is like; with -o, draw which class arrives when."""
    given = gather(settings, sigma, tasks)
    name, title, data, schedule = find(stream, dataset, seed, given, data_root)
    about = describe(schedule, data)
    if out is not None:
        draw(data, schedule, title, writable(out))
    for note in schedule.notes:
        complain(f"note: {note}")
    if as_json:
        print_json({"dataset": name, **about} | ({"picture": str(out)} if out else {}))
        return
    say(title)
    print_description(about)
    if out is not None:
        say(f"\n{out}")


def find(
    stream: str,
    dataset: str | None,
    seed: int,
    given: "dict[str, Value]",
    data_root: Path | None,
) -> "tuple[str, str, Dataset, Schedule]":
    """Return the name of the data set, a title, the data set and the order of arrival."""
    from earl.experiments.catalogue import DATASETS, STREAMS
    from earl.experiments.streamfile import StreamFile, plan

    path = Path(stream.removeprefix("file:"))
    if stream in STREAMS or not (stream.startswith("file:") or path.suffix or path.exists()):
        STREAMS.entry(stream)
        name, data = load(dataset, given, data_root)
        schedule = plan(stream, name, data, seed=seed, settings=given)
        return name, f"{stream} stream of {name}, seed {seed}", data, schedule
    file = StreamFile.open(path)
    if dataset is None and file.recipe is not None and file.recipe.dataset in DATASETS:
        dataset = file.recipe.dataset
    name, data = load(dataset, given, data_root)
    if given:
        fixed = ", ".join(given)
        raise InvalidSetting(f"{path} is a file, whose options are fixed: {fixed} cannot be set")
    return name, f"{path.name}, a stream of {name}", data, file.schedule(name, data)


def load(
    dataset: str | None, given: "dict[str, Value]", data_root: Path | None
) -> "tuple[str, Dataset]":
    """Return a short name and a data set; its options are taken out of the given ones."""
    from earl.experiments.loading import DataOptions, load_data
    from earl.experiments.names import Name, dataset_label
    from earl.experiments.options import Options
    from earl.experiments.places import Places
    from earl.experiments.recipes import recipe

    if dataset is None:
        raise InvalidSetting("say of which data set: --dataset NAME; see: earl list datasets")
    name, options = Name.read(dataset), Options({"data": DataOptions})
    own = {n: given.pop(n) for n in list(given) if n in options.names()}
    values: dict[str, Any] = options.complete(recipe(str(name)), own)
    data = load_data(str(name), DataOptions(**values), Places.find(data_root))
    return dataset_label(str(name)), data


def gather(
    settings: list[str] | None, sigma: float | None, tasks: int | None
) -> "dict[str, Value]":
    """Return the options of a setup from --set and its short forms."""
    given = {"sigma": sigma, "tasks": tasks}
    return parse_settings(settings or []) | {n: v for n, v in given.items() if v is not None}


def describe(schedule: "Schedule", data: "Dataset") -> dict[str, Any]:
    """Return what there is to say about a stream."""
    from earl.data.streams import classes_seen

    seen = classes_seen(data.train.labels[schedule.order])
    shares = {share: seen[max(0, len(seen) * share // 100 - 1)] for share in (1, 10, 25, 50, 75)}
    return {
        "samples": len(schedule.order),
        "samples_left_out": len(data.train) - len(schedule.order),
        "classes": int(seen[-1]),
        "classes_seen": {f"{share} %": int(count) for share, count in shares.items()},
        "boundaries": list(schedule.boundaries),
        "artificial": schedule.artificial,
    }


def print_description(about: dict[str, Any]) -> None:
    left_out = about["samples_left_out"]
    ends = ", ".join(f"{end:,}" for end in about["boundaries"][:20])
    more = ", …" if len(about["boundaries"]) > 20 else ""
    kind = " (artificial)" if about["artificial"] and ends else ""
    say(f"  samples       {about['samples']:,}" + (f", {left_out:,} left out" if left_out else ""))
    say(f"  classes       {about['classes']}")
    say("  classes seen  " + ", ".join(f"{n} at {s}" for s, n in about["classes_seen"].items()))
    say(f"  boundaries    {ends or 'none'}{more}{kind}")


def draw(data: "Dataset", schedule: "Schedule", title: str, path: Path) -> None:
    keep_fonts()
    from earl.report.figures.canvas import check_picture
    from earl.report.figures.stream import draw_stream

    check_picture(path)
    labels = data.train.labels[schedule.order]
    draw_stream(labels, schedule, data.titles, title, path)
