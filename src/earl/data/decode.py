"""Pictures from files: the one place that decodes images.

Whatever Pillow reads becomes RGB, uint8 (3, size, size): turned upright as its EXIF data says,
resized to a square without cropping (methods: Sec. "Augmentation"), transparency laid on white,
16-bit grey scaled to 8 bits. Of an animation the first frame counts. Formats that Pillow hands to
other programs (EPS, WMF) are not read, nor is anything whose header promises too many pixels, too
long a side or too many bytes.
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
FRAMES = frozenset((0xC0, 0xC1, 0xC2))  # baseline, extended, progressive
PLAIN = FRAMES | {0xC4, 0xDB, 0xDD, 0xE0, 0xFE}  # and tables, restarts, JFIF, comments
READ_ONLY = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
PILLOW_RAISES = (
    *(OSError, EOFError, ValueError, TypeError, LookupError, SyntaxError, ArithmeticError),
    *(AttributeError, AssertionError, NotImplementedError, UserWarning, struct.error, zlib.error),
)

Pixels = NDArray[np.uint8]


def decode(data: bytes, size: int) -> Pixels:
    """Return an encoded picture as RGB, uint8 (3, size, size); BrokenImage says why not."""
    return np.asarray(_square(data, size)).transpose(2, 0, 1)


def from_picture(picture: Image.Image, size: int) -> Pixels:
    """Return a picture of Pillow's as RGB, uint8 (3, size, size); BrokenImage says why not."""
    upright = _resized(_guarded(lambda: _upright(picture)), size)
    return np.ascontiguousarray(np.asarray(upright).transpose(2, 0, 1))


class Sheet:
    """Pictures of one size, one below the other, whose pixels leave Pillow all at once.

    To take them out of a small picture costs a fifth of what it takes to decode it.
    """

    def __init__(self, rows: int, size: int) -> None:
        self._size = size
        self._sheet = Image.new("RGB", (size, size * rows))

    def put(self, row: int, data: bytes) -> None:
        """Decode a picture onto its row, which is black before; BrokenImage says why not."""
        self._sheet.paste(_square(data, self._size), (0, row * self._size))

    def pixels(self) -> Pixels:
        """Return all rows, uint8 (rows, 3, size, size)."""
        return np.asarray(self._sheet).reshape(-1, self._size, self._size, 3).transpose(0, 3, 1, 2)


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
        with os.fdopen(os.open(path, READ_ONLY), "rb") as file:
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


def _square(data: bytes, size: int) -> Image.Image:
    """Return a decoded picture of the size that is asked for."""
    return _resized(_plain_jpeg(data) or _guarded(lambda: _upright(_open(data))), size)


def _resized(picture: Image.Image, size: int) -> Image.Image:
    if picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.BILINEAR)
    return picture


def _plain_jpeg(data: bytes) -> Image.Image | None:
    """Return a JPEG whose header asks for nothing but decoding; None for any other picture.

    For a small one, Pillow's own way through the header takes as long as the decoder.
    """
    try:
        size = _size_of_plain_jpeg(data)
        return Image.frombytes("RGB", size, data, "jpeg", "RGB", "") if size else None
    except PILLOW_RAISES:  # the long way will tell
        return None


def _size_of_plain_jpeg(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a JPEG of three channels that has none but PLAIN segments."""
    if not data.startswith(b"\xff\xd8"):
        return None
    at, size = 2, (0, 0)
    while data[at] == 0xFF and data[at + 1] in PLAIN:
        kind, length = data[at + 1], data[at + 2] << 8 | data[at + 3]
        if length < 2:
            return None
        if kind in FRAMES:
            bits, height, width, channels = struct.unpack_from(">BHHB", data, at + 4)
            if bits != 8 or channels != 3 or any(size):
                return None
            size = width, height
        at += 2 + length
    scan = data[at : at + 2] == b"\xff\xda"
    return size if scan and 0 < size[0] * size[1] <= MOST_PIXELS else None  # sides have 16 bits


def _open(data: bytes) -> Image.Image:
    """Return a picture whose header was read and is within the limits."""
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
    """Run a step of Pillow's; whatever it makes of a broken file becomes a BrokenImage."""
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
    """Make RGB of a picture, some rows at a time: what takes many bytes is never there whole."""
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
