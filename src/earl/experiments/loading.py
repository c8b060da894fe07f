"""Loading a data set by its name, with the options that every data set has."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from earl.data.dataset import Dataset
from earl.data.reduce import reduced, rotated, with_smaller_exam, with_validation
from earl.data.seals import fingerprint
from earl.data.source import Progress, Source, silent
from earl.errors import InvalidSetting, RunConflict
from earl.experiments.catalogue import DATASETS
from earl.experiments.machine import workers
from earl.experiments.names import Name
from earl.experiments.places import Places

MAY_CHANGE = ("source", "skipped", "class_words")  # facts about data that no result depends on


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The options of a data set, whichever it is; 0 and "" leave things as they are."""

    limit: int = 0
    per_class: int = 0
    validation: float = 0.0
    exam_per_class: int = 0
    rotate: int = 0
    skip_broken: bool = False
    image_size: int = 0
    hold_out: float = 0.2
    class_list: str = ""
    image_column: str = ""
    label_column: str = ""
    mean: str = ""
    std: str = ""


def source_of(
    name: Name,
    options: DataOptions,
    places: Places,
    workers: int = 1,
    progress: Progress = silent,
) -> Source:
    """Return what a loader is given: places, and the options that are meant for loaders."""
    taken = {field.name for field in fields(Source)} - {"mean", "std"}
    return Source(
        root=places.data_root,
        cache=places.cache_root,
        path=name.path,
        workers=workers,
        progress=progress,
        mean=numbers("mean", options.mean),
        std=numbers("std", options.std),
        **{name: value for name, value in asdict(options).items() if name in taken},
    )


def load_data(
    name: str,
    options: DataOptions | None = None,
    places: Places | None = None,
    progress: Progress = silent,
) -> Dataset:
    """Return a data set: found, prepared if need be, divided, reduced and turned."""
    options, places, parsed = options or DataOptions(), places or Places.find(), Name.read(name)
    dataset = DATASETS[parsed.kind](source_of(parsed, options, places, workers(), progress))
    dataset = replace(dataset, images_sha256=images_sha256(dataset))
    dataset = with_validation(dataset, options.validation)
    dataset = with_smaller_exam(dataset, options.exam_per_class)
    dataset = reduced(dataset, limit=options.limit, per_class=options.per_class)
    return rotated(dataset, options.rotate)


def images_sha256(dataset: Dataset) -> str:
    """Return the fingerprint of all images; it is made here if the loader made none."""
    return dataset.images_sha256 or fingerprint(dataset.train.images, dataset.test.images)


def facts_of_data(dataset: Dataset) -> dict[str, Any]:
    """Return what a run records about its data: a run that goes on must find the same."""
    sum_ = hashlib.sha256()
    for split in (dataset.train, dataset.test):
        for column in (split.labels, split.domains):
            sum_.update(b"" if column is None else column.numpy().tobytes())
    return {
        "source": dataset.source,
        "train_images": len(dataset.train),
        "test_images": len(dataset.test),
        "classes": len(dataset.class_names),
        "image": list(dataset.image_shape),
        "labels_sha256": sum_.hexdigest(),
        "images_sha256": images_sha256(dataset),
        "skipped": list(dataset.skipped),
        "class_names": list(dataset.class_names),
        **({"class_words": list(dataset.words)} if dataset.words else {}),
    }


def check_unchanged(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Raise RunConflict if data are not those that a run began with; return what to note."""
    for name, value in before.items():
        if name not in MAY_CHANGE and now.get(name) != value:
            was, is_now = first_difference(value, now.get(name))
            raise RunConflict(
                f"the data set has changed since this run began: {name} was {was}, and is {is_now} "
                "now; put the old files back, or begin another run"
            )
    if "images_sha256" not in before:
        return ["begun before runs recorded their images: whether they are the same is not known"]
    return []


def first_difference(before: object, now: object) -> tuple[object, object]:
    """Return two values; of two long lists only the first members that differ."""
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now) > 3:
        return next(((a, b) for a, b in zip(before, now, strict=True) if a != b), (before, now))
    return before, now


def numbers(name: str, text: str) -> tuple[float, ...]:
    """Return numbers that are divided by commas."""
    try:
        return tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise InvalidSetting(f"{name} = {text!r} must be numbers, such as 0.49,0.48,0.45") from None
