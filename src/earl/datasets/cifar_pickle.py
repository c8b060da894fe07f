"""Reads the pickles that CIFAR's python version consists of, and nothing else.

This is the only file that may import pickle. Its unpickler admits the few NumPy names that those
files mention, and even these stand for inert records: no function that a file names is ever called.
"""

import io
import pickle  # noqa: TID251 (see above)
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from earl.durable import read_regular
from earl.errors import InvalidInput
from earl.images import Pixels

LARGEST = 256 << 20  # bytes; the training file of CIFAR-100 has 155 million

WHAT_A_FORGED_FILE_CAUSES = (
    *(ValueError, TypeError, LookupError, EOFError, AttributeError),
    *(OverflowError, RecursionError, AssertionError, struct.error),
)


class Inert:
    """Stands for a NumPy object that a pickle wants to make; keeps its state and does nothing."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: object) -> None:
        self.state = state


@dataclass(frozen=True)
class Latin1:
    """Stands for `codecs.encode`, by which newer pickles of old protocols spell out bytes."""

    text: str
    encoding: str = "latin1"


ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): Inert,
    ("numpy._core.multiarray", "_reconstruct"): Inert,
    ("numpy", "ndarray"): Inert,
    ("numpy", "dtype"): Inert,
    ("_codecs", "encode"): Latin1,
}


# The unpickler in Python, not the one in C: its memo is a dictionary, so that a forged number in
# the file cannot ask for gigabytes.
class Unpickler(pickle._Unpickler):
    """Admits the names above; every other one is refused before anything is made of it."""

    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return ADMITTED[module, name]


def read_batch(path: Path) -> dict[str, Any]:
    """Return the dictionary in a file of CIFAR's python version, its keys as text.

    Arrays come as records; `pixels` turns them into images.
    """
    try:
        data = read_regular(path.resolve(strict=True), LARGEST)
        batch = Unpickler(io.BytesIO(data), encoding="bytes").load()
    except (pickle.UnpicklingError, *WHAT_A_FORGED_FILE_CAUSES) as error:
        raise InvalidInput(refusal(path, error)) from None
    if not isinstance(batch, dict):
        raise InvalidInput(refusal(path, "it holds no dictionary"))
    return {as_text(key): value for key, value in batch.items()}


def refusal(path: Path, why: object) -> str:
    return (
        f"{path} is not a file of CIFAR's python version and was not read: {why}. Get it again "
        "with: earl data download"
    )


def pixels(batch: dict[str, Any], path: Path) -> Pixels:
    """Return the images of a batch, uint8 (n, 3, 32, 32)."""
    array = batch.get("data")
    state = array.state if isinstance(array, Inert) else None
    if not isinstance(state, tuple) or len(state) != 5:
        raise InvalidInput(refusal(path, "it holds no array 'data'"))
    _, shape, kind, by_column, raw = state
    raw = raw.text.encode("latin1") if isinstance(raw, Latin1) else raw
    code = kind.arguments[:1] if isinstance(kind, Inert) else ()
    if code not in ((b"u1",), ("u1",)) or by_column or not isinstance(raw, bytes):
        raise InvalidInput(refusal(path, "its array does not hold unsigned bytes, row by row"))
    if not isinstance(shape, tuple) or shape != (len(raw) // 3072, 3072) or len(raw) % 3072:
        raise InvalidInput(refusal(path, f"an array of shape (n, 3072) is expected, not {shape}"))
    return np.frombuffer(raw, np.uint8).reshape(-1, 3, 32, 32)


def class_ids(batch: dict[str, Any], key: str, path: Path) -> list[int]:
    """Return the labels of a batch."""
    labels = batch.get(key)
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise InvalidInput(refusal(path, f"it holds no list of numbers {key!r}"))
    return labels


def class_names(batch: dict[str, Any], key: str, path: Path) -> tuple[str, ...]:
    """Return the names of the classes."""
    names = batch.get(key)
    if not isinstance(names, list) or not all(isinstance(n, (bytes, str, Latin1)) for n in names):
        raise InvalidInput(refusal(path, f"it holds no list of names {key!r}"))
    return tuple(as_text(name) for name in names)


def as_text(value: object) -> str:
    if isinstance(value, Latin1):
        return value.text
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
