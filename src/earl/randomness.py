"""Randomness that is derived, never stored: a draw is a function of (seed, step, purpose)."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

Shares = Sequence[tuple[int, Generator]]
"""How many of a batch's images, from its beginning, draw from which generator."""


@dataclass(frozen=True)
class Randomness:
    """Hands out one generator per step and purpose, so a learner's random state is its step number.

    Resuming, asking in between, prefetching and the number of workers cannot shift a draw.
    """

    seed: int

    def at(self, step: int, purpose: str) -> Generator:
        """Return a fresh CPU generator for one purpose at one step."""
        digest = hashlib.blake2b(f"{self.seed}/{step}/{purpose}".encode(), digest_size=8).digest()
        return Generator().manual_seed(int.from_bytes(digest, "big") >> 1)


def drawn(draw: Callable[[int, Generator], Tensor], n: int, source: Generator | Shares) -> Tensor:
    """Return draw(n, generator), whose last dimension is that of n images, or that of each share.

    A share draws what it would draw alone, whatever others draw.
    """
    if isinstance(source, Generator):
        return draw(n, source)
    return torch.cat([draw(share, generator) for share, generator in source], dim=-1)


def words(key: str, n: int) -> NDArray[np.uint64]:
    """Return n 64-bit words that depend on `key` alone: the same on every machine and release."""
    return np.frombuffer(hashlib.shake_256(key.encode()).digest(8 * n), dtype="<u8")
