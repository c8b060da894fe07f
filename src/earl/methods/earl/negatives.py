"""Negative transformations: they turn an image into one of a class that does not exist (Sec. 4.2).

Each takes images x (B, C, H, W), forms g (B,) int64 in {0, 1, 2}, and partners like x or None.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Generator, Tensor

from earl.errors import InvalidInput, InvalidSetting

GRIDS = (4, 8, 16)  # cells per side for g = 0, 1, 2
QUADRANTS = ((1, 3, 0, 2), (2, 0, 3, 1), (3, 2, 1, 0))  # which of 0 1 / 2 3 comes to each place


def _rearrange(x: Tensor, sources: Tensor, g: Tensor) -> Tensor:
    """Give every image arrangement g of its pixels; sources (3, H·W) says where they come from."""
    rows = sources.index_select(0, g.to(x.device, non_blocking=True))  # (B, H·W)
    index = rows[:, None].expand(-1, x.shape[1], -1)
    return x.flatten(2).gather(2, index).view(x.shape)


@lru_cache(maxsize=8)
def quarter_turns(side: int, device: torch.device) -> Tensor:
    """Return where the pixels of a square come from when it turns by 1, 2 and 3 quarters."""
    places = torch.arange(side * side, device=device).view(side, side)
    return torch.stack([places.rot90(k) for k in (1, 2, 3)]).flatten(1)


@lru_cache(maxsize=8)
def rearrangements(h: int, w: int, device: torch.device) -> Tensor:
    """Return where the pixels come from when the quadrants stand as the rows of QUADRANTS say."""
    places = torch.arange(h * w, device=device)
    quarters = places.view(2, h // 2, 2, w // 2).transpose(1, 2).flatten(0, 1)
    moved = torch.stack([quarters[k] for row in QUADRANTS for k in row])  # (12, H / 2, W / 2)
    return moved.view(3, 2, 2, h // 2, w // 2).transpose(2, 3).reshape(3, h * w)


def rotation(x: Tensor, g: Tensor, partner: Tensor | None, generator: Generator) -> Tensor:
    """Turn every image by g + 1 exact quarters, anticlockwise."""
    if x.shape[2] != x.shape[3]:
        raise InvalidInput(
            f"a quarter turn needs square images, these are {x.shape[2]} x {x.shape[3]}; "
            "resize them to a square, or choose another negative transformation"
        )
    return _rearrange(x, quarter_turns(x.shape[2], x.device), g)


def permutation(x: Tensor, g: Tensor, partner: Tensor | None, generator: Generator) -> Tensor:
    """Rearrange the four quadrants of every image by row g of QUADRANTS; none of them is turned."""
    h, w = x.shape[2:]
    if h % 2 or w % 2:
        raise InvalidSetting(
            f"images of {h} x {w} have no four equal quadrants; "
            "use an even height and width, or another negative transformation than permutation"
        )
    return _rearrange(x, rearrangements(h, w, x.device), g)


def cutmix(x: Tensor, g: Tensor, partner: Tensor | None, generator: Generator) -> Tensor:
    """Replace every cell of a grid of GRIDS[g] x GRIDS[g] by the partner's with probability 1/2.

    Cells keep their place. A side that the grid does not divide has cells that differ by one pixel.
    """
    if partner is None or partner.shape != x.shape:
        raise InvalidInput("cutmix mixes two images; pass a partner of its shape for every image")
    b, _, h, w = x.shape
    most = max(GRIDS)  # coins for the finest grid whatever g is, so that g does not shift the draws
    coins = (torch.rand(b, most, most, generator=generator) < 0.5).to(x.device, non_blocking=True)
    cells = torch.tensor(GRIDS).to(x.device, non_blocking=True)[g].view(b, 1, 1)
    row = torch.arange(h, device=x.device)[:, None] * cells // h  # (B, H, 1)
    column = torch.arange(w, device=x.device) * cells // w  # (B, 1, W)
    image = torch.arange(b, device=x.device).view(b, 1, 1)
    return torch.where(coins[image, row, column][:, None], partner, x)


def noise(x: Tensor, g: Tensor, partner: Tensor | None, generator: Generator) -> Tensor:
    """Return standard normal noise of the shape of x, whatever x and g are."""
    return torch.randn(x.shape, generator=generator).to(x)


@dataclass(frozen=True)
class Negative:
    """A negative transformation, and whether it mixes in an image of another class."""

    apply: Callable[[Tensor, Tensor, Tensor | None, Generator], Tensor]
    needs_partner: bool = False


NEGATIVES: Mapping[str, Negative] = {
    "rotation": Negative(rotation),
    "permutation": Negative(permutation),
    "cutmix": Negative(cutmix, needs_partner=True),
    "noise": Negative(noise),
}
