"""The memory that tensors take while something is done, as torch allots it."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Allocated(TorchDispatchMode):
    """Notes every tensor that comes into being inside, and when its memory is free again.

    What an operation takes for itself alone, such as the scratch of a convolution, is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sizes: list[int] = []  # of every piece of memory, in the order of their birth
        self._alive: dict[int, Any] = {}  # those that are not free yet
        self._events: list[int] = []  # n + 1 when piece n is born, -(n + 1) when it is free

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = {
            id_of(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)
        }
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(found):
            if isinstance(leaf, torch.Tensor) and id_of(leaf) not in given:
                self._note(leaf.untyped_storage())
        return found

    def _note(self, storage: torch.UntypedStorage) -> None:
        number = len(self._sizes)
        self._sizes.append(storage.nbytes())
        self._events.append(number + 1)

        def gone(_: object) -> None:
            self._alive.pop(number, None)
            self._events.append(-number - 1)

        self._alive[number] = weakref.ref(storage, gone)

    @property
    def kept(self) -> int:
        """The bytes of what is still there."""
        return sum(self._sizes[number] for number in self._alive)

    @property
    def passing(self) -> int:
        """The most bytes at a time of what came and went."""
        most = now = 0
        for event in self._events:
            number = abs(event) - 1
            if number not in self._alive:
                now += self._sizes[number] if event > 0 else -self._sizes[number]
                most = max(most, now)
        return most


def id_of(tensor: torch.Tensor) -> int:
    """Return what two tensors have in common whose memory is the same."""
    return tensor.untyped_storage().data_ptr() or id(tensor)
