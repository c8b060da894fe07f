"""Reads the pickles that CIFAR's python version consists of, and nothing else.

This is the only file that may import pickle. Its unpickler admits the few NumPy names that those
files mention, and even these stand for inert records: no function that a file names is ever called.
Operations that such files do not need are refused: twelve bytes of one could take gigabytes.
"""

import io
import pickle  # noqa: TID251 (see above)
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from earl.data.decode import Pixels
from earl.errors import InvalidInput
from earl.storage.reading import read_regular

LARGEST = 256 << 20  # bytes; the training file of CIFAR-100 has 155 million

WHAT_A_FORGED_FILE_CAUSES = (
    *(ValueError, TypeError, LookupError, EOFError, AttributeError),
    *(OverflowError, RecursionError, AssertionError, struct.error, pickle.UnpicklingError),
)


class Inert:
    """Stands for a NumPy object that a pickle wants to make; keeps its state and does nothing."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.state: Any = None


class TextKeys(dict[object, object]):
    """A dictionary whose keys are text: others could be made to hash for ages."""

    def __setitem__(self, key: object, value: object) -> None:
        if not isinstance(key, bytes | str):
            raise pickle.UnpicklingError("a key of its dictionary is no text")
        super().__setitem__(key, value)


def latin1(text: object, encoding: object = "latin1") -> bytes:
    """Stand for `codecs.encode`, by which newer pickles of old protocols spell out bytes."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError("it encodes something else than Latin-1 text")
    return text.encode("latin-1")


ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): Inert,
    ("numpy._core.multiarray", "_reconstruct"): Inert,
    ("numpy", "ndarray"): Inert,
    ("numpy", "dtype"): Inert,
    ("_codecs", "encode"): latin1,
}
OPERATIONS = b"".join(  # those that such files consist of; the others could take memory without end
    (
        *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.GLOBAL),
        *(pickle.STACK_GLOBAL, pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.REDUCE),
        *(pickle.INT, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG, pickle.LONG1),
        *(pickle.STRING, pickle.BINSTRING, pickle.SHORT_BINSTRING, pickle.BINBYTES),
        *(pickle.SHORT_BINBYTES, pickle.BINBYTES8, pickle.UNICODE, pickle.BINUNICODE),
        *(pickle.SHORT_BINUNICODE, pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1),
        *(pickle.TUPLE2, pickle.TUPLE3, pickle.EMPTY_LIST, pickle.LIST, pickle.APPEND),
        *(pickle.APPENDS, pickle.SETITEM, pickle.SETITEMS, pickle.PUT, pickle.BINPUT),
        *(pickle.LONG_BINPUT, pickle.GET, pickle.BINGET, pickle.LONG_BINGET, pickle.MEMOIZE),
    )
)


# The unpickler in Python, not the one in C: its memo is a dictionary, so that a forged number in
# the file cannot ask for gigabytes, and its table of operations can be replaced.
class Unpickler(pickle._Unpickler):
    """Admits the names and the operations above; every other one is refused before it acts."""

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module[:40]}.{name[:40]}")
        return ADMITTED[module, name]

    def make_dict(self, marked: bool = True) -> None:
        made, items = TextKeys(), self.pop_mark() if marked else []
        for key, value in zip(items[::2], items[1::2], strict=True):
            made[key] = value
        self.stack.append(made)

    def build(self) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], Inert):
            raise pickle.UnpicklingError("it gives a state to what has none")
        self.stack[-1].state = state

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **{code: pickle._Unpickler.dispatch[code] for code in OPERATIONS},
        pickle.EMPTY_DICT[0]: lambda self: self.make_dict(marked=False),
        pickle.DICT[0]: make_dict,
        pickle.BUILD[0]: build,
    }


def read_batch(path: Path) -> dict[str, Any]:
    """Return the dictionary in a file of CIFAR's python version, its keys as text.

    Arrays come as records; `pixels` turns them into images.
    """
    try:
        data = read_regular(path.resolve(strict=True), LARGEST)
        batch = Unpickler(io.BytesIO(data), encoding="bytes").load()
    except KeyError as error:  # of the table of operations
        why = f"it holds the operation {error}, which such files do not use"
        raise InvalidInput(refusal(path, why)) from None
    except WHAT_A_FORGED_FILE_CAUSES as error:
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
    code = kind.arguments[:1] if isinstance(kind, Inert) else ()
    if code not in ((b"u1",), ("u1",)) or by_column or not isinstance(raw, bytes):
        raise InvalidInput(refusal(path, "its array does not hold unsigned bytes, row by row"))
    if not isinstance(shape, tuple) or shape != (len(raw) // 3072, 3072) or len(raw) % 3072:
        raise InvalidInput(refusal(path, f"{len(raw)} bytes are no array of shape (n, 3072)"))
    return np.frombuffer(raw, np.uint8).reshape(-1, 3, 32, 32)


def class_ids(batch: dict[str, Any], key: str, path: Path) -> list[int]:
    """Return the labels of a batch."""
    labels = batch.get(key)
    if not isinstance(labels, list) or not all(map(is_label, labels)):
        raise InvalidInput(refusal(path, f"it holds no list of numbers {key!r}"))
    return labels


def is_label(value: object) -> bool:
    return type(value) is int and abs(value) < 1 << 31


def class_names(batch: dict[str, Any], key: str, path: Path) -> tuple[str, ...]:
    """Return the names of the classes."""
    names = batch.get(key)
    if not isinstance(names, list) or not all(isinstance(n, (bytes, str)) for n in names):
        raise InvalidInput(refusal(path, f"it holds no list of names {key!r}"))
    return tuple(as_text(name) for name in names)


def as_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
