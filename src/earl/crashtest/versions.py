"""A7: states of other formats and other configurations are refused by name, or mean the same."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from earl.cli.learn import opened
from earl.crashtest.forging import forge
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import in_child
from earl.crashtest.small import of_images, ready
from earl.crashtest.subjects import ModelSubject, RunSubject, silent, stop_after
from earl.errors import EarlError, InvalidSetting, RunConflict, SnapshotError
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory
from earl.storage.manifest import FORMAT_VERSION

NEWER = FORMAT_VERSION + 1
OTHER = {"method": "er", "backbone": "efficientnet-lite0"}
CHANGES_WITH = {"frozen": "d"}  # it brings other settings, and the first of them is named
HARMLESS = ("device", "threads")  # of a model: where it calculates


def versions(trial: Trial) -> Found:
    """Open a model and a run with every field changed; the sabotage compares no run."""
    ready()
    model, run = trial.place / "model", trial.place / "run"
    in_child(lambda: ModelSubject(model, 6, every=3).live(silent))
    in_child(lambda: stop_after(RunSubject(run, 16, every=4), saves=2))
    if trial.sabotage:
        RunDirectory._check_same = lambda run, stored: None  # type: ignore[method-assign]
    found = trial.found(cases=0, refused=0, harmless=0, silent=0)
    cases = [*formats(trial, model, run), *of_model(model), *of_run(run)]
    for name, word, act in cases[: trial.count]:
        found.figures["cases"] += 1
        try:
            act()
        except (InvalidSetting, RunConflict, SnapshotError) as refusal:
            found.figures["refused"] += 1
            found.expect(word in str(refusal), f"{name}: {word!r} is not in {str(refusal)[:200]!r}")
            found.expect(word != "", f"{name}: refused with {str(refusal)[:200]!r}")
        else:
            kind = "silent" if word else "harmless"
            found.figures[kind] += 1
            found.expect(not word, f"{name}: it was opened as if nothing were different")
    return found


Case = tuple[str, str, Callable[[], object]]  # its name, what the refusal must name, and the act


def formats(trial: Trial, model: Path, run: Path) -> Iterator[Case]:
    """Yield snapshots of a newer format, whose refusal names both versions."""
    for word in (f"format {NEWER}", f"up to {FORMAT_VERSION}"):
        for place, act in (
            (model, lambda path: opened(path, {})),
            (run, lambda path: RunDirectory(path).learner()),
        ):
            copy = trial.place / f"{place.name}-{word.replace(' ', '-')}"
            shutil.copytree(place, copy)
            for snapshot in copy.rglob("snap-*"):
                forge(snapshot, lambda about: about.update(format_version=NEWER))
            yield f"{place.name}, {word}", word, lambda act=act, copy=copy: act(copy)


def of_model(path: Path) -> Iterator[Case]:
    """Yield a model that is opened with each of its parameters changed."""
    for name, value in of_images().get_params().items():
        if name == "settings":
            continue
        word, changed = "" if name in HARMLESS else name, {name: OTHER.get(name, other(value))}
        yield f"model, {name}", word, lambda given=changed: opened(path, dict(given))
    for name, value in (of_images().settings or {}).items():
        given = {"settings": {name: other(value)}}
        yield f"model, {name}", name, lambda given=given: opened(path, dict(given))


def of_run(path: Path) -> Iterator[Case]:
    """Yield a run that is opened with each of its names and settings changed."""
    begun = RunDirectory(path).experiment
    names = {"method": "er", "dataset": "digits", "stream": "disjoint", "seed": begun.seed + 1}
    for name, value in names.items():
        fields = begun.as_dict() | {name: value}
        yield f"run, {name}", name, lambda fields=fields: reopened(path, fields)
    for name in begun.values():
        fields = changed(begun, name)
        if fields is not None:
            word = CHANGES_WITH.get(name, name)
            yield f"run, {name}", word, lambda fields=fields: reopened(path, fields)


def changed(begun: Experiment, name: str) -> dict[str, Any] | None:
    """Return the experiment with another value of one setting; None if it has no other."""
    value, kind = begun.values()[name], begun.options()[name].kind
    fields = begun.as_dict()
    for another in (other(value), *get_args(kind), f"{value}x"):
        try:
            given = fields | {"settings": {**fields["settings"], name: another}}
            if Experiment.from_dict(given).values()[name] != value:
                return given
        except EarlError:  # not allowed, or not beside the rest
            continue
    return None


def reopened(path: Path, fields: dict[str, Any]) -> None:
    """Open a run as another experiment."""
    RunDirectory(path, Experiment.from_dict(fields))


def other(value: Any) -> Any:
    """Return another number or truth; of a text the same."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if value else 1
    return value
