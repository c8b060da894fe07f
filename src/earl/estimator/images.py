"""Images as people have them: paths, pictures, arrays; RGB of one size as a learner takes them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from earl.data.decode import MOST_PIXELS, MOST_SIDE, Pixels, decode, from_picture, read_file
from earl.errors import BrokenImage, InvalidInput

CHANNELS = (1, 3, 4)  # grey, RGB, RGBA
SINGLE = (str, bytes, Mapping, os.PathLike, Image.Image)  # is one image, not several


@dataclass(frozen=True)
class ImageReader:
    """Reads images of any size as uint8 (3, size, size); it never changes.

    An image is a path, the bytes of a file, a picture of Pillow's, or an array: (H, W), (H, W, C)
    or (C, H, W) with 1, 3 or 4 channels, uint8 or floats from 0 to 1. Where the first and the last
    side of an array could both be channels, numpy has them last and torch first. Whatever is not
    square is resized without cropping.
    """

    size: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return 3, self.size, self.size

    @property
    def features(self) -> int | None:
        return None

    def meet(self, X: Sequence[object]) -> "ImageReader":
        """Return the reader for these samples: itself."""
        return self

    def state_dict(self) -> dict[str, Any]:
        return {}

    def restored(self, state: Mapping[str, Any]) -> "ImageReader":
        return self

    def shown(self, x: Tensor) -> NDArray[Any]:
        """Return a sample (3, size, size) as people have images: (size, size, 3)."""
        return np.ascontiguousarray(x.numpy().transpose(1, 2, 0))

    def many(self, X: object) -> list[object]:
        """Return several images one by one; InvalidInput if X is a single one or none."""
        if isinstance(X, SINGLE) or (isinstance(X, np.ndarray | Tensor) and X.ndim in (2, 3)):
            raise InvalidInput("X must hold several images; put one image into a list: [image]")
        if isinstance(X, np.ndarray | Tensor) and X.ndim not in (1, 4):
            raise InvalidInput(f"X of shape {tuple(X.shape)} is no array of images (N, H, W, C)")
        try:
            images: list[object] = list(X)  # type: ignore[call-overload]
        except TypeError:
            raise InvalidInput(f"X must be a list of images, not {type(X).__name__}") from None
        if not images:
            raise InvalidInput("X holds no image; at least 1 is needed")
        return images

    def read(self, X: Sequence[object]) -> Tensor:
        """Return images as uint8 (n, 3, size, size)."""
        return torch.from_numpy(np.stack([self.pixels(x) for x in X]))

    def pixels(self, x: object) -> Pixels:
        """Return one image as uint8 (3, size, size); InvalidInput or BrokenImage says why not."""
        if isinstance(x, Mapping):
            if set(x) != {"image"}:
                raise InvalidInput(
                    f"of a mapping only the key 'image' is read, not {list(x)!r:.80}"
                )
            x = x["image"]
        if isinstance(x, str | os.PathLike):
            return self._file(Path(x))
        if isinstance(x, bytes):
            return decode(x, self.size)
        if isinstance(x, Image.Image):
            return from_picture(x, self.size)
        if isinstance(x, np.ndarray | Tensor):
            return self._array(x)
        raise InvalidInput(
            f"a {type(x).__name__} is no image; give a path, a PIL image, or an array (H, W, C) of "
            "uint8 or of floats from 0 to 1"
        )

    def _file(self, path: Path) -> Pixels:
        try:
            return decode(read_file(path), self.size)
        except (BrokenImage, ValueError) as error:  # ValueError: a zero byte in a path
            raise BrokenImage(f"{path}: {error}") from None

    def _array(self, x: NDArray[Any] | Tensor) -> Pixels:
        first = isinstance(x, Tensor)
        array = to_bytes(to_numpy(x))
        if array.ndim == 2:
            array = array[:, :, None]
        if array.ndim != 3 or 0 in array.shape:
            raise InvalidInput(f"an image has the shape (H, W, C) or (H, W), not {array.shape}")
        last_fits, first_fits = array.shape[2] in CHANNELS, array.shape[0] in CHANNELS
        if first_fits and (first or not last_fits):
            array = array.transpose(1, 2, 0)
        elif not last_fits:
            raise InvalidInput(f"an image has 1, 3 or 4 channels, unlike one of {array.shape}")
        h, w, c = array.shape
        if h * w > MOST_PIXELS or max(h, w) > MOST_SIDE:
            raise InvalidInput(f"an image of {w:,} x {h:,} pixels is too large; resize it first")
        if (h, w, c) == (self.size, self.size, 3):
            return np.ascontiguousarray(array.transpose(2, 0, 1))
        flat = array[:, :, 0] if c == 1 else array
        return from_picture(Image.fromarray(np.ascontiguousarray(flat)), self.size)


def to_numpy(x: NDArray[Any] | Tensor) -> NDArray[Any]:
    """Return an array or a tensor as an array; InvalidInput if a tensor cannot be read so."""
    if not isinstance(x, Tensor):
        return x
    try:
        return np.asarray(x.numpy(force=True))
    except (TypeError, RuntimeError, NotImplementedError):  # sparse, nested, bfloat16, without data
        raise InvalidInput(f"a tensor of {x.dtype} and {x.layout} cannot be read") from None


def to_bytes(array: NDArray[Any]) -> Pixels:
    """Return an array as uint8; floats must lie between 0 and 1, other types are refused."""
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise InvalidInput(
            f"an image is uint8 from 0 to 255, or floats from 0 to 1, not {array.dtype}; whole "
            "numbers from 0 to 255 become so by x.astype('uint8')"
        )
    if array.size and not (array.min() >= 0 and array.max() <= 1):  # also if one is NaN
        raise InvalidInput(
            "floats in an image must lie between 0 and 1, and none may be NaN; those from 0 to 255 "
            "become so by x / 255"
        )
    pixels: Pixels = np.rint(array * array.dtype.type(255)).astype(np.uint8)
    return pixels
