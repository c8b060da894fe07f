"""Broken and hostile images: refused by their header where possible, and never a crash."""

import contextlib
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from earl.data import decode as images
from earl.errors import BrokenImage
from pictures import NOISE, encoded


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.9])
def test_truncated_image_is_broken_for_decode_and_check(kind, share):
    data = encoded(Image.fromarray(np.tile(NOISE, (4, 4, 1))), kind)
    cut = data[: int(len(data) * share)]
    for act in (lambda: images.decode(cut, 24), lambda: images.check(cut)):
        with pytest.raises(BrokenImage):
            act()


def test_check_agrees_with_decode_and_gives_the_size():
    data = encoded(Image.fromarray(np.zeros((30, 50, 3), np.uint8)), "JPEG")
    assert images.check(data) == (50, 30) and images.side(data) == 40


def bomb_png(width, height):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1 << 20))
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.mark.parametrize("side", [9_500, 12_000, 60_000, 2**31 - 1])
def test_too_many_pixels_are_refused_from_the_header(side):
    with pytest.raises(BrokenImage, match="more than 80,000,000"):
        images.decode(bomb_png(side, side), 32)


@pytest.mark.parametrize("size", [(1, 79_999_999), (79_999_999, 1), (65_536, 1)])
def test_too_long_a_side_is_refused_from_the_header(size):
    for act in (lambda data: images.decode(data, 32), images.check, images.side):
        with pytest.raises(BrokenImage, match="a side may have at most 65,535"):
            act(bomb_png(*size))


def with_size(data, place, width, height):
    """Return an encoded picture whose header promises another size."""
    return data[:place] + struct.pack(">II", width, height) + data[place + 8 :]


def test_too_many_bytes_are_refused_from_the_header():
    """Decoders of some formats hold several copies, so that fewer pixels can be allowed."""
    flat = Image.new("RGB", (24, 24))
    try:
        data = encoded(flat, "JPEG2000")
    except (KeyError, OSError):
        pytest.skip("this Pillow does not write JPEG2000")
    box, frame = data.index(b"ihdr") + 4, data.index(b"\xff\x51") + 6
    assert data[frame : frame + 8] == struct.pack(">II", 24, 24)
    large = with_size(with_size(data, box, 7000, 7000), frame, 7000, 7000)
    with pytest.raises(BrokenImage, match="of JPEG2000 48,000,000 can be decoded"):
        images.decode(large, 32)
    assert images.side(with_size(with_size(data, box, 6000, 6000), frame, 6000, 6000)) == 6000


@pytest.mark.parametrize("data", [b"", b"hello", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9"])
def test_what_is_no_image_is_refused(data):
    with pytest.raises(BrokenImage, match="no image"):
        images.decode(data, 32)


def test_no_format_that_runs_another_program_is_read():
    assert not {"EPS", "WMF"} & set(images.FORMATS)


def test_a_missing_file_a_folder_and_a_device_are_broken(tmp_path):
    for path in (tmp_path / "absent.png", tmp_path, "/dev/zero"):
        with pytest.raises(BrokenImage):
            images.read_file(path)


SEEDS = [encoded(Image.fromarray(NOISE), kind) for kind in ("JPEG", "PNG", "GIF", "TIFF", "WEBP")]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SEEDS), st.data())
def test_damaged_bytes_raise_nothing_but_broken_image(data, draw):
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 6))):
        place = draw.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(BrokenImage):
        assert images.decode(bytes(damaged), 8).shape == (3, 8, 8)
