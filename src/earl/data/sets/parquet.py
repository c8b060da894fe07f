"""Images in parquet files, as Hugging Face writes them: a column of images, a column of labels."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from earl.data.cache import open_dataset
from earl.data.dataset import Dataset
from earl.data.parts import ParquetPart, readable
from earl.data.source import (
    Contents,
    Found,
    Labels,
    Listing,
    Source,
    held_out_note,
    hold_out,
    untaught_note,
)
from earl.data.source import fingerprint as fingerprint_of
from earl.data.splits import TEST, TRAIN
from earl.errors import DataNotFound, EarlError, InvalidInput
from earl.storage.printable import slug

if TYPE_CHECKING:
    from pyarrow import Schema

IMAGE_COLUMNS = ("image", "img", "images", "picture", "jpg", "png", "webp")
LABEL_COLUMNS = ("label", "labels", "fine_label", "class", "cls", "target")
EXPECTED = "train-*.parquet and test-*.parquet, or such files in folders train and test"

Labelled = list[Any]


def load(source: Source) -> Dataset:
    """Load parquet files with a column of images and one of labels."""
    return open_dataset(find(source), source)


def find(source: Source) -> Found:
    """Find parquet files of the user's."""
    path = source.own()
    found = find_parquet(f"parquet-{slug(path.resolve().stem)}", path, source)
    if found is None:
        raise DataNotFound(f"{path} holds no parquet files; expected {EXPECTED}")
    return found


def find_parquet(name: str, path: Path, source: Source) -> Found | None:
    """Find the parquet files of a folder, or one file."""
    there = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    files = [file for file in there if file.is_file() and file.suffix == ".parquet"]
    if not files:
        return None
    return Found(
        name,
        f"parquet{described(source)}",
        path,
        fingerprint=lambda: fingerprint_of(files),
        contents=cache(lambda: read_contents(path, files, source)),
    )


def described(source: Source) -> str:
    """Return the options that change what is read."""
    chosen = (source.image_column, source.label_column, f"{source.hold_out:g}")
    return "" if chosen == ("", "", "0.2") else f" ({', '.join(filter(None, chosen))})"


def read_contents(path: Path, files: list[Path], source: Source) -> Contents:
    """Read the labels of all files, and where their images are."""
    parquet_module()
    splits = {file: split_of(file, path) for file in files}
    train = [f for f in files if splits[f] in TRAIN]
    tests = sorted({splits[f] for f in files if splits[f] in TEST}, key=TEST.index)
    test = [f for f in files if tests and splits[f] == tests[0]]
    notes = []
    if not train and not test:
        train = files
    if not train:
        raise DataNotFound(f"{path} holds no training files; expected {EXPECTED}")
    if unused := [str(f.relative_to(path)) for f in files if f not in (*train, *test)]:
        notes.append(f"not used: {', '.join(unused)}")
    columns = choose_columns(files[0], source)
    for file in (*train, *test):
        check_images(file, columns[0])
    rows = {file: read_labels(file, columns[1]) for file in (*train, *test)}
    names, ids = class_names(files[0], columns[1], rows)
    taken = [(f, number, ids(label)) for f in train for number, label in enumerate(rows[f])]
    tested = [(f, number, ids(label)) for f in test for number, label in enumerate(rows[f])]
    if not test:
        keys = [f"{f.name}/{number}" for f, number, _ in taken]
        out = hold_out(keys, [label for _, _, label in taken], source.hold_out).tolist()
        tested = [row for row, o in zip(taken, out, strict=True) if o]
        taken = [row for row, o in zip(taken, out, strict=True) if not o]
        notes.append(held_out_note(source.hold_out))
    untaught = sorted({c for _, _, c in tested} - {c for _, _, c in taken})
    if untaught:
        notes.append(untaught_note([names[c] for c in untaught]))
    if not taken or not tested:
        raise DataNotFound(f"{path} holds {len(taken)} training and {len(tested)} test images")
    return Contents(
        names, listing(taken, columns[0]), listing(tested, columns[0]), notes=tuple(notes)
    )


def split_of(file: Path, root: Path) -> str:
    """Return the split that a file's name or its folder's begins with; "" if it says none."""
    folders = file.relative_to(root).parts[:-1] if file != root else ()
    for text in (file.name, *reversed(folders)):
        word = text.lower().replace(".", "-").replace("_", "-").partition("-")[0]
        if word in (*TRAIN, *TEST):
            return word
    return ""


