"""Reads the stream files that other groups have published: JSON lists of image files in order.

EARL and SDP publish one object per stream, {"cls_dict": {class: number}, "stream": [...],
"cls_addition": [...]}, whose records are {"file_name": "train/frog/0001.png", "klass": "frog",
"label": 0, "time": 0.0}. i-Blurry publishes one list of such records per task, in files that end in
_task0.json, _task1.json, ...; there the file may be called "filepath", and there is no time.
Labels are numbered differently in every file: classes are known by their names.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import torch

from earl.data.dataset import Dataset
from earl.data.streams import Schedule, images_by_class, without_boundaries
from earl.errors import StreamFileError, suggest

TASKS = 5  # of the artificial boundaries where a file names none, as in EARL's experiments


@dataclass(frozen=True)
class Record:
    """One image of a published stream: its class, its file, its time if it has one."""

    klass: str
    file: PurePosixPath
    time: float | None


def schedule(documents: Sequence[Any], dataset: Dataset) -> Schedule:
    """Return the order that the files of one stream (one, or one per task) give to a data set."""
    parts = [read_records(document) for document in documents]
    records = [record for part in parts for record in part]
    if not records:
        raise StreamFileError("the file holds no images")
    if all(record.file.parts[0] in ("test", "val") for record in records):
        raise StreamFileError("the file lists test images; a stream is made of training images")
    indices, note = find_images(records, dataset)
    if twice := [i for i, count in Counter(indices).items() if count > 1]:
        file = records[indices.index(twice[0])].file
        raise StreamFileError(f"{file} arrives more than once; a stream holds an image only once")
    order, notes = torch.tensor(indices), (note,) if note else ()
    ends = task_ends(parts, records)
    if ends is None:
        plain = without_boundaries(order, min(TASKS, len(order)))
        return Schedule(order, plain.boundaries, artificial=True, notes=notes)
    return Schedule(order, ends, notes=notes)


def read_records(document: Any) -> list[Record]:
    """Return the records of one decoded file."""
    listed = document.get("stream") if isinstance(document, dict) else document
    if not isinstance(listed, list):
        raise StreamFileError(
            "it is neither a stream that earl has made nor a list of images as EARL, SDP and "
            "i-Blurry publish them"
        )
    return [read_record(number, entry) for number, entry in enumerate(listed)]


def read_record(number: int, entry: Any) -> Record:
    fields: Mapping[str, Any] = entry if isinstance(entry, dict) else {}
    klass, file = fields.get("klass"), fields.get("file_name", fields.get("filepath"))
    time = fields.get("time")
    if not isinstance(klass, str) or not isinstance(file, str) or not PurePosixPath(file).parts:
        raise StreamFileError(
            f"record {number} needs the texts 'klass' and 'file_name' (or 'filepath'); it is "
            f"{str(entry)[:80]}"
        )
    return Record(
        klass, PurePosixPath(file), float(time) if isinstance(time, int | float) else None
    )


def task_ends(
    parts: Sequence[Sequence[Record]], records: Sequence[Record]
) -> tuple[int, ...] | None:
    """Return the announced boundaries of a file, or None if it has none.

    Files of tasks end tasks. In a single file, a time that many images share is a task or a bucket;
    on a Gaussian schedule every image has a time of its own.
    """
    if len(parts) > 1:
        ends = torch.tensor([len(part) for part in parts]).cumsum(0).tolist()
        return tuple(ends[:-1])
    times = [record.time for record in records]
    if None in times or len(set(times)) > len({record.klass for record in records}):
        return None
    return tuple(step for step in range(1, len(times)) if times[step] != times[step - 1])


def find_images(records: Sequence[Record], dataset: Dataset) -> tuple[list[int], str]:
    """Return the index of every record's image in the training split, and how they were found.

    By file name, if the split knows its file names; else by number, if files are numbered from 1
    within their class, as by the tool that unpacks CIFAR for these groups; else the first record of
    a class is the first image of that class, and so on, and a note says so.
    """
    if dataset.train.names is not None:
        return by_name(records, dataset, dataset.train.names), ""
    ids = class_ids(records, dataset)
    there = images_by_class(dataset.train.labels)
    members = {c: there[c].tolist() if c in there else [] for c in ids.values()}
    numbers = [int(r.file.stem) if re.fullmatch("[0-9]+", r.file.stem) else 0 for r in records]
    sizes = [len(members[ids[r.klass]]) for r in records]
    if all(1 <= number <= size for number, size in zip(numbers, sizes, strict=True)):
        found = zip(records, numbers, strict=True)
        return [members[ids[r.klass]][number - 1] for r, number in found], ""
    check_counts(records, ids, members, dataset)
    left = {c: iter(indices) for c, indices in members.items()}
    return [next(left[ids[r.klass]]) for r in records], (
        "the stream file names images that cannot be found by name in this data set: classes "
        "arrive as published, but each image stands for another one of its class"
    )


def by_name(records: Sequence[Record], dataset: Dataset, names: Sequence[str]) -> list[int]:
    where: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        where[name].append(index)
    if missing := [r for r in records if r.file.stem not in where]:
        raise StreamFileError(
            f"{len(missing)} of its {len(records)} images are not in the training images of "
            f"{dataset.name}, the first is {missing[0].file}; use the data set it was made for"
        )
    labels: list[int] = dataset.train.labels.tolist()
    if any(len(where[r.file.stem]) > 1 for r in records):  # names that are unique in a class only
        ids = class_ids(records, dataset)
        found = [[i for i in where[r.file.stem] if labels[i] == ids[r.klass]] for r in records]
    else:
        found = [where[r.file.stem] for r in records]
    classes: dict[str, int] = {}
    for record, candidates in zip(records, found, strict=True):
        label = labels[candidates[0]] if len(candidates) == 1 else None
        if label is None or classes.setdefault(record.klass, label) != label:
            raise StreamFileError(
                f"{record.file} is not one image of the class {record.klass!r} in {dataset.name}; "
                "use the data set the file was made for"
            )
    return [candidates[0] for candidates in found]


def class_ids(records: Sequence[Record], dataset: Dataset) -> dict[str, int]:
    """Return the class id of every class name in the file; "aquarium fish" is "aquarium_fish"."""
    known = {plain(name): c for c, name in enumerate(dataset.class_names)}
    ids = {}
    for klass in dict.fromkeys(record.klass for record in records):
        if plain(klass) not in known:
            raise StreamFileError(
                f"{dataset.name} has no class {klass!r}; {suggest(klass, dataset.class_names[:20])}"
            )
        ids[klass] = known[plain(klass)]
    return ids


def plain(name: str) -> str:
    return re.sub(r"\W+", "_", name.lower())


def check_counts(
    records: Sequence[Record],
    ids: Mapping[str, int],
    members: Mapping[int, Sequence[int]],
    dataset: Dataset,
) -> None:
    for klass, count in Counter(record.klass for record in records).items():
        if count > (there := len(members[ids[klass]])):
            raise StreamFileError(
                f"it holds {count} images of {klass!r}, {dataset.name} only {there}; use the data "
                "set it was made for"
            )
