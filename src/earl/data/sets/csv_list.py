"""Your own images in a list: a CSV file with the columns path, label and perhaps time and split."""

import math
from collections.abc import Iterator
from pathlib import Path

from earl.data.cache import open_dataset
from earl.data.dataset import Dataset
from earl.data.files import FileList, found_files
from earl.data.source import Found, Source
from earl.data.splits import TEST, TRAIN
from earl.data.texts import read_table
from earl.errors import DataNotFound, InvalidInput
from earl.storage.printable import slug

COLUMNS = ("path", "label", "time", "split")


def load(source: Source) -> Dataset:
    """Load the images that a CSV file lists."""
    return open_dataset(find(source), source)


def find(source: Source) -> Found:
    """Find a list of the user's."""
    path = source.own()
    if not path.is_file():
        raise DataNotFound(f"{path} is not a file; expected a CSV file with path,label")
    name = f"csv-{slug(path.stem)}"
    layout = f"path,label; {source.hold_out:g} held out"
    return found_files(name, layout, path.parent, lambda: walk_table(path, source))


def walk_table(path: Path, source: Source) -> FileList:
    """List the images of a CSV file; paths are relative to its folder, or absolute."""
    found = FileList(list_file=path)
    lines = list(read_rows(path))
    timed = [line for line in lines if line.get("time", "")]
    if timed and len(timed) != len(lines):
        raise InvalidInput(f"{path}: {len(lines) - len(timed)} of {len(lines)} lines have no time")
    buckets = number_times([line["time"] for line in timed])
    splits = {line.get("split", "") for line in lines}
    for line in lines:
        rows = found.test if line.get("split", "").lower() in TEST else found.train
        rows.add(line["path"], line["label"])
        rows.domains.extend([buckets[line["time"]]] if timed else [])
        stamp(found, path.parent, line)
    if splits <= {""}:
        found.hold_out(source.hold_out)
        share = f"{source.hold_out:g}"
        found.notes.append(f"there is no column split: {share} of each class is held out")
    return found


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield each line of a CSV file, checked; of its columns, those that we know."""
    seen: dict[str, int] = {}
    for number, line in read_table(path):
        where = f"{path}, line {number}"
        if number == 1:
            check_names(path, list(line))
            continue
        read = {name: line[name] for name in COLUMNS if name in line}
        if not read["path"] or not read["label"]:
            raise InvalidInput(f"{where}: path and label must not be empty")
        if read["path"] in seen:
            raise InvalidInput(f"{where}: {read['path']} is in line {seen[read['path']]}, too")
        if "split" in read and read["split"].lower() not in (*TRAIN, *TEST):
            raise InvalidInput(f"{where}: split {read['split']!r} is neither train nor test")
        seen[read["path"]] = number
        yield read


def check_names(path: Path, names: list[str]) -> None:
    if not {"path", "label"} <= set(names):
        raise InvalidInput(
            f"{path} has the columns {', '.join(names)[:200] or '(none)'}; its first line must "
            "name path and label, and may name time and split"
        )


def number_times(times: list[str]) -> dict[str, int]:
    """Return the place of each time among all of them: as numbers if all are, else as text."""
    different = set(times)
    try:
        if any(math.isnan(float(text)) for text in different):  # has no place among numbers
            raise ValueError
        return {text: place for place, text in enumerate(sorted(different, key=float))}
    except ValueError:
        return {text: place for place, text in enumerate(sorted(different))}


def stamp(found: FileList, root: Path, line: dict[str, str]) -> None:
    """Let the fingerprint depend on a line and its file; one that is missing is named later."""
    try:
        info = (root / line["path"]).stat()
        size, changed = info.st_size, info.st_mtime_ns
    except OSError:
        size, changed = 0, 0
        found.missing.append(line["path"])
    found.fingerprint.add("\0".join(line.values()), size, changed)
