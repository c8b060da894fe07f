"""The command `earl client learn`: feed a service that runs."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earl.cli.options import DataRoot, Json
from earl.cli.serve import need_extra
from earl.cli.text import answer, complain

if TYPE_CHECKING:
    from earl.service.client import Client
    from earl.service.feeding import Fed, Lesson

app = typer.Typer(
    help="Teach a service that runs, with a token from EARL_TOKEN.", no_args_is_help=True
)

Url = Annotated[str, typer.Option(help="Where the service is.")]
TokenFile = Annotated[
    Path | None, typer.Option(help="A file that holds the token; else EARL_TOKEN.")
]


@app.callback()
def client() -> None:
    """Teach a service that runs, with a token from EARL_TOKEN."""


@app.command()
def learn(
    images: Annotated[
        str, typer.Argument(help="A folder per class, a CSV file, one image, or a stream file.")
    ],
    url: Url = "http://127.0.0.1:8765",
    token_file: TokenFile = None,
    label: Annotated[str | None, typer.Option(help="What the image, or the folder, shows.")] = None,
    source: Annotated[str | None, typer.Option(help="Where the samples come from.")] = None,
    dataset: Annotated[str | None, typer.Option(help="The data set of a stream file.")] = None,
    data_root: DataRoot = None,
    seed: Annotated[int, typer.Option(min=0, help="The order follows from it.")] = 0,
    as_json: Json = False,
) -> None:
    """Feed a service with images; started again, it goes on where it stopped."""
    need_extra()
    from earl.service.client import Client
    from earl.service.feeding import feed

    lesson = lesson_of(images, label, dataset, data_root, seed)
    with Client(url, token_of(token_file)) as client:
        fed = follow(client, feed(client, lesson, source), len(lesson))
        report(fed, client, as_json)


def token_of(file: Path | None) -> str | None:
    """Return the token that was given in a file or in the environment."""
    if file is None:
        return os.environ.get("EARL_TOKEN")
    from earl.storage.reading import read_text

    return read_text(file, 4096).strip()


def lesson_of(
    images: str, label: str | None, dataset: str | None, data_root: Path | None, seed: int
) -> "Lesson":
    """Return what is to be taught."""
    from earl.estimator.samples import find_samples
    from earl.service.feeding import Files, Scheduled

    path = Path(images.removeprefix("file:"))
    if path.suffix != ".json":
        return Files(find_samples(path, label, seed=seed))
    from earl.cli.stream import find

    _, _, data, schedule = find(images, dataset, seed, {}, data_root)
    return Scheduled(data, schedule)


def follow(client: "Client", steps: Any, total: int) -> "Fed":
    """Teach to the end and show how it goes; the first Ctrl-C or SIGTERM ends it at once.

    It may wait for a service that does not answer. What was sent counts once, so nothing is lost.
    """
    from rich.console import Console

    from earl.cli.progress import Stopped, stop_on_signal
    from earl.service.feeding import Fed

    fed, console, shown = Fed(total), Console(stderr=True), 0.0
    try:
        with stop_on_signal(at_once=True):
            for fed in steps:
                due = time.monotonic() - shown >= (1 if console.is_terminal else 10)
                if due or fed.done == fed.total:
                    shown = time.monotonic()
                    line = state(fed, client)
                    console.print(line, highlight=False, markup=False, soft_wrap=True)
    except Stopped as stopped:
        complain("Stopped. Go on with the same command")
        raise typer.Exit(128 + stopped.number) from None
    return fed


def state(fed: "Fed", client: "Client") -> str:
    """Return in a line how far teaching has come."""
    status = client.status()
    return (
        f"{fed.done} of {fed.total} images sent, {status['waiting']} wait; {status['classes']} "
        f"classes, right before learning: {100 * status['accuracy']:.1f} %, lately "
        f"{100 * status['recent']:.1f} %"
    )


def report(fed: "Fed", client: "Client", as_json: bool) -> None:
    """Print what was taught; the service may still be learning it."""
    for why in fed.refused:
        complain(f"left out: {why}")
    status = client.status()
    came, refused = fed.done - fed.before, len(fed.refused)
    facts = {"sent": came - refused, "before": fed.before, "refused": fed.refused, "seq": fed.seq}
    facts |= {name: status[name] for name in ("samples", "accuracy", "recent")}
    said = f"{came} images sent, {fed.before} were there, {refused} left out"
    answer(as_json, facts, said)
