"""Samples that were learned under a key: found again by their content, wherever they are kept."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from earl.errors import InvalidInput
from earl.estimator.labels import packed, unpacked
from earl.learning import Learner, Memory, Waiting
from earl.storage.state import raw

SPARE = 64  # keys beyond twice the memory, before those without a sample are dropped

Key = str | int


class Keys:
    """What was learned under which key: the content of the sample, and the number of its class.

    A key lasts as long as its sample is kept, so their number is bounded by the memory.
    """

    def __init__(self) -> None:
        self._found: dict[Key, tuple[str, int]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def put(self, key: Key, x: Tensor, number: int, learner: Learner) -> None:
        """Enter a sample x (1, C, H, W) that has just been learned."""
        self._found[key] = content(x[0]), number
        if len(self._found) > 2 * learner.setting.memory_size + SPARE:
            self.tidy(learner)

    def tidy(self, learner: Learner) -> None:
        """Drop the keys of samples that are no longer kept."""
        there = {(content(x), number) for _, _, x, number in kept(learner)}
        self._found = {key: entry for key, entry in self._found.items() if entry in there}

    def get(self, key: Key) -> tuple[str, int] | None:
        return self._found.get(key)

    def drop(self, key: Key) -> None:
        self._found.pop(key, None)

    def drop_class(self, number: int) -> None:
        self._found = {key: entry for key, entry in self._found.items() if entry[1] != number}

    def of(self, x: Tensor, number: int) -> Key | None:
        """Return the key that a kept sample x (C, H, W) was learned under, if it had one."""
        entry = content(x), number
        return next((key for key, found in self._found.items() if found == entry), None)

    def copy(self) -> "Keys":
        twin = Keys()
        twin._found = dict(self._found)
        return twin

    def state_dict(self) -> dict[str, Any]:
        return {"keys": packed([[key, *entry] for key, entry in self._found.items()])}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._found = {key: (digest, c) for key, digest, c in unpacked(state["keys"])}


def check_key(key: object) -> Key:
    """Return a key; InvalidInput unless it is a text or a whole number."""
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise InvalidInput(f"a key is a text or a whole number, not {key!r}")
    return key


def content(x: Tensor) -> str:
    """Return a digest of a sample (C, H, W)."""
    return hashlib.blake2b(raw(x), digest_size=16).hexdigest()


def kept(learner: Learner) -> Iterator[tuple[Memory | Waiting, int, Tensor, int]]:
    """Yield every sample that a learner keeps as it came: where, which row, x, its class id."""
    for part in learner.parts().values():
        if isinstance(part, Memory) and keeps_samples(part, learner) and len(part):
            X, Y = part.take(torch.arange(len(part)), "x", "y")
        elif isinstance(part, Waiting) and len(part):
            X, Y = part.look()
        else:
            continue
        ids = learner.classes.ids(Y).tolist()
        yield from ((part, row, x, c) for row, (x, c) in enumerate(zip(X, ids, strict=True)))


def keeps_samples(memory: Memory, learner: Learner) -> bool:
    """Tell whether a memory keeps samples as they came, not codes of them."""
    columns = memory.state_dict()["columns"]
    return "x" in columns and tuple(columns["x"].shape[1:]) == learner.setting.image_shape


def remove(found: Mapping[int, tuple[Memory | Waiting, list[int]]]) -> None:
    """Take rows out of the parts that keep them."""
    for part, gone in found.values():
        if isinstance(part, Memory):
            part.remove(torch.tensor(gone, dtype=torch.int64))
            continue
        columns = part.state_dict()
        left = [row for row in range(len(part)) if row not in set(gone)]
        part.load_state_dict({name: [rows[row] for row in left] for name, rows in columns.items()})
