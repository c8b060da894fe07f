"""Everything that was taught, back as files: a folder per label, or one table."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from earl.errors import DataNotFound, EarlError
from earl.service.images import media_type
from earl.service.journal import NAME, Journal
from earl.storage.files import make_directory, replace_text
from earl.storage.printable import slug

ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/bmp": "bmp"}
ROWS = 256  # of a group of a parquet file
COLUMNS = ("path", "label", "source", "id")


def taught(journal: Journal) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield every sample that was not withdrawn, in the order of arrival: its facts, its image."""
    last = 0
    query = "SELECT * FROM samples WHERE id > ? AND forgotten = 0 ORDER BY id LIMIT ?"
    while rows := journal.db.execute(query, (last, ROWS)).fetchall():
        for row in rows:
            last = row["id"]
            image = journal.image(last)
            if image is not None:
                yield {name: row[name] for name in ("id", "label", "source")}, image


def opened(state: Path) -> Journal:
    """Return the journal of a state, for reading."""
    if not (state / NAME).exists():
        raise DataNotFound(f"{state} holds no service: there is no {NAME}")
    return Journal(state, {}, read_only=True)


def export_folders(journal: Journal, out: Path) -> int:
    """Write a folder per label and a list of all files; return how many samples there were.

    A label that cannot be the name of a folder gets a similar one; labels.csv has it as it is.
    """
    names: dict[str, str] = {}
    table = io.StringIO()
    rows = csv.writer(table)
    rows.writerow(COLUMNS)
    count = 0
    make_directory(out)
    for facts, image in taught(journal):
        folder = names.setdefault(facts["label"], folder_of(facts["label"], names))
        (out / folder).mkdir(exist_ok=True)
        ending = ENDINGS.get(media_type(image), "webp")
        path = f"{folder}/{facts['id']:08d}.{ending}"
        (out / path).write_bytes(image)
        rows.writerow((path, facts["label"], facts["source"], facts["id"]))
        count += 1
    replace_text(out / "labels.csv", table.getvalue())
    return count


def folder_of(label: str, taken: dict[str, str]) -> str:
    """Return a name for the folder of a label that no other label has."""
    name, number = slug(label), 2
    while name.lower() in {used.lower() for used in taken.values()}:
        name, number = f"{slug(label)}-{number}", number + 1
    return name


def export_parquet(journal: Journal, out: Path) -> int:
    """Write one table with the columns image, label, source and id, as Hugging Face has images."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise EarlError(
            'a parquet file needs pyarrow; install it with: pip install "earl-learn[data]"'
        ) from None
    bytes_of = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    fields = [("image", bytes_of), ("label", pyarrow.string()), ("source", pyarrow.string())]
    schema = pyarrow.schema([*fields, ("id", pyarrow.int64())])
    count, rows = 0, []
    with pyarrow.parquet.ParquetWriter(out, schema) as writer:
        for facts, image in taught(journal):
            rows.append({"image": {"bytes": image, "path": None}, **facts})
            count += 1
            if len(rows) == ROWS:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                rows = []
        writer.write_table(pyarrow.Table.from_pylist(rows, schema))
    return count
