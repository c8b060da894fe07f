"""The command `earl learn`: teach a model of your own with your own images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earl.cli import model_options as options
from earl.cli.options import Json, Settings, SkipBroken, SnapshotSeconds
from earl.cli.text import complain, print_json, say

if TYPE_CHECKING:
    from collections.abc import Generator

    from earl.estimator import EARLClassifier
    from earl.estimator.samples import Lesson

Model = Annotated[Path, typer.Argument(help="The folder of the model; made if it is missing.")]


def learn(
    model: Model,
    images: Annotated[Path, typer.Argument(help="A folder per class, a CSV file, or one image.")],
    label: Annotated[str | None, typer.Option(help="What the image, or the folder, shows.")] = None,
    method: options.Method = None,
    backbone: options.Backbone = None,
    frozen: options.Frozen = None,
    image_size: options.ImageSize = None,
    memory_size: options.MemorySize = None,
    max_classes: options.MaxClasses = None,
    steps_per_sample: options.Steps = None,
    seed: options.Seed = None,
    device: options.Device = None,
    threads: options.Threads = None,
    settings: Settings = None,
    skip: Annotated[int, typer.Option(min=0, help="Leave so many images out, the first.")] = 0,
    skip_broken: SkipBroken = False,
    snapshot_seconds: SnapshotSeconds = 30.0,
    as_json: Json = False,
) -> None:
    """Teach a model with your images; a new one, or one that goes on."""
    given = options.parameters_of(locals())
    from earl.estimator.samples import find_samples, teach

    clf = opened(model, given)
    samples = find_samples(images, label, seed=clf.seed)[skip:]
    lessons = teach(clf, samples, model, seconds=snapshot_seconds, skip_broken=skip_broken)
    lesson = follow(lessons, clf, skip)
    report(clf, model, lesson, as_json)


def opened(folder: Path, given: dict[str, Any]) -> "EARLClassifier":
    """Return the model of a folder, or a new one; what was decided once cannot be changed.

    What is None was not given.
    """
    from earl.errors import InvalidSetting
    from earl.estimator import EARLClassifier
    from earl.estimator.parameters import Parameters

    given = {name: value for name, value in given.items() if value is not None}
    if not any(folder.glob("snap-*")) and not any(folder.glob("bad-*")):
        clf = EARLClassifier(**given)
        return clf.set_params(settings=Parameters(**clf.get_params()).typed())
    places = {name: given.pop(name) for name in ("device", "threads") if name in given}
    clf = EARLClassifier.load(folder, **places)
    begun = clf.get_params()
    changed = [name for name in given if name != "settings" and given[name] != begun[name]]
    if not changed and "settings" in given:
        asked = Parameters(**(begun | {"settings": given["settings"]})).typed()
        changed = [] if asked.items() <= dict(begun["settings"]).items() else ["settings"]
    if changed:
        name = changed[0]
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
    """Print what was left out, and what the model is now."""
    for broken in lesson.skipped:
        complain(f"left out: {broken}")
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
