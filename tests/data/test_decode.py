"""Decoding: whatever Pillow reads becomes RGB of the size that is asked for."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from earl.data import decode as images
from earl.errors import BrokenImage
from pictures import NOISE, encoded

SMOOTH = np.stack(np.meshgrid(np.arange(24), np.arange(24)), -1).astype(np.uint8) * 8
SMOOTH = np.concatenate([SMOOTH, 128 - SMOOTH[..., :1] // 2], axis=2)  # (24, 24, 3)


def rgb(data, size=24):
    """Return what we decode, as (H, W, 3)."""
    pixels = images.decode(data, size)
    assert pixels.dtype == np.uint8 and pixels.shape == (3, size, size)
    return pixels.transpose(1, 2, 0)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "WEBP", "GIF", "JPEG2000", "QOI"])
def test_every_lossless_codec_gives_the_pixels_back(kind):
    options = {"lossless": True} if kind == "WEBP" else {}
    flat = Image.new("RGB", (24, 24), (200, 30, 90))
    if kind not in Image.registered_extensions().values():
        pytest.skip(f"this Pillow does not write {kind}")
    try:
        data = encoded(flat, kind, **options)
    except (KeyError, OSError):
        pytest.skip(f"this Pillow does not write {kind}")
    assert (rgb(data) == np.array([200, 30, 90])).all()


def pillows(data):
    """Return what Pillow makes of a picture on its own way through the header, or None."""
    try:
        with Image.open(io.BytesIO(data)) as picture:
            return np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))
    except (OSError, SyntaxError, ValueError, LookupError, struct.error):
        return None


def segment(kind, content):
    return bytes([0xFF, kind]) + struct.pack(">H", 2 + len(content)) + content


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


JPEG = encoded(Image.fromarray(NOISE), "JPEG")
EXIF = turned(6).tobytes()  # begins with "Exif"
FRAME = JPEG.index(b"\xff\xc0")
SCAN = JPEG.index(b"\xff\xda")
JPEGS = {
    "plain": JPEG,
    "smooth": encoded(Image.fromarray(SMOOTH), "JPEG", quality=95),
    "full colour": encoded(Image.fromarray(NOISE), "JPEG", subsampling=0),
    "progressive": encoded(Image.fromarray(NOISE), "JPEG", progressive=True),
    "own tables": encoded(Image.fromarray(NOISE), "JPEG", optimize=True),
    "restarts": encoded(Image.fromarray(NOISE), "JPEG", restart_marker_blocks=2),
    "comment": encoded(Image.fromarray(NOISE), "JPEG", comment=b"\xff\xd8 and \xff\xda"),
    "more behind it": JPEG + b"\xff\xd8more",
    "JFIF missing": JPEG[:2] + JPEG[20:],
    "channels as they are": encoded(Image.fromarray(NOISE), "JPEG", keep_rgb=True),
    "Adobe": JPEG[:2] + segment(0xEE, b"Adobe\0\x64\0\0\0\0\0") + JPEG[20:],
    "colour profile": encoded(Image.fromarray(NOISE), "JPEG", icc_profile=b"profile"),
    "turned": encoded(Image.fromarray(SMOOTH), "JPEG", exif=turned(6)),
    "turned after the frame": JPEG[:SCAN] + segment(0xE1, EXIF) + JPEG[SCAN:],
    "two sizes": JPEG[:FRAME] + segment(0xC0, JPEG[FRAME + 4 : FRAME + 19]) + JPEG[FRAME:],
    "grey": encoded(Image.fromarray(NOISE[..., 0]), "JPEG"),
    "filling bytes": JPEG[:20] + b"\xff\xff" + JPEG[20:],
    "without a size": JPEG[: FRAME + 5] + bytes(4) + JPEG[FRAME + 9 :],
    "a longer side": JPEG[: FRAME + 5] + struct.pack(">HH", 40, 24) + JPEG[FRAME + 9 :],
    "an empty segment": JPEG[:20] + b"\xff\xfe\0\0" + JPEG[20:],
}


@pytest.mark.parametrize("name", JPEGS)
def test_a_jpeg_decodes_as_pillow_decodes_it(name):
    data = JPEGS[name]
    expected = pillows(data)
    if expected is None:
        with pytest.raises(BrokenImage):
            images.decode(data, 24)
    else:
        resized = Image.fromarray(expected).resize((24, 24), Image.Resampling.BILINEAR)
        assert (rgb(data) == np.asarray(resized)).all()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([JPEGS[name] for name in ("plain", "progressive", "restarts")]), st.data())
def test_a_damaged_jpeg_is_what_pillow_makes_of_it(data, draw):
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        place = draw.draw(st.integers(0, SCAN) | st.integers(0, len(damaged) - 1))
        damaged[place] = draw.draw(st.sampled_from([0, 1, 2, 24, 0xC0, 0xDA, 0xE1, 0xFF]))
    damaged = bytes(damaged[: draw.draw(st.just(len(damaged)) | st.integers(0, len(damaged)))])
    expected = pillows(damaged)
    try:
        found = images._upright(images._open(damaged))
    except (BrokenImage, *images.PILLOW_RAISES):
        assert expected is None
    else:
        assert (np.asarray(found) == expected).all()


def test_grey_becomes_three_equal_channels():
    grey = NOISE[..., 0]
    assert (rgb(encoded(Image.fromarray(grey))) == grey[..., None]).all()


def test_black_and_white_becomes_0_and_255():
    bits = NOISE[..., 0] > 127
    assert (rgb(encoded(Image.fromarray(bits))) == np.where(bits, 255, 0)[..., None]).all()


def test_transparency_is_laid_on_white():
    rgba = np.zeros((24, 24, 4), np.uint8)
    rgba[:12] = (10, 20, 30, 255)
    rgba[12:, :, 0] = 77  # hidden below full transparency
    out = rgb(encoded(Image.fromarray(rgba)))
    assert (out[:12] == (10, 20, 30)).all() and (out[12:] == 255).all()


def test_palette_with_and_without_transparency():
    indices = (NOISE[..., 0] % 2).astype(np.uint8)
    picture = Image.fromarray(indices).convert("P")
    picture.putpalette([9, 8, 7, 200, 100, 50] + [0] * 762)
    colours = np.array([[9, 8, 7], [200, 100, 50]])
    assert (rgb(encoded(picture)) == colours[indices]).all()
    seen = rgb(encoded(picture, transparency=1))
    assert (seen == np.array([[9, 8, 7], [255, 255, 255]])[indices]).all()


def test_transparent_colour_of_an_rgb_png_is_white():
    flat = np.full((24, 24, 3), 40, np.uint8)
    flat[:4] = (1, 2, 3)
    out = rgb(encoded(Image.fromarray(flat), transparency=(1, 2, 3)))
    assert (out[:4] == 255).all() and (out[4:] == 40).all()


def test_16_bit_grey_is_scaled_not_clipped():
    deep = (np.arange(24 * 24, dtype=np.uint32) * 113).astype(np.uint16).reshape(24, 24)
    out = rgb(encoded(Image.fromarray(deep)))
    expected = np.round(deep / 65535 * 255)
    assert np.abs(out[..., 0] - expected).max() <= 1 and out.max() > 200


def test_cmyk_jpeg_is_what_pillow_shows():
    cmyk = Image.fromarray(SMOOTH).convert("CMYK")
    data = encoded(cmyk, "JPEG", quality=95)
    assert Image.open(io.BytesIO(data)).mode == "CMYK"
    assert np.abs(rgb(data).astype(int) - SMOOTH).mean() < 12


def test_floating_point_pixels_are_refused():
    data = encoded(Image.fromarray(np.zeros((8, 8), np.float32)), "TIFF")
    with pytest.raises(BrokenImage, match="floating-point"):
        images.decode(data, 8)


@pytest.mark.parametrize(
    ("orientation", "turn"),
    [
        (1, lambda a: a),
        (2, lambda a: a[:, ::-1]),
        (3, lambda a: a[::-1, ::-1]),
        (4, lambda a: a[::-1]),
        (5, lambda a: a.transpose(1, 0, 2)),
        (6, lambda a: np.rot90(a, -1)),
        (7, lambda a: a.transpose(1, 0, 2)[::-1, ::-1]),
        (8, lambda a: np.rot90(a)),
    ],
)
def test_exif_orientation_turns_the_picture_upright(orientation, turn):
    data = encoded(Image.fromarray(NOISE), "PNG", exif=turned(orientation))
    assert (rgb(data) == turn(NOISE)).all()


def test_another_size_is_resized_to_a_square_without_cropping():
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, :30] = 255
    out = rgb(encoded(Image.fromarray(wide)), 16)
    assert (out[:, :6] == 255).all() and (out[:, 10:] == 0).all()


def test_resizing_is_pillows_bilinear():
    expected = Image.fromarray(NOISE).resize((16, 16), Image.Resampling.BILINEAR)
    assert (rgb(encoded(Image.fromarray(NOISE)), 16) == np.asarray(expected)).all()


def test_animation_gives_its_first_frame():
    frames = [Image.new("RGB", (24, 24), c) for c in ((255, 0, 0), (0, 255, 0))]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert (rgb(data)[0, 0] == (255, 0, 0)).all()


def grey16():
    return Image.fromarray(np.arange(24 * 24, dtype=np.uint16).reshape(24, 24) * 113)


def palette():
    picture = Image.fromarray(NOISE).quantize(8)
    picture.info["transparency"] = bytes(range(0, 256, 32))
    return picture


PICTURES = {
    "RGBA": lambda: Image.fromarray(np.concatenate([NOISE, NOISE[..., :1]], axis=2)),
    "LA": lambda: Image.fromarray(NOISE[..., :2]),
    "P": palette,
    "I;16": grey16,
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_in_strips_is_the_same_as_in_one_piece(name, monkeypatch):
    data = encoded(PICTURES[name]())
    whole, seen = rgb(data), []
    real = {act: getattr(images, act) for act in ("_grey", "_on_white")}
    for act, call in real.items():
        monkeypatch.setattr(images, act, lambda s, call=call: seen.append(s.size) or call(s))
    for pixels, strips in ((24 * 24, 1), (24 * 7, 4), (24, 24), (1, 24)):
        monkeypatch.setattr(images, "STRIP", pixels)
        seen.clear()
        assert (rgb(data) == whole).all() and len(seen) == strips
