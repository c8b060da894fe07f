"""Embeddings and other vectors of numbers, as learners of features take them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from earl.errors import InvalidInput
from earl.estimator.images import to_numpy
from earl.estimator.labels import decode, encode, packed, unpacked

ROOM = 64  # numbers by name that there is room for, at least: names may appear later


class NotNumbers(InvalidInput, TypeError):
    """Something among the vectors is no number."""


@dataclass(frozen=True)
class VectorReader:
    """Reads vectors of one length, or mappings from names to numbers, as float32 (D, 1, 1).

    The first sample decides the length. Of mappings a missing name is 0, and a new one takes the
    next free place. `meet` returns the reader that knows a sample's names; nothing else changes.
    """

    length: int = 0  # of a vector; 0 before the first sample
    names: tuple[Hashable, ...] | None = None  # of the numbers, if they come by name

    @property
    def features(self) -> int | None:
        return self.length or None

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.length, 1, 1

    def meet(self, X: Sequence[object]) -> "VectorReader":
        """Return the reader for these samples, which knows their length and their names."""
        if not isinstance(X[0], Mapping):
            return self if self.length else replace(self, length=len(self._row(X[0])))
        found = list(self.names or ())
        known = set(found)
        for x in X:
            for name in sorted(x, key=repr) if isinstance(x, Mapping) else ():
                if name not in known:
                    known.add(name)
                    found.append(name)
        length = self.length or max(ROOM, 2 * len(found))
        if len(found) > length:
            raise InvalidInput(f"there is room for {length} names of numbers, not {len(found)}")
        return replace(self, length=length, names=tuple(found))

    def state_dict(self) -> dict[str, Any]:
        names = None if self.names is None else packed([encode(name) for name in self.names])
        return {"length": self.length, "names": names}

    def restored(self, state: Mapping[str, Any]) -> "VectorReader":
        names = state["names"]
        known = None if names is None else tuple(map(decode, unpacked(names)))
        return VectorReader(state["length"], known)

    def many(self, X: object) -> list[object]:
        """Return several vectors one by one; InvalidInput if X is no such."""
        if hasattr(X, "tocsr"):
            raise NotNumbers("sparse data was passed, but dense data is required: X.toarray()")
        if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
            return list(X)
        if isinstance(X, Mapping | str | bytes):
            raise InvalidInput(f"X must be an array of shape (n, features), not {type(X).__name__}")
        matrix = to_floats(X)
        if matrix.ndim != 2:
            raise InvalidInput(
                f"X must have the shape (n, features), not {matrix.shape}. Reshape your data: one "
                "vector is X.reshape(1, -1), one number per sample X.reshape(-1, 1)"
            )
        for count, what in zip(matrix.shape, ("sample", "feature"), strict=True):
            if not count:
                raise InvalidInput(
                    f"Found array with 0 {what}(s) (shape={matrix.shape}) while a minimum of 1 is "
                    "required."
                )
        return list(matrix)

    def read(self, X: Sequence[object]) -> Tensor:
        """Return vectors as float32 (n, D, 1, 1)."""
        flat = np.zeros((len(X), self.length), np.float32)
        for row, x in zip(flat, X, strict=True):
            vector = self._row(x)
            row[: len(vector)] = vector
        return torch.from_numpy(flat).view(len(X), *self.shape)

    def shown(self, x: Tensor) -> NDArray[Any]:
        """Return a sample (D, 1, 1) as the vector that it was."""
        return x.flatten().numpy().copy()

    def _row(self, x: object) -> NDArray[np.float32]:
        if isinstance(x, Mapping):
            names = self.names or ()
            vector = to_floats([x.get(name, 0.0) for name in names])
        else:
            vector = to_floats(x)
            if vector.ndim != 1 or not len(vector):
                raise InvalidInput(f"a sample is a vector of numbers, not of shape {vector.shape}")
            if (self.length and len(vector) != self.length) or self.names is not None:
                raise InvalidInput(
                    f"X has {len(vector)} features, but EARLClassifier is expecting "
                    f"{'named' if self.names is not None else self.length} features as input"
                )
        with np.errstate(over="ignore"):
            single = vector.astype(np.float32)
        if not np.isfinite(single).all():
            raise InvalidInput("a vector holds NaN or inf, or is too large for 32 bits")
        return single


def to_floats(X: Any) -> NDArray[Any]:
    """Return numbers as an array of floats; NotNumbers if something is none."""
    try:
        array = to_numpy(X) if isinstance(X, Tensor) else np.asarray(X)
    except ValueError:
        raise NotNumbers("rows of X have different lengths; all vectors need the same") from None
    if array.dtype.kind == "c":
        raise NotNumbers("Complex data not supported: give real numbers")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise NotNumbers(f"X must hold numbers: {error}") from None
