"""Published pictures: figures of records that are kept, drawn anew where the records changed."""

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image

from earl.errors import DataNotFound, InvalidSetting
from earl.experiments.catalogue import FIGURES
from earl.experiments.runs.records import RunRecord, choose_runs
from earl.report.results.description import Description, Picture
from earl.report.results.pages import records
from earl.storage.reading import read_text

MADE_OF = "Records"  # the field of a picture that says which records it shows
LARGEST = 1 << 22  # bytes of a page


def stale_pictures(description: Description) -> dict[Path, Picture]:
    """Return the pictures that are not there, or do not show these records, by their files.

    Other versions of matplotlib draw the same picture with other bytes, so the records are compared
    and not the bytes. A picture that has no records yet is left out. A page must show it.
    """
    pages = [read_text(description.root / page, LARGEST) for page in description.pages]
    found_runs, stale = functools.cache(records), {}  # several pictures show the same
    for picture in description.pictures.values():
        if not any(Path(picture.file).name in page for page in pages):
            raise InvalidSetting(f"no page shows the picture {picture.file}")
        path = description.root / picture.file
        runs = runs_of(description, picture, found_runs)
        if runs and shown_in(path) != records_of(picture, runs):
            stale[path] = picture
    return stale


def draw_pictures(description: Description) -> list[Path]:
    """Draw the pictures that are stale; return which."""
    stale = stale_pictures(description)
    if stale:  # which takes matplotlib
        from earl.report.figures.canvas import save
    for path, picture in stale.items():
        runs = runs_of(description, picture)
        path.parent.mkdir(parents=True, exist_ok=True)
        save(
            FIGURES[picture.figure](runs, title=picture.title, allow_mixed=True),
            path,
            {MADE_OF: records_of(picture, runs)},
        )
    return list(stale)


def runs_of(
    description: Description, picture: Picture, read: Callable[[Path], list[RunRecord]] = records
) -> list[RunRecord]:
    """Return the finished runs that a picture shows; none if they are not there yet."""
    try:
        there = read(description.path.parent / picture.runs)
        chosen = choose_runs(there, picture.where) if there else []
    except (DataNotFound, KeyError):
        return []
    return [run for run in chosen if run.finished]


def records_of(picture: Picture, runs: Sequence[RunRecord]) -> str:
    """Return a hash of what is drawn and of the histories that it is drawn of."""
    seals = sorted((run.name, run.summary["sha256"]) for run in runs if run.summary)
    what = [picture.figure, picture.title, seals]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def shown_in(path: Path) -> str:
    """Return which records a picture shows, as it says itself."""
    if not path.is_file():
        return ""
    with Image.open(path, formats=["PNG"]) as image:
        return str(image.info.get(MADE_OF, ""))
