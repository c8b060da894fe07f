"""The simplex equiangular tight frame, and the dot-regression loss towards its vectors."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from earl.errors import InvalidSetting
from earl.randomness import words

ROUNDS = 3  # after so many rounds of signs and transforms an axis is spread over all coordinates


@dataclass(frozen=True)
class SimplexETF:
    """K = d + 1 unit vectors in R^d with pairwise inner product -1/d, Eq. (2), made on demand.

    The usual U(I - 11'/K) needs K <= d. Here w_j = R h_j: h_j is a column of the Helmert basis of
    the complement of the all-ones vector, which has a closed form, and R is a rotation made of
    signs, permutations and Hadamard transforms. One vector costs O(d log d); no d x K matrix
    exists, and the same (d, seed) gives the same bits on every machine.

    `blocks` lists by how much the space has grown: R is block-diagonal, so that `grow` turns the
    first K vectors only by arccos sqrt(1 - 1/K^2) per added dimension.
    """

    d: int
    seed: int
    blocks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.d < 1:
            raise InvalidSetting(f"a simplex ETF needs at least 1 dimension, not d = {self.d}")
        if not self.blocks:
            object.__setattr__(self, "blocks", (self.d,))
        if sum(self.blocks) != self.d or min(self.blocks) < 1:
            raise InvalidSetting(f"the blocks {self.blocks} do not add up to d = {self.d}")

    @property
    def K(self) -> int:
        """The number of vectors."""
        return self.d + 1

    def vectors(self, indices: Tensor) -> Tensor:
        """Return w_i for the given indices 0 .. K-1, shape (n, d), in float64."""
        if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < self.K:
            raise IndexError(f"a simplex ETF in {self.d} dimensions has vectors 0 to {self.d}")
        i = torch.arange(1, self.d + 1, dtype=torch.float64)
        j = indices.reshape(-1, 1).to(torch.float64) + 1  # (n, 1), counted from 1 as in H[i, j]
        H = torch.where(i >= j, 1 / (i * (i + 1)).sqrt(), 0.0)  # (n, d)
        H = torch.where(i == j - 1, -((j - 1) / j).sqrt(), H)
        return self._rotate(math.sqrt(self.K / self.d) * H)

    def grow(self, by: int) -> "SimplexETF":
        """Return a frame with `by` more dimensions and vectors that nearly keeps the first K."""
        return SimplexETF(self.d + by, self.seed, (*self.blocks, by))

    def for_classes(self, n: int) -> "SimplexETF":
        """Return this frame, or one that has doubled its vectors until there are at least n."""
        etf = self
        while n > etf.K:
            etf = etf.grow(etf.K)
        return etf

    def of_dimensions(self, d: int) -> "SimplexETF":
        """Return the frame with d dimensions that this one grows to, or has grown from."""
        first = self.blocks[0]
        etf = SimplexETF(first, self.seed).for_classes(d + 1)
        if etf.d != d:
            raise InvalidSetting(
                f"the stored state has features of {d} dimensions, which a frame that begins with "
                f"d = {first} never has: it belongs to other settings. Nothing was changed"
            )
        return etf

    def _rotate(self, x: Tensor) -> Tensor:
        parts = x.split(self.blocks, dim=-1)
        turned = [rotate(p, f"{self.seed}/{b}") for b, p in enumerate(parts)]
        return torch.cat(turned, dim=-1)


def rotate(x: Tensor, key: str) -> Tensor:
    """Apply a seeded dense orthogonal map to the rows of x (n, d), in O(d log d) each."""
    d = x.shape[-1]
    for r in range(ROUNDS):
        random = words(f"etf/{key}/{r}", d)
        order = torch.from_numpy(random.argsort(kind="stable")).to(x.device)
        sign, between = (torch.from_numpy(1.0 - 2.0 * (random >> b & 1)).to(x) for b in (0, 1))
        x = mix(x[..., order] * sign, between)
    return x


def mix(x: Tensor, sign: Tensor) -> Tensor:
    """Hadamard-transform the first, then the last 2^p coordinates, 2^p <= d < 2^(p+1).

    Signs in between keep the two transforms, which overlap, from undoing each other.
    """
    d = x.shape[-1]
    size = 1 << (d.bit_length() - 1)
    if size == d:
        return hadamard(x)
    first, last = slice(0, size), slice(d - size, d)
    return transform(transform(x, first) * sign, last)


def transform(x: Tensor, part: slice) -> Tensor:
    """Hadamard-transform a part of the coordinates."""
    return torch.cat((x[..., : part.start], hadamard(x[..., part]), x[..., part.stop :]), dim=-1)


def hadamard(x: Tensor) -> Tensor:
    """Apply the orthonormal Walsh-Hadamard transform, its own inverse, along the last dimension."""
    n = x.shape[-1]
    y = x
    for h in (1 << b for b in range(n.bit_length() - 1)):
        a, b = y.reshape(*x.shape[:-1], n // (2 * h), 2, h).unbind(-2)
        y = torch.stack((a + b, a - b), dim=-2)
    return y.reshape(x.shape) / math.sqrt(n)


class Frame:
    """The vectors in use as float32 rows: w_0, w_1, ... for classes, w_(K-1), ... for preparation.

    Holds about one row per class and preparatory target, nothing else; derived from the frame, so
    it is no part of a learner's state.
    """

    def __init__(self, etf: SimplexETF, device: torch.device | str = "cpu") -> None:
        self.etf = etf
        self._front = torch.empty(0, etf.d, device=device)
        self._back = torch.empty(0, etf.d, device=device)

    def class_vectors(self, n: int) -> Tensor:
        """Return w_0 .. w_(n-1), shape (n, d)."""
        self._front = self._extend(self._front, n, lambda row: row)
        return self._front[:n]

    def preparatory_vectors(self, indices: Tensor) -> Tensor:
        """Return w_i for indices counted down from K-1, shape (len(indices), d)."""
        wanted = indices.tolist()
        if wanted:
            if max(wanted) > self.etf.d:
                raise IndexError(f"there are {self.etf.K} vectors, none at {max(wanted)}")
            n = self.etf.K - min(wanted)
            self._back = self._extend(self._back, n, lambda row: self.etf.d - row)
        return self._back.index_select(0, (self.etf.d - indices).to(self._back.device))

    def nbytes(self) -> int:
        return 4 * (self._front.numel() + self._back.numel())

    def _extend(self, rows: Tensor, n: int, index: Callable[[Tensor], Tensor]) -> Tensor:
        have = len(rows)
        if n <= have:
            return rows
        if n > self.etf.K:
            raise IndexError(f"there are {self.etf.K} vectors, not {n}")
        room = min(max(n, have + have // 8), self.etf.K)  # an eighth ahead: few copies, few bytes
        new = self.etf.vectors(index(torch.arange(have, room)))
        return torch.cat((rows, new.to(rows)))


def dot_regression(f_hat: Tensor, w_y: Tensor) -> Tensor:
    """Return L_DR = (<w_y, f_hat> - 1)^2 / 2 of every row, Eq. (3); shapes (B, d) -> (B,)."""
    return 0.5 * ((f_hat * w_y).sum(dim=1) - 1).square()
