"""Labels: whatever people call their classes, numbered as they arrive; no number ever changes."""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from earl.errors import InvalidInput


class LabelMap:
    """Numbers labels in the order of their first appearance, append-only.

    Labels that are equal in Python are one class: 1, 1.0 and True are, 1 and "1" are not.
    """

    def __init__(self, labels: Iterable[Hashable] = ()) -> None:
        self._labels = list(labels)
        self._number = {label: number for number, label in enumerate(self._labels)}

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, number: int) -> Hashable:
        return self._labels[number]

    def __iter__(self) -> Any:
        return iter(self._labels)

    def __contains__(self, label: Hashable) -> bool:
        return label in self._number

    def number(self, label: Hashable) -> int:
        """Return the number of a label that is known; InvalidInput if it is not."""
        if label not in self._number:
            raise InvalidInput(f"the label {label!r} was never learned; see classes_")
        return self._number[label]

    def preview(self, labels: Sequence[Hashable]) -> list[int]:
        """Return the numbers that labels have, or would get if they were added now."""
        new: dict[Hashable, int] = {}
        for label in labels:
            if label not in self._number:
                new.setdefault(label, len(self._labels) + len(new))
        return [self._number[c] if c in self._number else new[c] for c in labels]

    def add(self, labels: Iterable[Hashable]) -> None:
        """Add those labels that are new."""
        for label in labels:
            if label not in self._number:
                self._number[label] = len(self._labels)
                self._labels.append(label)

    def array(self) -> NDArray[Any]:
        """Return all labels as numpy would hold them: numbers, texts, or objects if they mix."""
        return as_array(self._labels)

    def state_dict(self) -> dict[str, Tensor]:
        return {"labels": packed([encode(label) for label in self._labels])}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.__init__(map(decode, unpacked(state["labels"])))  # type: ignore[misc]


def as_array(labels: Sequence[Hashable]) -> NDArray[Any]:
    """Return labels as an array (n,): of numbers or texts if all are of one kind, else objects."""
    kinds = {type(label) for label in labels}
    small = all(-(2**63) <= c < 2**63 for c in labels if type(c) is int)
    if len(kinds) == 1 and kinds <= {str, int, float, bool} and small:
        return np.array(labels)
    array = np.empty(len(labels), object)
    for place, label in enumerate(labels):  # numpy would make a matrix of tuples
        array[place] = label
    return array


def check_label(label: object) -> Hashable:
    """Return a label, a scalar of numpy or torch as Python's; InvalidInput if it cannot be one."""
    if isinstance(label, np.generic) or (isinstance(label, Tensor) and not label.ndim):
        label = label.item()
    if isinstance(label, Tensor | np.ndarray):
        raise InvalidInput(f"a label of shape {tuple(label.shape)} is no label; give one each")
    try:
        hash(label)
    except TypeError:
        kind = type(label).__name__
        raise InvalidInput(f"a {kind} cannot be a label, it has no hash; use a tuple") from None
    if is_missing(label):
        raise InvalidInput(f"{label!r} cannot be a label; leave samples without a label out")
    return label


def check_labels(y: object, n: int) -> list[Hashable]:
    """Return the labels of n samples; InvalidInput if there are more, fewer, or wrong ones."""
    if y is None or isinstance(y, str | bytes | Mapping):
        kind = "None" if y is None else type(y).__name__
        raise InvalidInput(
            f"learning requires y to be passed, but the target y is {kind}: one label per sample"
        )
    if isinstance(y, Tensor):
        y = y.numpy(force=True)
    elif hasattr(y, "__array__"):  # also a series of pandas'
        y = np.asarray(y)
    if isinstance(y, np.ndarray) and y.ndim != 1:
        raise InvalidInput(f"y should be a 1d array of labels, not of shape {y.shape}: y.ravel()")
    try:
        labels = [check_label(label) for label in y]  # type: ignore[attr-defined]
    except TypeError:
        raise InvalidInput(f"y must be a sequence of labels, not {type(y).__name__}") from None
    if len(labels) != n:
        raise InvalidInput(f"{n} samples need as many labels, not {len(labels)}")
    return labels


def is_missing(label: Hashable) -> bool:
    """Tell whether a label is None, NaN, infinite, or a tuple with such a thing within."""
    if label is None or (isinstance(label, float) and not isfinite(label)):
        return True
    if isinstance(label, tuple):
        return any(map(is_missing, label))
    try:
        return bool(label != label)  # NaN of other kinds, NaT
    except (TypeError, ValueError):  # pandas.NA knows neither true nor false
        return True


def encode(label: Hashable) -> Any:
    """Return a label for JSON; InvalidInput if it is of a kind that no file can hold."""
    if type(label) in (str, int, bool):
        return label
    if type(label) is float:
        return {"float": label.hex()}
    if type(label) is bytes:
        return {"bytes": label.hex()}
    if type(label) is tuple:
        return {"tuple": [encode(part) for part in label]}
    raise InvalidInput(
        f"the label {label!r} cannot be saved: a {type(label).__name__} would have to be stored as "
        "code. Labels that are saved are texts, numbers, bytes, and tuples of these"
    )


def decode(stored: Any) -> Hashable:
    """Undo `encode`; ValueError if it is none of ours."""
    match stored:
        case str() | bool() | int():
            return stored
        case {"float": str(text)} if len(stored) == 1:
            return float.fromhex(text)
        case {"bytes": str(text)} if len(stored) == 1:
            return bytes.fromhex(text)
        case {"tuple": list(parts)} if len(stored) == 1:
            return tuple(map(decode, parts))
    raise ValueError(f"{str(stored)[:80]!r} is no stored label")


def packed(value: Any) -> Tensor:
    """Return a JSON value as bytes in a tensor: a manifest is too small for long lists."""
    text = json.dumps(value, separators=(",", ":"))  # ASCII: halves of pairs are spelled out
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).clone()


def unpacked(stored: Tensor) -> Any:
    """Undo `packed`."""
    return json.loads(bytes(stored.numpy()).decode())
