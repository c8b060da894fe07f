"""Small text files that come with images: lists of classes, of labels, of the user's own files."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from earl.errors import InvalidInput
from earl.storage.reading import read_text

LARGEST = 1 << 29  # bytes; a list of ImageNet has some 100 million


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file."""
    return read_text(path, LARGEST).splitlines()


def read_table(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number of each line of a CSV file and its values by name, stripped of spaces.

    The first yield is of line 1, which holds the names; names are in lower case.
    """
    reader = csv.reader(io.StringIO(read_text(path, LARGEST), newline=""))
    try:
        names = [name.strip().lower() for name in next(reader, [])]
        yield 1, {name: name for name in names}
        for values in reader:
            if values:
                given = [value.strip() for value in values] + [""] * len(names)
                yield reader.line_num, dict(zip(names, given, strict=False))
    except csv.Error as error:
        long = "field larger" in str(error)
        why = "a field is very long; is a quotation mark missing?" if long else str(error)
        raise InvalidInput(f"{path}, line {reader.line_num}: {why}") from None
