"""RandAugment for batches of bytes: every image draws its own operations.

Operations, ranges and defaults are the ones torchvision documents.
"""

from functools import lru_cache

import torch
from torch import Generator, Tensor

from earl.errors import InvalidInput, InvalidSetting
from earl.nn.randaugment_ops import NAMES, apply
from earl.randomness import Shares, drawn

Plan = tuple[list[list[int]], list[list[float]]]
"""For every round and image which of NAMES it is, and how strong."""


@lru_cache
def strengths(magnitude: int, bins: int, h: int, w: int) -> tuple[tuple[float, ...], ...]:
    """Return torchvision's magnitude of every operation, in the order of NAMES, for - and +."""
    ends = (0.3, 0.3, 150 / 331 * w, 150 / 331 * h, 30, 0.9, 0.9, 0.9, 0.9)
    signed = [torch.linspace(0, end, bins)[magnitude].item() for end in ends]  # float32, as there
    bits = 8 - round(magnitude / ((bins - 1) / 4))
    threshold = torch.linspace(255, 0, bins)[magnitude].item()
    return tuple((0.0, *(s * v for v in signed), bits, threshold, 0.0, 0.0) for s in (-1, 1))


def draw(n: int, source: Generator | Shares, num_ops: int = 2) -> tuple[Tensor, Tensor]:
    """Draw an operation and a sign (0 is -) for every round and image: two (num_ops, n)."""

    def random_int(high: int) -> Tensor:
        return drawn(lambda n, g: torch.randint(high, (num_ops, n), generator=g), n, source)

    return random_int(len(NAMES)), random_int(2)


def plan(
    n: int, h: int, w: int, source: Generator | Shares, num_ops: int, magnitude: int, bins: int
) -> Plan:
    """Draw what happens to n images of h x w."""
    ops, signs = (rounds.tolist() for rounds in draw(n, source, num_ops))
    table = strengths(magnitude, bins, h, w)
    rounds = zip(ops, signs, strict=True)
    return ops, [[table[s][o] for o, s in zip(*both, strict=True)] for both in rounds]


def rand_augment(
    x: Tensor, source: Generator | Shares, *, num_ops: int = 2, magnitude: int = 9, bins: int = 31
) -> Tensor:
    """Return x, uint8 (B, C, H, W), with num_ops operations of its own applied to every image."""
    if x.dtype != torch.uint8 or x.ndim != 4:
        raise InvalidInput(f"RandAugment takes uint8 (B, C, H, W), not {x.dtype} {tuple(x.shape)}")
    if not 0 <= magnitude < bins or bins < 2:
        raise InvalidSetting(f"magnitude {magnitude} is not among the {bins} bins 0 to {bins - 1}")
    n, _, h, w = x.shape
    ops, levels = plan(n, h, w, source, num_ops, magnitude, bins)
    return apply(x, ops, levels)
