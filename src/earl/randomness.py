"""Randomness that is derived, never stored: a draw is a function of (seed, step, purpose)."""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(frozen=True)
class Randomness:
    """Hands out one generator per step and purpose, so a learner's random state is its step number.

    Resuming, asking in between, prefetching and the number of workers cannot shift a draw.
    """

    seed: int

    def at(self, step: int, purpose: str) -> torch.Generator:
        """Return a fresh CPU generator for one purpose at one step."""
        digest = hashlib.blake2b(f"{self.seed}/{step}/{purpose}".encode(), digest_size=8).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)


def words(key: str, n: int) -> NDArray[np.uint64]:
    """Return n 64-bit words that depend on `key` alone: the same on every machine and release."""
    return np.frombuffer(hashlib.shake_256(key.encode()).digest(8 * n), dtype="<u8")
