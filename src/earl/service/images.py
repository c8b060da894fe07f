"""Posted images: the only place that decodes them, within limits that are checked before."""

import io
import threading
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from earl.data.decode import PILLOW_RAISES, decode, formats, side
from earl.errors import BrokenImage
from earl.service.refusals import Refused

Image = NDArray[np.uint8]  # (size, size, 3)

LARGE = 1 << 20  # pixels from which on images are decoded one after the other
_one_by_one = threading.Lock()
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
BEGINNINGS = (  # of files, and their media types
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"RIFF", "image/webp"),
)


@dataclass(frozen=True)
class ImageLimits:
    """What a posted image may be at most."""

    most_bytes: int = 8 << 20
    most_pixels: int = 4096 * 3072
    most_side: int = 8192


def taken() -> list[str]:
    """Return the formats that are taken, of those that this Pillow was built with."""
    return [name for name in formats() if name in FORMATS]


def decoded(data: bytes, size: int) -> Image:
    """Return the pixels of an image as a learner takes them, (size, size, 3).

    Of large images there is one at a time in memory, whoever wants it.
    """
    with _one_by_one if side(data) ** 2 >= LARGE else nullcontext():
        return np.ascontiguousarray(decode(data, size).transpose(1, 2, 0))


def checked(data: bytes, size: int, limits: ImageLimits) -> Image:
    """Return the pixels of a posted image; Refused says why not.

    The header is looked at first: nothing is decoded that promises too much.
    """
    if not data:
        raise Refused(422, "no_image", "the image is empty")
    if len(data) > limits.most_bytes:
        most = f"at most {limits.most_bytes:,} are taken"
        raise Refused(413, "image_too_large", f"the image has {len(data):,} bytes; {most}")
    try:
        with Pillow.open(io.BytesIO(data), formats=taken()) as picture:
            width, height = picture.size
    except (*PILLOW_RAISES, Pillow.DecompressionBombError):
        kinds = "JPEG, PNG, WebP, GIF or BMP"
        raise Refused(415, "not_an_image", f"this is no image that is taken: {kinds}") from None
    if width * height > limits.most_pixels or max(width, height) > limits.most_side:
        detail = f"the image has {width:,} x {height:,} pixels; make it smaller"
        raise Refused(413, "image_too_large", detail)
    found = decoded_or_none(data, size)
    if found is None:
        detail = "the image is cut short or damaged and cannot be decoded"
        raise Refused(422, "broken_image", detail)
    return found


def decoded_or_none(data: bytes, size: int) -> Image | None:
    """Return the pixels, or None: an error that goes on would keep half a picture in memory."""
    try:
        return decoded(data, size)
    except BrokenImage:
        return None


def media_type(data: bytes) -> str:
    """Return the media type of an image that was taken."""
    for beginning, name in BEGINNINGS:
        if data.startswith(beginning):
            return name
    return "application/octet-stream"
