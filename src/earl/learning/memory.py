"""Episodic memory: a fixed number of rows, and a policy that says which one a new sample takes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from earl.errors import InvalidSetting

Policy = Callable[["Memory", int, Generator], int | None]
"""Given a newcomer's class, the row it takes (`len(memory)` to append), or None to drop it."""


class Memory:
    """At most `capacity` samples in preallocated columns, found by row and by class.

    A column is created by the first `add` that names it; inserting and drawing are index
    operations whose cost depends neither on the capacity nor on the number of classes. Columns
    are numpy arrays in main memory: for single rows a call of torch takes several times as long.
    """

    def __init__(self, capacity: int, policy: Policy) -> None:
        if capacity < 1:
            raise InvalidSetting(f"a memory needs room for at least 1 sample, not {capacity}")
        self.capacity = capacity
        self.policy = policy
        self.clear()

    def clear(self) -> None:
        """Forget the rows and what was seen: the memory is as if new."""
        self.seen = 0  # samples offered so far
        self.seen_of = np.zeros(0, dtype=np.int64)  # the same per class
        self.counts = np.zeros(0, dtype=np.int64)  # rows held per class
        self._rows: list[list[int]] = []  # the rows of each class
        self._place: list[int] = []  # where row i stands in its class's list
        self._class: list[int] = []  # and which class that is, as the column y says
        self._columns: dict[str, NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self._place)

    @property
    def full(self) -> bool:
        return len(self._place) == self.capacity

    def add(self, generator: Generator, *, y: Tensor, **columns: Tensor) -> None:
        """Offer samples one by one; y (B,) holds class numbers 0, 1, 2, ..., columns (B, ...)."""
        offered = [(self._column(name, v), v) for name, v in _arrays(columns)]
        labels = self._column("y", _NO_LABELS)
        for i, c in enumerate(y.tolist()):
            self._count(c)
            row = self.policy(self, c, generator)
            if row is None:
                continue
            if row < len(self):
                self._forget(row)
            else:
                self._place.append(0)
                self._class.append(c)
            self._place[row], self._class[row] = len(self._rows[c]), c
            self._rows[c].append(row)
            self.counts[c] += 1
            labels[row] = c
            for column, values in offered:
                column[row] = values[i]

    def sample(self, n: int, *names: str, generator: Generator) -> tuple[Tensor, ...]:
        """Return the named columns of n rows drawn uniformly without replacement (all if fewer)."""
        return self._taken(_distinct(len(self), n, generator), names)

    def sample_of(self, classes: Tensor, generator: Generator) -> Tensor:
        """Return one uniformly drawn row for each class number; each class must have rows."""
        u = torch.rand(len(classes), generator=generator, dtype=torch.float64).tolist()
        rows = (self._rows[c] for c in classes.tolist())
        drawn = [r[int(p * len(r))] for r, p in zip(rows, u, strict=True)]
        return torch.from_numpy(np.array(drawn, dtype=np.int64))

    def take(self, rows: Tensor, *names: str) -> tuple[Tensor, ...]:
        """Return the named columns of the given rows."""
        return self._taken(rows.numpy(), names)

    def update(self, rows: Tensor, **columns: Tensor) -> None:
        """Rewrite columns of stored rows."""
        for name, values in _arrays(columns):
            self._columns[name][rows.numpy()] = values

    def remove(self, rows: Tensor) -> None:
        """Drop rows; the others move up and keep their order. What was seen is still counted."""
        dropped = set(rows.tolist())
        kept = [row for row in range(len(self)) if row not in dropped]
        for column in self._columns.values():
            column[: len(kept)] = column[kept]
        moved = {row: i for i, row in enumerate(kept)}
        self._rows = [[moved[row] for row in rows if row in moved] for rows in self._rows]
        self.counts = np.array([len(rows) for rows in self._rows], dtype=np.int64)
        self._find_places(len(kept))

    def widen(self, name: str, width: int) -> int:
        """Give each row of a float column (capacity, w) room for `width` values; new ones are NaN.

        Return the column's width; of one that does not exist yet, the width it should have.
        """
        column = self._columns.get(name)
        if column is None:
            return width
        have = column.shape[1]
        if have < width:
            more = max(width - have, have // 8)  # an eighth ahead, so that rows are rarely copied
            room = np.full((self.capacity, more), np.nan, column.dtype)
            self._columns[name] = np.concatenate((column, room), axis=1)
        return int(self._columns[name].shape[1])

    def classes_held(self) -> Tensor:
        """Return the class numbers that have at least one row."""
        return torch.from_numpy(np.flatnonzero(self.counts))

    def rows_of(self, c: int) -> list[int]:
        """Return the rows of class c."""
        return self._rows[c]

    def nbytes(self) -> dict[str, int]:
        """Return the bytes of each column, room for samples to come included."""
        return {name: column.nbytes for name, column in self._columns.items()}

    def state_dict(self) -> dict[str, Any]:
        flat = [row for rows in self._rows for row in rows]
        return {
            "columns": {
                name: torch.from_numpy(column[: len(self)])
                for name, column in self._columns.items()
            },
            "rows": torch.tensor(flat, dtype=torch.int64),
            "counts": torch.from_numpy(self.counts.copy()),
            "seen_of": torch.from_numpy(self.seen_of.copy()),
            "seen": self.seen,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        size = len(state["rows"])
        if size > self.capacity:
            raise InvalidSetting(f"{size} stored samples do not fit a memory of {self.capacity}")
        self.seen = state["seen"]
        self.seen_of = state["seen_of"].numpy().copy()
        self.counts = state["counts"].numpy().copy()
        flat = iter(state["rows"].tolist())
        self._rows = [[next(flat) for _ in range(count)] for count in self.counts]
        self._find_places(size)
        self._columns = {}
        for name, values in _arrays(state["columns"]):
            self._column(name, values)[:size] = values

    def _taken(self, rows: NDArray[np.int64], names: Sequence[str]) -> tuple[Tensor, ...]:
        return tuple([torch.from_numpy(self._columns[name].take(rows, axis=0)) for name in names])

    def _column(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return the column of this name, a new one with room for such values if there is none."""
        if name not in self._columns:
            self._columns[name] = np.empty((self.capacity, *values.shape[1:]), values.dtype)
        return self._columns[name]

    def _count(self, c: int) -> None:
        missing = c + 1 - len(self._rows)
        if missing > 0:
            self._rows.extend([] for _ in range(missing))
            self.counts = np.append(self.counts, np.zeros(missing, dtype=np.int64))
            self.seen_of = np.append(self.seen_of, np.zeros(missing, dtype=np.int64))
        self.seen += 1
        self.seen_of[c] += 1

    def _find_places(self, size: int) -> None:
        self._place, self._class = [0] * size, [0] * size
        for c, rows in enumerate(self._rows):
            for place, row in enumerate(rows):
                self._place[row], self._class[row] = place, c

    def _forget(self, row: int) -> None:
        c, place = self._class[row], self._place[row]
        rows = self._rows[c]
        last = rows.pop()
        if last != row:
            rows[place] = last
            self._place[last] = place
        self.counts[c] -= 1


class Replayed(Protocol):
    """What samples can be drawn from: a Memory, or what takes its place."""

    def __len__(self) -> int: ...
    def sample(self, n: int, *names: str, generator: Generator) -> tuple[Tensor, ...]: ...


def with_replay(
    X: Tensor, Y: Tensor, memory: Replayed, n: int, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Return new samples X (w, ...), Y (w,) and, behind them, a draw of n - w from the memory."""
    if not len(memory):
        return X, Y
    X_m, Y_m = memory.sample(n - len(Y), "x", "y", generator=generator)
    return torch.cat((X, X_m)), torch.cat((Y, Y_m))


_NO_LABELS = np.zeros(0, dtype=np.int64)


def _arrays(columns: Mapping[str, Tensor]) -> list[tuple[str, NDArray[Any]]]:
    return [(name, values.numpy(force=True)) for name, values in columns.items()]


def draw_distinct(n: int, k: int, generator: Generator) -> Tensor:
    """Return min(k, n) distinct uniform integers below n in random order, in O(k) (Floyd)."""
    return torch.from_numpy(_distinct(n, k, generator))


def _distinct(n: int, k: int, generator: Generator) -> NDArray[np.int64]:
    if k >= n:
        return torch.randperm(n, generator=generator).numpy()
    # Plain numbers: for so few of them an operation on arrays takes several times as long.
    chosen: dict[int, None] = {}
    numbers = torch.rand(k, generator=generator, dtype=torch.float64).tolist()
    for top, u in enumerate(numbers, n - k):
        guess = int(u * (top + 1))
        chosen[top if guess in chosen else guess] = None
    drawn, order = list(chosen), torch.randperm(k, generator=generator).tolist()
    return np.array([drawn[i] for i in order], dtype=np.int64)
