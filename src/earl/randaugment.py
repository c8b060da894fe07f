"""RandAugment for batches of bytes: every image draws its own operations.

Operations, ranges and defaults are the ones torchvision documents. The arithmetic is Pillow's to
the last bit, hence torchvision's for PIL images; for tensors torchvision rounds differently.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from earl.errors import InvalidInput, InvalidSetting

Operation = Callable[[Tensor, Tensor | float], Tensor]  # uint8 (b, C, H, W), number or (b,)
Matrix = tuple[float, float, float, float, float, float]


def _beside(values: Sequence[object] | Tensor | float, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the values as a tensor on the device of x, without waiting for that device."""
    return torch.as_tensor(values, dtype=dtype).to(x.device, non_blocking=True)


def _column(magnitude: Tensor | float, x: Tensor) -> Tensor:
    return _beside(magnitude, x, torch.float64).view(-1, 1, 1, 1)


# ---- warps: pixel (j, i) of the result shows the image at (a j + b i + c, d j + e i + f)


def pick_pixels(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return x (b, C, H, W) at integer places that broadcast to (b, H, W); outside it is 0."""
    b, channels, h, w = x.shape
    # A border of zeros catches every place outside, so that no mask is needed.
    index = (rows.clamp(-1, h) * (w + 2) + columns.clamp(-1, w)).add_(w + 3)
    index = index.flatten(1)[:, None].expand(b, channels, h * w)
    return F.pad(x, (1, 1, 1, 1)).flatten(2).gather(2, index).view(x.shape)


def affine(x: Tensor, matrices: Sequence[Matrix]) -> Tensor:
    """Map every image of x by its own matrix (a, b, c, d, e, f): nearest pixel, 0 outside.

    Pixel centres lie at half-integers and a coordinate is rounded down. Coordinates are 16.16
    fixed-point integers, as in Pillow: the result is exact, and the same on every device.
    """
    fixed = [
        [math.floor(v * 65536 + 0.5) for v in (a, b, c + (a + b) / 2, d, e, f + (d + e) / 2)]
        for a, b, c, d, e, f in matrices
    ]
    by_j, by_i, start = _beside(fixed, x, torch.int64).view(-1, 2, 3, 1, 1).unbind(2)
    i = torch.arange(x.shape[2], device=x.device)[:, None]
    j = torch.arange(x.shape[3], device=x.device)
    columns, rows = (by_j * j + (by_i * i + start)).bitwise_right_shift_(16).unbind(1)
    return pick_pixels(x, rows, columns)


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
    def warp(x: Tensor, magnitude: Tensor | float) -> Tensor:
        values = torch.as_tensor(magnitude, dtype=torch.float64).expand(len(x)).tolist()
        return affine(x, [matrix(value, *x.shape[2:]) for value in values])

    return warp


# ---- blends: towards a degenerate image, float32 that broadcasts to x, or away from it


def blend(low: Tensor, x: Tensor, magnitude: Tensor | float) -> Tensor:
    """Return low + (1 + magnitude)(x - low), cut to a byte: x at magnitude 0, low at -1."""
    factor = (1 + _column(magnitude, x)).float()
    return (x - low).mul_(factor).add_(low).clamp_(0, 255).byte()


def _black(x: Tensor) -> Tensor:
    return torch.zeros((), device=x.device)


def _grey(x: Tensor) -> Tensor:
    """Return the luma (b, 1, H, W) of RGB images; others have no colour to lose."""
    if x.shape[1] != 3:
        return x.float()
    parts = _beside((19595, 38470, 7471), x, torch.int32)  # of 65536
    luma = (x * parts.view(3, 1, 1)).sum(1, keepdim=True, dtype=torch.int32)
    return luma.add_(32768).bitwise_right_shift_(16).float()


def _mean(x: Tensor) -> Tensor:
    """Return the mean grey level of every image (b, 1, 1, 1), rounded."""
    grey = _grey(x).flatten(1)  # (b, n); whole numbers, so that no device rounds differently
    n = grey.shape[1]
    return ((2 * grey.sum(1, dtype=torch.int64) + n) // (2 * n)).float().view(-1, 1, 1, 1)


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
    return lambda x, magnitude: blend(low(x), x, magnitude)


LOWS = (_black, _grey, _mean, _smooth)

# ---- tables: a new grey level for every old one


def posterize(x: Tensor, bits: Tensor | float) -> Tensor:
    """Keep the leading bits of every byte."""
    return x & (256 - (1 << (8 - _column(bits, x).long()))).byte()


def solarize(x: Tensor, threshold: Tensor | float) -> Tensor:
    """Invert what is not below the threshold."""
    return torch.where(x < _column(threshold, x).ceil().short(), x, ~x)


def autocontrast(x: Tensor, magnitude: Tensor | float) -> Tensor:
    """Stretch every channel to the range from 0 to 255; a constant one stays as it is."""
    low, high = x.flatten(2).aminmax(dim=2, keepdim=True)  # (b, C, 1)
    flat = low == high
    # Doubles in Pillow's order, since what they give is truncated even where it should be whole.
    # Not 255 / tensor: that multiplies by the reciprocal and rounds twice.
    scale = (torch.full_like(low, 255, dtype=torch.float64) / (high - low)).masked_fill_(flat, 1)
    offset = (low * scale).masked_fill_(flat, 0)
    return (x * scale[..., None]).sub_(offset[..., None]).byte()


def equalize(x: Tensor, magnitude: Tensor | float) -> Tensor:
    """Spread the grey levels of every channel evenly; with too few of them it stays as it is."""
    value = x.flatten(2).long()  # (b, C, n)
    count = torch.zeros(*x.shape[:2], 256, dtype=torch.int64, device=x.device)
    count.scatter_add_(2, value, torch.ones_like(value))
    below = count.cumsum(2) - count  # how many pixels are darker than a level
    step = below.gather(2, value.amax(2, keepdim=True)) // 255  # (b, C, 1)
    even = ((below + step // 2) // step.clamp(min=1)).clamp_(max=255)
    table = torch.where(step > 0, even, torch.arange(256, device=x.device)).byte()
    return table.gather(2, value).view(x.shape)


TABLES: tuple[Operation, ...] = (posterize, solarize, autocontrast, equalize)

# ---- the policy

NAMES = (
    *("Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"),  # MATRICES from 1
    *("Brightness", "Color", "Contrast", "Sharpness"),  # LOWS from 6
    *("Posterize", "Solarize", "AutoContrast", "Equalize"),  # TABLES from 10
)
OPERATIONS: Mapping[str, Operation] = dict(
    zip(NAMES, (lambda x, _: x, *map(_warp, MATRICES), *map(_blend, LOWS), *TABLES), strict=True)
)


@lru_cache
def strengths(magnitude: int, bins: int, h: int, w: int) -> tuple[tuple[float, ...], ...]:
    """Return torchvision's magnitude of every operation, in the order of NAMES, for - and +."""
    ends = (0.3, 0.3, 150 / 331 * w, 150 / 331 * h, 30, 0.9, 0.9, 0.9, 0.9)
    signed = [torch.linspace(0, end, bins)[magnitude].item() for end in ends]  # float32, as there
    bits = 8 - round(magnitude / ((bins - 1) / 4))
    threshold = torch.linspace(255, 0, bins)[magnitude].item()
    return tuple((0.0, *(s * v for v in signed), bits, threshold, 0.0, 0.0) for s in (-1, 1))


def draw(n: int, generator: Generator, num_ops: int = 2) -> tuple[Tensor, Tensor]:
    """Draw an operation and a sign (0 is -) for every round and image: two (num_ops, n)."""
    ops = torch.randint(len(NAMES), (num_ops, n), generator=generator)
    return ops, torch.randint(2, (num_ops, n), generator=generator)


def _apply(x: Tensor, ops: list[int], levels: list[float]) -> Tensor:
    """Apply to every image of x (b, C, H, W) its operation, a place in NAMES, at its level."""
    # Images of one operation side by side: then a group is a slice, and nothing is scattered.
    order = sorted(range(len(ops)), key=ops.__getitem__)
    ops, levels = [ops[n] for n in order], [levels[n] for n in order]
    x = x.index_select(0, _beside(order, x, torch.int64))
    level = _beside(levels, x, torch.float64)
    cuts = [bisect_left(ops, k) for k in range(len(NAMES) + 1)]
    at = [slice(*pair) for pair in pairwise(cuts)]
    warps, blends = slice(cuts[1], cuts[6]), slice(cuts[6], cuts[10])
    done = [x[at[0]]]
    if ops[warps]:
        pairs = zip(ops[warps], levels[warps], strict=True)
        done.append(affine(x[warps], [MATRICES[k - 1](m, *x.shape[2:]) for k, m in pairs]))
    if ops[blends]:
        parts = [(low, x[n]) for low, n in zip(LOWS, at[6:10], strict=True) if ops[n]]
        lows = torch.cat([low(part).expand_as(part) for low, part in parts])
        done.append(blend(lows, x[blends], level[blends]))
    done += [f(x[n], level[n]) for f, n in zip(TABLES, at[10:], strict=True) if ops[n]]
    back = sorted(range(len(order)), key=order.__getitem__)
    return torch.cat(done).index_select(0, _beside(back, x, torch.int64))


def rand_augment(
    x: Tensor, generator: Generator, *, num_ops: int = 2, magnitude: int = 9, bins: int = 31
) -> Tensor:
    """Return x, uint8 (B, C, H, W), with num_ops operations of its own applied to every image."""
    if x.dtype != torch.uint8 or x.ndim != 4:
        raise InvalidInput(f"RandAugment takes uint8 (B, C, H, W), not {x.dtype} {tuple(x.shape)}")
    if not 0 <= magnitude < bins or bins < 2:
        raise InvalidSetting(f"magnitude {magnitude} is not among the {bins} bins 0 to {bins - 1}")
    ops, signs = draw(len(x), generator, num_ops)
    table = strengths(magnitude, bins, *x.shape[2:])
    for op, sign in zip(ops.tolist(), signs.tolist(), strict=True):
        x = _apply(x, op, [table[s][k] for s, k in zip(sign, op, strict=True)])
    return x
