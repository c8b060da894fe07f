"""The command `earl learn`: teach a model of your own with your own images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earl.cli.options import Json, Settings, SkipBroken, SnapshotSeconds
from earl.cli.text import complain, parse_settings, print_json, say

if TYPE_CHECKING:
    from collections.abc import Generator

    from earl.estimator import EARLClassifier
    from earl.estimator.samples import Lesson

Model = Annotated[Path, typer.Argument(help="The folder of the model; made if it is missing.")]


def learn(
    model: Model,
    images: Annotated[Path, typer.Argument(help="A folder per class, a CSV file, or one image.")],
    label: Annotated[str | None, typer.Option(help="What the image, or the folder, shows.")] = None,
    method: Annotated[str | None, typer.Option(help="See: earl list methods; else earl.")] = None,
    backbone: Annotated[
        str | None,
        typer.Option(help="A network trained before: efficientnet-lite0 or hf:NAME."),
    ] = None,
    frozen: Annotated[
        bool | None, typer.Option(help="Keep the backbone as it is; if it was trained before.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(min=1, help="Pixels of a side; the backbone's own, or 96.")
    ] = None,
    memory_size: Annotated[int | None, typer.Option(min=1, help="Images kept; 500.")] = None,
    max_classes: Annotated[int | None, typer.Option(min=1, help="One more is refused.")] = None,
    steps_per_sample: Annotated[float | None, typer.Option(help="Training steps; 1.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="All draws follow from it; 0.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    settings: Settings = None,
    skip: Annotated[int, typer.Option(min=0, help="Leave so many images out, the first.")] = 0,
    skip_broken: SkipBroken = False,
    snapshot_seconds: SnapshotSeconds = 30.0,
    as_json: Json = False,
) -> None:
    """Teach a model with your images; a new one, or one that goes on."""
    from earl.estimator.samples import find_samples, teach

    given = {
        "method": method,
        "backbone": backbone,
        "frozen": frozen,
        "image_size": image_size,
        "memory_size": memory_size,
        "max_classes": max_classes,
        "steps_per_sample": steps_per_sample,
        "seed": seed,
        "device": device,
        "threads": threads,
        "settings": parse_settings(settings) if settings else None,
    }
    clf = opened(model, {name: value for name, value in given.items() if value is not None})
    samples = find_samples(images, label, seed=clf.seed)[skip:]
    lessons = teach(clf, samples, model, seconds=snapshot_seconds, skip_broken=skip_broken)
    lesson = follow(lessons, clf, skip)
    for broken in lesson.skipped:
        complain(f"left out: {broken}")
    report(clf, model, lesson, as_json)


def opened(folder: Path, given: dict[str, Any]) -> "EARLClassifier":
    """Return the model of a folder, or a new one; what was decided once cannot be changed."""
    from earl.errors import InvalidSetting
    from earl.estimator import EARLClassifier
    from earl.estimator.parameters import Parameters

    if not any(folder.glob("snap-*")) and not any(folder.glob("bad-*")):
        clf = EARLClassifier(**given)
        return clf.set_params(settings=Parameters(**clf.get_params()).typed())
    places = {name: given.pop(name) for name in ("device", "threads") if name in given}
    clf = EARLClassifier.load(folder, **places)
    begun, asked = clf.get_params(), Parameters(**(clf.get_params() | given))
    for name in given:
        if name == "settings" and asked.typed().items() <= dict(begun[name]).items():
            continue
        if getattr(asked, name) != begun[name]:
            raise InvalidSetting(f"{folder} was begun with {name} = {begun[name]!r}; leave it out")
    return clf


def follow(lessons: "Generator[Lesson]", clf: "EARLClassifier", skip: int) -> "Lesson":
    """Teach to the end and show how it goes; the first Ctrl-C or SIGTERM saves and ends."""
    from rich.console import Console

    from earl.cli.progress import stop_on_signal
    from earl.estimator.samples import Lesson

    lesson, console = Lesson(0), Console(stderr=True)
    with stop_on_signal() as stop:
        for lesson in lessons:
            due = max(1, lesson.total // (100 if console.is_terminal else 10))
            if lesson.step % due == 0 or lesson.step == lesson.total:
                console.print(state(lesson, clf), highlight=False, markup=False, soft_wrap=True)
            if stop.number:
                lessons.close()  # saves
                again = f"--skip {skip + lesson.step}"
                complain(f"Stopped and saved. Go on with the same command and {again}")
                raise typer.Exit(128 + stop.number)
    return lesson


def state(lesson: "Lesson", clf: "EARLClassifier") -> str:
    """Return in a line how far teaching has come."""
    history = clf.history
    return (
        f"{lesson.step} of {lesson.total} images, {len(history.classes)} classes, right before "
        f"learning: {100 * history.accuracy:.1f} %, lately {100 * history.recent:.1f} %"
    )


def report(clf: "EARLClassifier", folder: Path, lesson: "Lesson", as_json: bool) -> None:
    """Print what the model is now."""
    history = clf.history
    if as_json:
        print_json(
            {
                "model": str(folder),
                "learned": lesson.step - len(lesson.skipped),
                "skipped": lesson.skipped,
                "samples": history.samples,
                "classes": len(history.classes),
                "accuracy": history.accuracy,
                "recent": history.recent,
                "skipped_steps": history.skipped_steps,
            }
        )
        return
    say(
        f"{folder}: {history.samples} samples of {len(history.classes)} classes; "
        f"{100 * history.accuracy:.1f} % were answered right before they were learned"
    )
    if history.skipped_steps:
        say(f"{history.skipped_steps} training steps led to inf or nan and were undone")
    say(f"Next: earl predict {folder} IMAGE")
