"""The operations of RandAugment image by image with numpy: for CPUs, the same bit for bit.

`earl.randaugment_batch` needs some hundred calls of torch for a batch, which suits a GPU. On a CPU
they take longer than the pixels do, and a call of numpy costs a fraction of one of torch.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from earl.randaugment_batch import FIXED, MATRICES, NAMES, origins

Pixels = NDArray[np.uint8]  # (C, H, W)
Floats = NDArray[np.float32]
Operation = Callable[[Pixels, float], Pixels]

LUMA = np.array((19595, 38470, 7471), np.float32) / np.float32(65536)
LEVELS = np.arange(256)
IDENTITY = bytes(range(256))
BLACK, WHITE = np.float32(0), np.float32(255)


def apply(x: Tensor, ops: Sequence[Sequence[int]], levels: Sequence[Sequence[float]]) -> Tensor:
    """Return x, uint8 (B, C, H, W), with one operation after the other applied to every image.

    Every round says of every image which of NAMES it is, and how strong.
    """
    done = np.empty(x.shape, np.uint8)
    for n, image in enumerate(x.numpy()):
        for op, level in zip(ops, levels, strict=True):
            image = OPERATIONS[op[n]](image, level[n])
        done[n] = image
    return torch.from_numpy(done)


# ---- warps


@lru_cache(maxsize=64)
def places(kind: int, level: float, h: int, w: int) -> tuple[NDArray[np.int64], Pixels]:
    """Return which pixel (H·W,) comes to each place, and 0 for the places that none comes to."""
    matrix = MATRICES[kind](level, h, w)
    origin = origins(matrix, h, w, torch.device("cpu")).numpy()
    return np.maximum(origin - 1, 0), (origin > 0).astype(np.uint8)


def _warp(kind: int) -> Operation:
    def warp(image: Pixels, level: float) -> Pixels:
        place, inside = places(kind, level, *image.shape[1:])
        moved: Pixels = image.reshape(len(image), -1).take(place, axis=1) * inside
        return moved.reshape(image.shape)

    return warp


# ---- blends


def blend(low: Floats | np.float32, image: Pixels, level: float) -> Pixels:
    """Return low + (1 + level)(image - low), cut to a byte."""
    mixed = image - low
    mixed *= np.float32(1 + level)
    mixed += low
    return mixed.clip(BLACK, WHITE, out=mixed).astype(np.uint8)


def grey(image: Pixels) -> Floats:
    """Return the luma (1, H, W) of an RGB image; others have no colour to lose."""
    if len(image) != 3:
        return image.astype(np.float32)
    # All sums are multiples of 2^-16 below 256, hence exact in any order.
    luma: Floats = LUMA @ image.reshape(3, -1).astype(np.float32)
    luma += 0.5
    return np.floor(luma, out=luma).reshape(1, *image.shape[1:])


def colour(image: Pixels, level: float) -> Pixels:
    return blend(grey(image), image, level)


def contrast(image: Pixels, level: float) -> Pixels:
    luma = grey(image)
    mean = (int(luma.sum(dtype=np.float64)) + luma.size // 2) // luma.size
    return blend(np.float32(mean), image, level)


def sharpness(image: Pixels, level: float) -> Pixels:
    low = image.astype(np.float32)
    if min(image.shape[1:]) >= 3:
        box = low[:, :-2] + low[:, 1:-1] + low[:, 2:]
        box = box[..., :-2] + box[..., 1:-1] + box[..., 2:]
        inner = low[:, 1:-1, 1:-1]
        box += 4 * inner
        box /= 13
        box += 0.5
        np.floor(box, out=inner)
    return blend(low, image, level)


# ---- tables


@lru_cache
def fixed(kind: int, level: float) -> bytes:
    """Return the new level of every level, the same for all images."""
    return FIXED[kind](level).numpy().tobytes()


def _table(kind: int) -> Operation:
    return lambda image, level: look_up(image, fixed(kind, level))


def look_up(pixels: Pixels, table: bytes) -> Pixels:
    return np.frombuffer(pixels.tobytes().translate(table), np.uint8).reshape(pixels.shape)


def _made(table: Callable[[Pixels], bytes]) -> Operation:
    """Return the operation that makes a table for every channel."""

    def operation(image: Pixels, _: float) -> Pixels:
        done = np.empty_like(image)
        for channel, to in zip(image, done, strict=True):
            to[:] = look_up(channel, table(channel.ravel()))
        return done

    return operation


def autocontrast(channel: Pixels) -> bytes:
    """Return the table that stretches a channel to the range from 0 to 255."""
    low, high = int(channel.min()), int(channel.max())
    if low == high:
        return IDENTITY
    scale = 255 / (high - low)
    stretched = LEVELS * scale
    stretched -= low * scale
    return stretched.clip(0, 255).astype(np.uint8).tobytes()


def equalize(channel: Pixels) -> bytes:
    """Return the table that spreads the levels of a channel evenly; too few of them stay."""
    count = np.bincount(channel, minlength=256)
    below = count.cumsum() - count  # how many pixels are darker than a level
    step = int(below[channel.max()]) // 255
    if not step:
        return IDENTITY
    even = (below + step // 2) // step
    return np.minimum(even, 255).astype(np.uint8).tobytes()


KINDS: dict[str, Operation] = {
    "Identity": lambda image, _: image,
    **dict(zip(NAMES[1:6], map(_warp, range(5)), strict=True)),
    "Color": colour,
    "Contrast": contrast,
    "Sharpness": sharpness,
    **dict(zip(("Brightness", "Posterize", "Solarize"), map(_table, range(3)), strict=True)),
    "AutoContrast": _made(autocontrast),
    "Equalize": _made(equalize),
}
OPERATIONS = [KINDS[name] for name in NAMES]
