"""Decoding: whatever Pillow reads becomes RGB of the asked size; what it cannot read is named."""

import contextlib
import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from earl.data import decode as images
from earl.errors import BrokenImage

RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (24, 24, 3), dtype=np.uint8)
SMOOTH = np.stack(np.meshgrid(np.arange(24), np.arange(24)), -1).astype(np.uint8) * 8
SMOOTH = np.concatenate([SMOOTH, 128 - SMOOTH[..., :1] // 2], axis=2)  # (24, 24, 3)


def encoded(picture, kind="PNG", **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


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


@settings(max_examples=300, deadline=None)
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
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(Image.fromarray(NOISE), "PNG", exif=exif)
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
