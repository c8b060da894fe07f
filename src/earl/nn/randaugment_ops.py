"""The operations of RandAugment on batches of bytes, on any device: all images of a kind at once.

The arithmetic is Pillow's to the last bit, hence torchvision's for PIL images; for tensors
torchvision rounds differently.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor
from torch.nn import functional as F

Operation = Callable[[Tensor, Tensor | float], Tensor]  # uint8 (b, C, H, W), number or (b,)
Matrix = tuple[float, float, float, float, float, float]


def _beside(values: list[int] | list[float], x: Tensor, dtype: DTypeLike) -> Tensor:
    """Return the values as a tensor on the device of x, without waiting for that device."""
    return torch.from_numpy(np.array(values, dtype)).to(x.device, non_blocking=True)


def _values(magnitude: Tensor | float, x: Tensor) -> list[float]:
    """Return the magnitude of every image as a number."""
    values: list[float] = torch.as_tensor(magnitude, dtype=torch.float64).expand(len(x)).tolist()
    return values


# ---- warps: pixel (j, i) of the result shows the image at (a j + b i + c, d j + e i + f)


@lru_cache(maxsize=64)  # a policy needs ten of them per image size
def origins(matrix: Matrix, h: int, w: int, device: torch.device) -> Tensor:
    """Return where every pixel comes from, (H·W,): the place of a pixel plus 1, or 0 for outside.

    Pixel centres lie at half-integers and a coordinate is rounded down. Coordinates are 16.16
    fixed-point integers, as in Pillow: the result is exact, and the same on every device.
    """
    a, b, c, d, e, f = matrix
    exact = (a, b, c + (a + b) / 2, d, e, f + (d + e) / 2)
    a, b, c, d, e, f = (math.floor(v * 65536 + 0.5) for v in exact)
    i, j = torch.arange(h)[:, None], torch.arange(w)
    row, column = (d * j + e * i + f) >> 16, (a * j + b * i + c) >> 16
    inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
    return torch.where(inside, row * w + column + 1, 0).flatten().to(device)


def affine(x: Tensor, matrices: Sequence[Matrix]) -> Tensor:
    """Map every image of x by its own matrix (a, b, c, d, e, f): nearest pixel, 0 outside."""
    b, channels, h, w = x.shape
    index = torch.stack([origins(matrix, h, w, x.device) for matrix in matrices])  # (b, H·W)
    index = index[:, None].expand(b, channels, h * w)
    return F.pad(x.flatten(2), (1, 0)).gather(2, index).view(x.shape)


def _rotation(degrees: float, h: int, w: int) -> Matrix:
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y = w / 2, h / 2  # the centre stays where it is; positive is anticlockwise
    return (cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y)


MATRICES: tuple[Callable[[float, int, int], Matrix], ...] = (
    lambda slope, h, w: (1, slope, 0, 0, 1, 0),  # shears keep the top left corner
    lambda slope, h, w: (1, 0, 0, slope, 1, 0),
    lambda pixels, h, w: (1, 0, -int(pixels), 0, 1, 0),  # whole pixels, rounded towards 0
    lambda pixels, h, w: (1, 0, 0, 0, 1, -int(pixels)),
    _rotation,
)


def _warp(matrix: Callable[[float, int, int], Matrix]) -> Operation:
    return lambda x, magnitude: affine(
        x, [matrix(value, *x.shape[2:]) for value in _values(magnitude, x)]
    )


# ---- blends: towards a degenerate image, float32 that broadcasts to x, or away from it


def blend(low: Tensor, x: Tensor, magnitudes: list[float]) -> Tensor:
    """Return low + (1 + magnitude)(x - low), cut to a byte: x at magnitude 0, low at -1."""
    factor = _beside([1 + m for m in magnitudes], x, np.float32).view(-1, 1, 1, 1)
    return (x - low).mul_(factor).add_(low).clamp_(0, 255).byte()


LUMA = torch.tensor((19595, 38470, 7471)).view(3, 1, 1) / 65536


def _grey(x: Tensor) -> Tensor:
    """Return the luma (b, 1, H, W) of RGB images; others have no colour to lose."""
    if x.shape[1] != 3:
        return x.float()
    # Pillow's integers over 65536: all sums are multiples of 2^-16 below 256, hence exact.
    parts = LUMA.to(x.device, non_blocking=True)
    return (x * parts).sum(1, keepdim=True).add_(0.5).floor_()


def _mean(grey: Tensor) -> Tensor:
    """Return the mean of every grey image (b, 1, 1, 1), rounded."""
    n = grey.shape[1:].numel()  # whole numbers, so that no device rounds differently
    total = grey.sum((1, 2, 3), keepdim=True, dtype=torch.int64)
    return total.add_(n // 2).floor_divide_(n).float()


def _smooth(x: Tensor) -> Tensor:
    """Return x filtered by (1 1 1, 1 5 1, 1 1 1) / 13 and rounded, except its outermost pixels."""
    x = x.float()
    if min(x.shape[2:]) >= 3:
        box = x[..., :-2, :] + x[..., 1:-1, :] + x[..., 2:, :]  # sums of bytes are exact
        box = box[..., :-2] + box[..., 1:-1] + box[..., 2:]
        inner = x[..., 1:-1, 1:-1]
        inner.copy_(box.add_(inner, alpha=4).div_(13).add_(0.5).floor_())
    return x


def _blend(low: Callable[[Tensor], Tensor]) -> Operation:
    return lambda x, magnitude: blend(low(x), x, _values(magnitude, x))


# ---- tables: a new grey level for every old one, the same for all images or made for each

LEVELS = torch.arange(256)


@lru_cache
def brightened(magnitude: float) -> Tensor:
    """Return every level blended with black, (256,)."""
    return blend(torch.zeros(()), LEVELS.view(1, 1, 1, 256), [magnitude]).flatten()


@lru_cache
def posterized(bits: float) -> Tensor:
    """Return the leading bits of every level, (256,)."""
    return (LEVELS & (256 - (1 << (8 - int(bits))))).byte()


@lru_cache
def solarized(threshold: float) -> Tensor:
    """Return the levels, those that are not below the threshold inverted, (256,)."""
    return torch.where(threshold > LEVELS, LEVELS, 255 - LEVELS).byte()


def autocontrast(x: Tensor) -> Tensor:
    """Stretch every channel to the range from 0 to 255, (b, C, 256); a constant one stays."""
    low, high = x.flatten(2).aminmax(dim=2, keepdim=True)  # (b, C, 1)
    flat = low == high
    # Doubles in Pillow's order, since what they give is truncated even where it should be whole.
    # Not 255 / tensor: that multiplies by the reciprocal and rounds twice.
    scale = (torch.full_like(low, 255, dtype=torch.float64) / (high - low)).masked_fill_(flat, 1)
    offset = (low * scale).masked_fill_(flat, 0)
    return (LEVELS.to(x.device, non_blocking=True) * scale).sub_(offset).clamp_(0, 255).byte()


def equalize(x: Tensor) -> Tensor:
    """Spread the levels of every channel evenly, (b, C, 256); with too few of them they stay."""
    value = x.flatten(2).long()  # (b, C, n)
    count = torch.zeros(*x.shape[:2], 256, dtype=torch.int64, device=x.device)
    count.scatter_add_(2, value, torch.ones_like(value))
    below = count.cumsum(2).sub_(count)  # how many pixels are darker than a level
    step = below.gather(2, value.amax(2, keepdim=True)).floor_divide_(255)  # (b, C, 1)
    even = (below + step.floor_divide(2)).floor_divide_(step.clamp(min=1)).clamp_(max=255)
    return torch.where(step > 0, even, LEVELS.to(x.device, non_blocking=True)).byte()


def look_up(x: Tensor, tables: Tensor) -> Tensor:
    """Return the new level of every pixel of x (b, C, H, W); tables (b, C or 1, 256)."""
    tables = tables.expand(-1, x.shape[1], -1)
    return tables.gather(2, x.flatten(2).long()).view(x.shape)


def _stack(tables: list[Tensor], x: Tensor) -> Tensor:
    return torch.stack(tables)[:, None].to(x.device, non_blocking=True)  # (b, 1, 256)


def _table(table: Callable[[float], Tensor]) -> Operation:
    return lambda x, magnitude: look_up(x, _stack([table(m) for m in _values(magnitude, x)], x))


# ---- all of them

NAMES = (
    *("Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness"),
    *("Color", "Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"),
)
FIXED = (brightened, posterized, solarized)
MADE = (autocontrast, equalize)
KINDS: Mapping[str, Operation] = {  # operations of a kind side by side, as `_round` takes them
    "Identity": lambda x, _: x,
    **dict(zip(NAMES[1:6], map(_warp, MATRICES), strict=True)),
    "Color": _blend(_grey),
    "Contrast": _blend(lambda x: _mean(_grey(x))),
    "Sharpness": _blend(_smooth),
    **dict(zip(("Brightness", "Posterize", "Solarize"), map(_table, FIXED), strict=True)),
    "AutoContrast": lambda x, _: look_up(x, autocontrast(x)),
    "Equalize": lambda x, _: look_up(x, equalize(x)),
}
OPERATIONS = {name: KINDS[name] for name in NAMES}
KIND = [list(KINDS).index(name) for name in NAMES]


def _round(x: Tensor, kinds: list[int], levels: list[float]) -> Tensor:
    """Apply to every image of x (b, C, H, W) its operation, a place in KINDS in rising order."""
    h, w = x.shape[2:]
    cuts = [bisect_left(kinds, k) for k in (0, 1, 6, 7, 8, 9, 12, 13, 14)]
    _, warps, colour, contrast, sharp, fixed, *made = (slice(*pair) for pair in pairwise(cuts))
    blends, tables = slice(colour.start, sharp.stop), slice(fixed.start, len(kinds))
    done = [x[: warps.start]]
    if kinds[warps]:
        pairs = zip(kinds[warps], levels[warps], strict=True)
        done.append(affine(x[warps], [MATRICES[k - 1](m, h, w) for k, m in pairs]))
    if kinds[blends]:
        done.append(blend(_lows(x, colour, contrast, sharp), x[blends], levels[blends]))
    if kinds[tables]:
        pairs = zip(kinds[fixed], levels[fixed], strict=True)
        rows = [FIXED[k - 9](level) for k, level in pairs]
        parts = [_stack(rows, x).expand(-1, x.shape[1], -1)] if rows else []
        parts += [table(x[n]) for table, n in zip(MADE, made, strict=True) if kinds[n]]
        done.append(look_up(x[tables], torch.cat(parts)))
    return torch.cat(done)


def _lows(x: Tensor, colour: slice, contrast: slice, sharp: slice) -> Tensor:
    """Return what these images are blended with, one after the other, (b, C, H, W)."""
    lows = []
    if colour.start < contrast.stop:
        grey = _grey(x[colour.start : contrast.stop])
        n = colour.stop - colour.start
        lows = [grey[:n].expand(-1, *x.shape[1:]), _mean(grey[n:]).expand(-1, *x.shape[1:])]
    if sharp.start < sharp.stop:
        lows.append(_smooth(x[sharp]))
    return torch.cat(lows)


def _rearrange(x: Tensor, before: list[int], after: list[int]) -> Tensor:
    """Return the images of x, which stand as `before` says, as `after` says."""
    place = {n: i for i, n in enumerate(before)}
    return x.index_select(0, _beside([place[n] for n in after], x, np.int64))


def apply(x: Tensor, ops: Sequence[Sequence[int]], levels: Sequence[Sequence[float]]) -> Tensor:
    """Return x with one operation after the other applied to every image, all images at once.

    Every round says of every image which of NAMES it is, and how strong.
    """
    images = list(range(len(x)))
    before = images
    for op, level in zip(ops, levels, strict=True):
        # Images of one operation side by side: then a group is a slice, and nothing is scattered.
        order = sorted(images, key=lambda n: KIND[op[n]])
        x = _rearrange(x, before, order)
        x = _round(x, [KIND[op[n]] for n in order], [level[n] for n in order])
        before = order
    return _rearrange(x, before, images)
