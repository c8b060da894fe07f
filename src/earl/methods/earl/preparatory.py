"""Preparatory data: transformed memory images that are trained towards classes not yet seen."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from earl.learning import Memory, draw_distinct, random_int
from earl.methods.earl.negatives import Negative
from earl.randomness import Randomness

TRANSFORMATIONS = 3  # |G|: each negative transformation comes in three forms


class PreparatoryData:
    """The mapping m(y, g) from (class, transformation) to an unseen vector, and the data it makes.

    Classes own the indices 0, 1, 2, ... from the front; m takes K-1, K-2, ... from the back. Once
    the pools meet, an index that becomes a class is given up and its users share another one. No
    m(y, g) is the index of a seen class; when every vector is a class's, m is not `active`, until
    the frame grows.
    """

    def __init__(self, K: int, negative: Negative, randomness: Randomness) -> None:
        self.K = K
        self.negative = negative
        self.randomness = randomness
        self.m = torch.empty(0, TRANSFORMATIONS, dtype=torch.int64)  # (classes seen, |G|)
        self.low = K  # the smallest index taken from the back

    @property
    def active(self) -> bool:
        """Whether a vector is left that no seen class owns."""
        return 0 < len(self.m) < self.K

    def assign(self, n: int) -> None:
        """Extend m to n seen classes, in the order of their numbers."""
        for y in range(len(self.m), n):
            generator = self.randomness.at(y, "mapping")
            for place in (self.m == y).nonzero().tolist():
                self.m[tuple(place)] = self._lend(y + 1, generator)
            own = [self._lend(y + 1, generator) for _ in range(TRANSFORMATIONS)]
            self.m = torch.cat((self.m, torch.tensor([own])))

    def regrow(self, K: int) -> None:
        """Make m anew for K vectors: it is then what it would be had there always been so many."""
        n = len(self.m)
        self.K = self.low = K
        self.m = self.m[:0]
        self.assign(n)

    def _lend(self, n: int, generator: Generator) -> int:
        if self.low > n:
            self.low -= 1
            return self.low
        if n == self.K:
            return self.K - 1  # every vector is a class's: never used, see `active`
        first = max(self.low, n)
        return first + random_int(self.K - first, generator)

    def transform(
        self,
        X: Tensor,
        classes: Tensor,
        forms: Tensor,
        memory: Memory,
        augment: Callable[[Tensor, Generator], Tensor],
        generator: Generator,
    ) -> tuple[Tensor, Tensor]:
        """Return (X_p, Y_p): augmented images X in each of their forms, and their targets.

        classes (n,) and forms (n, c) say which class and which g in G; Y_p (n·c,) holds indices of
        vectors. A partner to mix in comes from memory, is augmented and transformed likewise.
        """
        partner = None
        if self.negative.needs_partner:
            x = images_of(others(memory, classes, generator), memory, generator)
            partner = repeat(augment(x, generator), forms.shape[1])
        X_p = repeat(X, forms.shape[1])
        X_p = self.negative.apply(X_p, forms.flatten(), partner, generator)
        return X_p, self.m.index_select(0, classes).gather(1, forms).flatten()

    def state_dict(self) -> dict[str, Any]:
        return {"m": self.m.clone(), "low": self.low}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.m = state["m"].clone()
        self.low = state["low"]


def images_of(classes: Tensor, memory: Memory, generator: Generator) -> Tensor:
    """Draw one memory image of each class, all uniform."""
    return memory.take(memory.sample_of(classes, generator), "x")[0]


def distinct_images_of(classes: Tensor, memory: Memory, generator: Generator) -> Tensor:
    """Draw different memory images of each class, as many as it stands in a row in `classes`."""
    rows: list[int] = []
    for c, n in zip(*classes.unique_consecutive(return_counts=True), strict=True):
        held = memory.rows_of(int(c))
        rows += [held[place] for place in draw_distinct(len(held), int(n), generator).tolist()]
    return memory.take(torch.tensor(rows, dtype=torch.int64), "x")[0]


def repeat(X: Tensor, times: int) -> Tensor:
    """Return every image several times, one after the other; X itself where once is enough."""
    return X if times == 1 else X.repeat_interleave(times, dim=0)


def one_form_each(memory: Memory, n: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw n classes and one form for each, all uniform; shapes (n,) and (n, 1)."""
    held = memory.classes_held()
    classes = held.index_select(0, torch.randint(len(held), (n,), generator=generator))
    return classes, torch.randint(TRANSFORMATIONS, (n, 1), generator=generator)


def all_forms(memory: Memory, batch: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw up to four classes and batch/n images of each in all forms, as the authors' code does.

    A class that has fewer images gives all of them. With less than one image per class, one of each
    is drawn with probability 2·batch/n, else none.
    """
    held = memory.classes_held()
    chosen = held[torch.randperm(len(held), generator=generator)[:4]]
    q = batch / len(held)
    each = round(q) if q >= 1 else int(float(torch.rand((), generator=generator)) < 2 * q)
    classes = chosen.repeat_interleave(torch.from_numpy(memory.counts)[chosen].clamp(max=each))
    return classes, torch.arange(TRANSFORMATIONS).expand(len(classes), -1)


def others(memory: Memory, classes: Tensor, generator: Generator) -> Tensor:
    """Draw for each class another class that has images (the same one if it is the only one)."""
    held = memory.classes_held()
    if len(held) == 1:
        return classes
    place = torch.searchsorted(held, classes)
    step = torch.randint(1, len(held), (len(classes),), generator=generator)
    return held[(place + step) % len(held)]
