"""From stored bytes to network input, and from there to negative examples (Sec. 4.2, Supp.).

`View` is what a test image goes through, `Augment` what a training image goes through; `NEGATIVES`
turn an augmented image into one of a class that does not exist.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from earl.errors import InvalidInput, InvalidSetting
from earl.nn.randaugment import rand_augment
from earl.randomness import Shares, drawn


@dataclass(frozen=True)
class View:
    """Normalises stored images, channel by channel: (x / 255 - mean) / std, uint8 to float32."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not all(s > 0 for s in self.std):
            raise InvalidSetting(
                f"mean {self.mean} and std {self.std} need one value per channel, std above 0"
            )

    def check(self, x: Tensor) -> None:
        """Raise InvalidInput unless x is a batch of stored images, uint8 (B, C, H, W)."""
        if x.dtype != torch.uint8 or x.ndim != 4 or x.shape[1] != len(self.mean):
            raise InvalidInput(
                f"expected uint8 images (B, {len(self.mean)}, H, W), found {x.dtype} "
                f"{tuple(x.shape)}; mean and std need one value per channel of the images"
            )

    def __call__(self, x: Tensor) -> Tensor:
        self.check(x)
        return self.normalised(x)

    def normalised(self, x: Tensor) -> Tensor:
        """Return images in the range 0 to 255 as a network reads them."""
        mean, std = _on(x.device, self.mean, self.std)
        return (x / 255).sub_(mean).div_(std)


@lru_cache
def _on(device: torch.device, *values: tuple[float, ...]) -> tuple[Tensor, ...]:
    """Return numbers of every channel as tensors (C, 1, 1) on a device."""
    return tuple(torch.tensor(v).view(-1, 1, 1).to(device, non_blocking=True) for v in values)


def random_crop(x: Tensor, source: Generator | Shares, padding: int) -> Tensor:
    """Pad every image with zeros and cut out a window of the old size at a place of its own."""
    places = 2 * padding + 1
    corner = drawn(lambda n, g: torch.randint(places, (2, n), generator=g), len(x), source)
    cut = windows_one_by_one if x.device.type == "cpu" else windows_at_once
    return cut(F.pad(x, [padding] * 4), corner, *x.shape[2:])


def windows_at_once(x: Tensor, corner: Tensor, h: int, w: int) -> Tensor:
    """Return of each image the window of h x w with this upper left corner (2, B)."""
    top, left = corner.to(x.device, non_blocking=True)
    windows = x.unfold(2, h, 1).unfold(3, w, 1)  # (B, C, places, places, h, w)
    return windows[torch.arange(len(x), device=x.device), :, top, left]


def windows_one_by_one(x: Tensor, corner: Tensor, h: int, w: int) -> Tensor:
    """Return the same, on a CPU in less time: there a call of numpy costs next to nothing."""
    cut = np.empty((*x.shape[:2], h, w), np.uint8)
    for to, image, top, left in zip(cut, x.numpy(), *corner.tolist(), strict=True):
        to[:] = image[:, top : top + h, left : left + w]
    return torch.from_numpy(cut)


def random_flip(x: Tensor, source: Generator | Shares, p: float = 0.5) -> Tensor:
    """Mirror every image left to right with probability p, each by its own coin."""
    coins = drawn(lambda n, g: torch.rand(n, generator=g), len(x), source)
    heads = (coins.view(-1, 1, 1, 1) < p).to(x.device, non_blocking=True)
    return x ^ ((x ^ x.flip(3)) * heads)  # where() on bytes takes twice as long


@dataclass(frozen=True, kw_only=True)
class Augment:
    """Augments and normalises stored images: crop, flip, RandAugment, view; uint8 to float32."""

    view: View
    padding: int = 4
    flip: bool = True
    rand_augment: bool = True

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise InvalidSetting(f"padding is a number of pixels, 0 or more, not {self.padding}")

    def __call__(self, x: Tensor, source: Generator | Shares) -> Tensor:
        self.view.check(x)
        if self.padding:
            x = random_crop(x, source, self.padding)
        if self.flip:
            x = random_flip(x, source)
        if self.rand_augment:
            x = rand_augment(x, source)
        return self.view(x)


def augment_together(
    augment: Callable[[Tensor, Generator], Tensor], *batches: tuple[Tensor, Generator]
) -> tuple[Tensor, ...]:
    """Return augment(x, generator) of every batch; an `Augment` takes all at once: fewer calls."""
    if not isinstance(augment, Augment):
        return tuple(augment(x, generator) for x, generator in batches)
    shares = [(len(x), generator) for x, generator in batches]
    X = augment(torch.cat([x for x, _ in batches]), shares)
    return torch.split(X, [n for n, _ in shares])


# ---- negative transformations: x (B, C, H, W), g (B,) int64 in {0, 1, 2}, partner like x or None

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
