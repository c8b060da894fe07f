"""Pictures from files: the one place that decodes images.

Whatever Pillow reads becomes RGB, uint8 (3, size, size): turned upright as its EXIF data says,
resized to a square without cropping (methods: Sec. "Augmentation"), on a white background where it
is transparent, 16-bit grey scaled to 8 bits. Of an animation the first frame is taken. Formats that
Pillow hands to other programs (EPS, WMF) are not read, nor is anything whose header announces too
many pixels, too long a side or too many bytes.
"""

import io
import os
import stat
import struct
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from earl.errors import BrokenImage
from earl.storage.reading import BINARY, NONBLOCK

FORMATS = (  # the common ones first: they are tried in this order
    *("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "MPO", "JPEG2000", "AVIF"),
    *("QOI", "TGA", "ICO", "PCX", "SGI", "DDS", "DIB"),
)
ENDINGS = frozenset(
    f".{ending}"
    for ending in (
        *("jpg", "jpeg", "jpe", "jfif", "png", "webp", "gif", "bmp", "dib", "tif", "tiff", "ppm"),
        *("pgm", "pbm", "pnm", "mpo", "jp2", "j2k", "avif", "qoi", "tga", "ico", "pcx", "sgi"),
        "dds",
    )
)
MOST_PIXELS = 80_000_000  # the largest picture of ImageNet has 61 million
MOST_SIDE = 65_535  # a row takes memory of its own; no JPEG has a longer side
MOST_MEMORY = 12 * MOST_PIXELS  # bytes that decoding a picture may take
BYTES_OF_A_PIXEL = {"CMYK": 12, "JPEG2000": 20, "WEBP": 16, "AVIF": 16}  # at most; of others 8
MOST_BYTES = 256 << 20
STRIP = 1 << 20  # pixels that are converted at a time
PILLOW_RAISES = (
    *(OSError, EOFError, ValueError, TypeError, LookupError, SyntaxError, ArithmeticError),
    *(AttributeError, AssertionError, NotImplementedError, UserWarning, struct.error, zlib.error),
)

Pixels = NDArray[np.uint8]


def decode(data: bytes, size: int) -> Pixels:
    """Return an encoded picture as RGB, uint8 (3, size, size); BrokenImage says why not."""
    return from_picture(_open(data), size)


def from_picture(picture: Image.Image, size: int) -> Pixels:
    """Return a picture of Pillow's as RGB, uint8 (3, size, size); BrokenImage says why not."""
    picture = _guarded(lambda: _upright(picture))
    if picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(picture).transpose(2, 0, 1)


def check(data: bytes) -> tuple[int, int]:
    """Return width and height of a picture that can be decoded to its end; else BrokenImage.

    A JPEG is decoded at an eighth of its size: that reads all of its data in a third of the time.
    """
    picture = _open(data)
    found = picture.size
    picture.draft(None, (1, 1))  # does nothing to other formats
    _guarded(lambda: _upright(picture))
    return found


def side(data: bytes) -> int:
    """Return the mean of width and height, from the header alone."""
    width, height = _open(data).size
    return (width + height) // 2


def resize(pixels: Pixels, size: int) -> Pixels:
    """Return decoded images (n, 3, H, W) as (n, 3, size, size)."""
    if pixels.shape[2:] == (size, size):
        return pixels
    out = np.empty((len(pixels), 3, size, size), np.uint8)
    for row, image in enumerate(pixels):
        picture = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
        resized = picture.resize((size, size), Image.Resampling.BILINEAR)
        out[row] = np.asarray(resized).transpose(2, 0, 1)
    return out


def read_file(path: str | Path) -> bytes:
    """Return the bytes of an image file; BrokenImage if there is no such regular file."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | NONBLOCK | BINARY), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BrokenImage("it is not a regular file")
            if found.st_size > MOST_BYTES:
                raise BrokenImage(f"it has {found.st_size:,} bytes, more than {MOST_BYTES:,}")
            return file.read()
    except OSError as error:
        raise BrokenImage(f"it cannot be read ({error.strerror or error})") from None


@cache
def formats() -> tuple[str, ...]:
    """Return the formats that this Pillow was built with."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _open(data: bytes) -> Image.Image:
    """Read the header of a picture, check it against the limits, and return the picture."""
    picture = _guarded(lambda: Image.open(io.BytesIO(data), formats=formats()))
    width, height = picture.size
    promise = f"it promises {width:,} x {height:,} pixels"
    if width * height > MOST_PIXELS:
        raise BrokenImage(f"{promise}, more than {MOST_PIXELS:,}")
    if max(width, height) > MOST_SIDE:
        raise BrokenImage(f"{promise}; a side may have at most {MOST_SIDE:,}")
    each = max(BYTES_OF_A_PIXEL.get(name or "", 8) for name in (picture.mode, picture.format))
    if width * height * each > MOST_MEMORY:
        most = MOST_MEMORY // each
        raise BrokenImage(
            f"{promise}; of {picture.format} {most:,} can be decoded; store it as PNG"
        )
    return picture


def _guarded(act: Callable[[], Image.Image]) -> Image.Image:
    """Call Pillow; whatever it raises for a broken file becomes a BrokenImage."""
    try:
        return act()
    except UnidentifiedImageError:
        raise BrokenImage("it is no image that can be read") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise BrokenImage(f"it promises more than {MOST_PIXELS:,} pixels") from None
    except BrokenImage:  # ours, also a ValueError
        raise
    # A hostile or damaged file can raise nearly anything inside Pillow's parsers.
    except PILLOW_RAISES as error:
        raise BrokenImage(f"it cannot be decoded ({error})") from None


def _upright(picture: Image.Image) -> Image.Image:
    """Return a picture in RGB, turned as its EXIF data says."""
    if picture.mode == "RGB" and not picture.info.get("exif"):  # most are
        picture.load()
        if "transparency" not in picture.info:
            return picture
    picture = ImageOps.exif_transpose(picture)
    if picture.mode == "F":
        raise BrokenImage("its pixels are floating-point numbers; store it with 8 or 16 bits")
    if picture.mode == "I" or picture.mode.startswith("I;16"):
        return _in_strips(picture, _grey)
    return (
        _in_strips(picture, _on_white) if picture.has_transparency_data else picture.convert("RGB")
    )


def _in_strips(picture: Image.Image, act: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """Convert a picture to RGB, some rows at a time, so that it takes little memory meanwhile."""
    width, height = picture.size
    rows = max(1, STRIP // width)
    if height <= rows:
        return act(picture)
    made = Image.new("RGB", picture.size)
    for top in range(0, height, rows):
        box = (0, top, width, min(top + rows, height))
        made.paste(act(picture.crop(box)), box)
    return made


def _grey(strip: Image.Image) -> Image.Image:
    grey = np.asarray(strip).astype(np.int64)
    if grey.min() < 0 or grey.max() > 0xFFFF:
        raise BrokenImage("its pixels have more than 16 bits; store it with 8 or 16")
    return Image.fromarray(((grey + 128) // 257).astype(np.uint8)).convert("RGB")


def _on_white(strip: Image.Image) -> Image.Image:
    over = strip.convert("RGBA")
    white = Image.new("RGBA", over.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, over).convert("RGB")
