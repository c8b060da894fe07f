"""Parts of a split: some consecutive images, which one thread reads and decodes at a time."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from earl.data import decode as images
from earl.data.decode import Pixels
from earl.errors import BrokenImage, InvalidInput

FILES_IN_A_PART = 256
BYTES_OF_A_HASH = 16

Hashes = NDArray[np.uint8]  # (n, BYTES_OF_A_HASH), of encoded images


class Part(Protocol):
    """Some consecutive images of a split."""

    def __len__(self) -> int: ...

    def name(self, row: int) -> str:
        """Return the name of an image for messages: its file, or its place in a file."""
        ...

    def decode(self, into: Pixels) -> dict[int, str]:
        """Fill an array, uint8 (n, 3, size, size), and return why some rows are broken."""
        ...


@runtime_checkable
class EncodedPart(Part, Protocol):
    """A part whose images are encoded: files, or the bytes that a file would hold."""

    def loader(self) -> Callable[[int], bytes]:
        """Return a function from a row to the encoded image; it may raise BrokenImage."""
        ...


@dataclass(frozen=True)
class FilePart:
    """Image files below a folder."""

    root: str
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def name(self, row: int) -> str:
        return str(Path(self.root, self.names[row]))

    def loader(self) -> Callable[[int], bytes]:
        return lambda row: images.read_file(Path(self.root, self.names[row]))

    def decode(self, into: Pixels) -> dict[int, str]:
        return decode_rows(self, into)


def file_parts(root: Path, names: list[str]) -> list[Part]:
    """Return image files, given relative to `root`, in parts."""
    starts = range(0, len(names), FILES_IN_A_PART)
    return [FilePart(str(root), tuple(names[s : s + FILES_IN_A_PART])) for s in starts]


@dataclass(frozen=True)
class ParquetPart:
    """A row group of a parquet file, with one column of images."""

    file: str
    group: int
    column: str
    rows: tuple[int, ...]  # of the group, ascending
    nested: bool  # a column of {"bytes": ..., "path": ...}, as Hugging Face writes it

    def __len__(self) -> int:
        return len(self.rows)

    def name(self, row: int) -> str:
        return f"{self.file}, row {self.rows[row]} of group {self.group}"

    def loader(self) -> Callable[[int], bytes]:
        from pyarrow.parquet import ParquetFile

        wanted = f"{self.column}.bytes" if self.nested else self.column
        with readable(self.file), ParquetFile(self.file) as file:
            table = file.read_row_group(self.group, columns=[wanted], use_threads=False)
            column = table.column(0).combine_chunks()
            values = column.field("bytes") if self.nested else column

        def load(row: int) -> bytes:
            data = values[self.rows[row]].as_py()
            if not isinstance(data, bytes):
                raise BrokenImage("it holds no image")
            return data

        return load

    def decode(self, into: Pixels) -> dict[int, str]:
        return decode_rows(self, into)


@contextmanager
def readable(file: Path | str) -> Iterator[None]:
    """Turn whatever a damaged parquet file raises into InvalidInput."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, LookupError, ValueError, TypeError, OverflowError) as error:
        why = " ".join(str(error).split())[:200]
        raise InvalidInput(
            f"{file} is not a parquet file that can be read ({why}); get it again"
        ) from None


def decode_rows(part: EncodedPart, into: Pixels) -> dict[int, str]:
    """Decode the rows of a part one after the other; the broken ones become black."""
    broken = {}
    load = part.loader()
    for row in range(len(part)):
        try:
            into[row] = images.decode(load(row), into.shape[-1])
        except BrokenImage as error:
            into[row] = 0
            broken[row] = str(error)
    return broken


def hash_image(data: bytes) -> bytes:
    """Return the hash of an encoded image: the first half of its SHA-256."""
    return hashlib.sha256(data).digest()[:BYTES_OF_A_HASH]


def check_rows(part: EncodedPart, hashes: Hashes) -> dict[int, str]:
    """Fill in the hash of each row of a part; return why some cannot be decoded."""
    broken = {}
    load = part.loader()
    for row in range(len(part)):
        try:
            data = load(row)
            hashes[row] = np.frombuffer(hash_image(data), np.uint8)
            images.check(data)
        except BrokenImage as error:
            broken[row] = str(error)
    return broken


def encoded_rows(part: EncodedPart) -> Iterator[tuple[bytes, str]]:
    """Yield each encoded image, and why it cannot be decoded; "" if it can."""
    load = part.loader()
    for row in range(len(part)):
        try:
            data = load(row)
            images.check(data)
            yield data, ""
        except BrokenImage as error:
            yield b"", str(error)