def choose_columns(file: Path, source: Source) -> tuple[str, str]:
    """Return the names of the columns that hold the images and the labels."""
    schema = read_schema(file)
    kinds = {name: about.get("_type") for name, about in features(schema).items()}
    image = source.image_column or pick(schema, kinds, "Image", IMAGE_COLUMNS)
    label = source.label_column or pick(schema, kinds, "ClassLabel", LABEL_COLUMNS)
    for kind, column in (("image", image), ("label", label)):
        if column not in schema.names:
            raise InvalidInput(
                f"{file} has the columns {', '.join(schema.names)}; say which one holds the "
                f"{kind}s with --set {kind}_column=NAME"
            )
    return image, label


def pick(schema: "Schema", kinds: dict[str, Any], kind: str, names: tuple[str, ...]) -> str:
    """Return the column with a usual name, else the only one that is declared to be of a kind."""
    declared = [name for name in schema.names if kinds.get(name) == kind]
    usual = [name for name in names if name in schema.names]
    return usual[0] if usual else declared[0] if len(declared) == 1 else ""


def features(schema: "Schema") -> dict[str, Any]:
    """Return what Hugging Face's metadata says about the columns; {} if there is none."""
    try:
        about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        found = about["info"]["features"]
        return {name: about for name, about in found.items() if isinstance(about, dict)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def check_images(file: Path, column: str) -> None:
    """Raise unless a column holds encoded images: bytes, or records with a field of that name."""
    import pyarrow
    from pyarrow import types

    schema = read_schema(file)
    kind = schema.field(column).type if column in schema.names else pyarrow.null()
    nested = types.is_struct(kind)
    if nested:
        place = kind.get_field_index("bytes")
        kind = kind.field(place).type if place >= 0 else pyarrow.null()
    if not (types.is_binary(kind) or types.is_large_binary(kind)):
        what = f"{column}.bytes" if nested else column
        raise InvalidInput(
            f"{file}: the images should be the bytes of image files, in the column {what!r}, which "
            f"is {'missing' if types.is_null(kind) else f'of type {kind}'}; write them into the "
            "file, or say which column holds them with --set image_column=NAME"
        )


def read_labels(file: Path, column: str) -> Labelled:
    """Return the labels of a file; none may be missing."""
    from pyarrow.parquet import ParquetFile

    with readable(file), ParquetFile(file) as opened:
        table = opened.read([column], use_threads=False)
        labels: Labelled = table.column(0).to_pylist() if table.num_columns else []
    if not table.num_columns:
        raise InvalidInput(f"{file} has no column {column!r}, unlike the other files")
    for row, label in enumerate(labels):
        if not isinstance(label, (int, str)):
            what = repr(label)[:80]
            raise InvalidInput(f"{file}, row {row}: label {what} is neither number nor text")
    return labels


def class_names(
    file: Path, column: str, rows: dict[Path, Labelled]
) -> tuple[tuple[str, ...], Callable[[Any], int]]:
    """Return the names of the classes, and a function from a label to its class id."""
    declared = features(read_schema(file)).get(column, {}).get("names")
    found = {label for labels in rows.values() for label in labels}
    if isinstance(declared, list) and found <= set(range(len(declared))):
        return tuple(map(str, declared)), int
    if len({type(label) for label in found}) > 1:
        raise InvalidInput(f"{file}: the column {column!r} mixes numbers and texts")
    ids = {label: place for place, label in enumerate(sorted(found))}
    return tuple(map(str, ids)), ids.__getitem__


def listing(rows: list[tuple[Path, int, int]], column: str) -> Listing:
    """Return rows of files as parts of row groups."""
    labels: Labels = np.array([label for _, _, label in rows], np.int64)
    wanted: dict[Path, list[int]] = {}
    for file, number, _ in rows:
        wanted.setdefault(file, []).append(number)
    return Listing([p for f, numbers in wanted.items() for p in parts(f, numbers, column)], labels)


def parts(file: Path, numbers: list[int], column: str) -> Iterator[ParquetPart]:
    """Yield some rows of a file, given in ascending order, by row group."""
    from pyarrow.parquet import ParquetFile

    with readable(file), ParquetFile(file) as opened:
        sizes = [opened.metadata.row_group(g).num_rows for g in range(opened.num_row_groups)]
        nested = opened.schema_arrow.field(column).type.num_fields > 0
    start = place = 0
    for group, size in enumerate(sizes):
        inside = []
        while place < len(numbers) and numbers[place] < start + size:
            inside.append(numbers[place] - start)
            place += 1
        if inside:
            yield ParquetPart(str(file), group, column, tuple(inside), nested)
        start += size


def read_schema(file: Path) -> "Schema":
    """Return the columns of a parquet file."""
    from pyarrow.parquet import read_schema as read

    with readable(file):
        return read(file)


def parquet_module() -> None:
    """Raise unless pyarrow is there."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise EarlError(
            'reading parquet files needs pyarrow; install it with: pip install "earl-learn[data]"'
        ) from None
