"""Labelled images on disk: a folder per class, a CSV file, or one image."""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

import torch

from earl.data.files import folders, pictures
from earl.data.sets.csv_list import read_rows
from earl.data.sets.folder import find_splits, refuse_splits
from earl.data.splits import TEST
from earl.errors import BrokenImage, DataNotFound, InvalidInput, NoProgress, NotFinite
from earl.estimator.classifier import EARLClassifier
from earl.estimator.saving import Save
from earl.randomness import Randomness
from earl.storage.background import Background
from earl.storage.state import copied

Sample = tuple[Path, str]


def find_samples(path: Path, label: str | None = None, *, seed: int = 0) -> list[Sample]:
    """Return image files with their labels, in the order in which they are to be learned.

    Those of folders come in a mixed order that follows from the seed, those of a CSV file in its
    order, less what its column `split` keeps for tests.
    """
    if path.is_dir():
        if label is None:
            return mixed(in_folders(path), seed)
        return mixed([(path / name, label) for name, _ in pictures(path)], seed)
    if not path.is_file():
        raise DataNotFound(f"there is no file or folder {path}")
    if path.suffix.lower() != ".csv":
        if label is None:
            raise InvalidInput(f"{path} is one image: say what it shows with --label")
        return [(path, label)]
    if label is not None:
        raise InvalidInput(f"{path} names its labels; leave --label out")
    rows = [row for row in read_rows(path) if row.get("split", "").lower() not in TEST]
    return [(path.parent / row["path"], row["label"]) for row in rows]


def in_folders(path: Path) -> list[Sample]:
    """Return the images of folders that are named after their class."""
    there = folders(path)
    if not there:
        raise DataNotFound(f"{path} holds no folders; expected <class>/<image>, or give --label")
    if splits := find_splits(path, there):
        first = next(iter(splits.values()))
        raise DataNotFound(f"{path} holds splits, not classes; name one of them: {path / first}")
    refuse_splits(path, there)
    found = [(path / name / file, name) for name in there for file, _ in pictures(path / name)]
    if not found:
        raise DataNotFound(f"{path} holds folders without images")
    return found


def mixed(samples: list[Sample], seed: int) -> list[Sample]:
    """Return the samples in an order that follows from the seed."""
    order = torch.randperm(len(samples), generator=Randomness(seed).at(0, "order"))
    return [samples[place] for place in order.tolist()]


@dataclass
class Lesson:
    """How far teaching has come."""

    total: int
    step: int = 0
    skipped: list[str] = field(default_factory=list)  # broken images, and why


def teach(
    clf: EARLClassifier,
    samples: list[Sample],
    folder: Path,
    *,
    seconds: float = 30.0,
    skip_broken: bool = False,
) -> Generator[Lesson]:
    """Learn image files one by one, each under its path as a key; yield after every one.

    The model is saved every so many seconds while it goes on learning, and in the end, also if the
    generator is closed early or an image is broken, and if no step is taken any more; not if
    numbers are none by now. A save that failed is an error after the next image.
    """
    lesson, saved, sound, beside = Lesson(len(samples)), monotonic(), True, Background()
    try:
        for path, label in samples:
            try:
                clf.learn_one(path, label, key=str(path))
            except BrokenImage as broken:
                if not skip_broken:
                    raise
                lesson.skipped.append(str(broken))
            lesson.step += 1
            beside.check()
            if monotonic() - saved >= seconds and not beside.busy:
                save_beside(clf, folder, beside)
                saved = monotonic()
            yield lesson
    except NotFinite as error:
        sound = isinstance(error, NoProgress)  # with which all is as it was
        raise
    finally:
        beside.wait()
        if sound:
            clf.save(folder)


def save_beside(clf: EARLClassifier, folder: Path, beside: Background) -> None:
    """Copy the model as it is now, and have it written while it goes on learning."""
    save = Save.of(clf._current())
    save = replace(save, state=copied(save.state))

    def write() -> None:
        clf._home = save.write(folder, clf._home)

    beside.start(write)
