"""The operations of RandAugment beside Pillow's, and torchvision's where it is installed."""

import importlib.util
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image, ImageEnhance, ImageOps

from earl.nn.randaugment import strengths
from earl.nn.randaugment_ops import NAMES, OPERATIONS
from randaugment_tools import from_pil, images
from seeds import generator

SIZES = [(32, 32), (33, 20), (7, 13), (3, 3), (2, 5), (1, 1)]


# ---- Pillow: what torchvision calls for PIL images


def affine(image, *matrix):
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)


PILLOW = {
    "Identity": lambda image, m: image,
    "ShearX": lambda image, m: affine(image, 1, m, 0, 0, 1, 0),
    "ShearY": lambda image, m: affine(image, 1, 0, 0, m, 1, 0),
    "TranslateX": lambda image, m: affine(image, 1, 0, -int(m), 0, 1, 0),
    "TranslateY": lambda image, m: affine(image, 1, 0, 0, 0, 1, -int(m)),
    "Rotate": lambda image, m: image.rotate(m, Image.Resampling.NEAREST),
    "Brightness": lambda image, m: ImageEnhance.Brightness(image).enhance(1.0 + m),
    "Color": lambda image, m: ImageEnhance.Color(image).enhance(1.0 + m),
    "Contrast": lambda image, m: ImageEnhance.Contrast(image).enhance(1.0 + m),
    "Sharpness": lambda image, m: ImageEnhance.Sharpness(image).enhance(1.0 + m),
    "Posterize": lambda image, m: ImageOps.posterize(image, int(m)),
    "Solarize": lambda image, m: ImageOps.solarize(image, m),
    "AutoContrast": lambda image, m: ImageOps.autocontrast(image),
    "Equalize": lambda image, m: ImageOps.equalize(image),
}


def to_pil(x):
    """Turn one image (1 or 3, H, W) into a picture of mode L or RGB."""
    return Image.fromarray(x[0].numpy() if len(x) == 1 else x.permute(1, 2, 0).numpy())


def by_pillow(name, x, magnitudes):
    pairs = zip(x, magnitudes.tolist(), strict=True)
    return torch.stack([from_pil(PILLOW[name](to_pil(image), m)) for image, m in pairs])


def magnitudes(name, n, size, g):
    """Return n magnitudes of both signs, wider than the policy's ranges where that makes sense."""
    u = 2 * torch.rand(n, generator=g, dtype=torch.float64) - 1
    scale = {"ShearX": 0.5, "ShearY": 0.5, "Rotate": 200.0, "Solarize": 128.0}
    scale |= {"TranslateX": 1.2 * size[1], "TranslateY": 1.2 * size[0]}
    if name == "Posterize":
        return torch.randint(1, 9, (n,), generator=g).double()
    return u * scale.get(name, 0.95) + (128 if name == "Solarize" else 0)


def test_there_are_the_fourteen_operations():
    assert tuple(OPERATIONS) == NAMES == tuple(PILLOW)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_operation_equals_pillow(name, channels, size):
    """Exactly: the blends truncate float32, the warps use 16.16 fixed point, as Pillow does."""
    g = generator(1)
    x = images(channels, size, g)
    m = magnitudes(name, len(x), size, g)
    before = x.clone()
    result = OPERATIONS[name](x, m)
    assert result.dtype == torch.uint8
    assert torch.equal(result, by_pillow(name, x, m))
    assert torch.equal(x, before)


@pytest.mark.parametrize("size", [(32, 32), (31, 48)], ids=str)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("magnitude", [0, 9, 30])
def test_operation_equals_pillow_at_the_magnitudes_of_the_policy(name, magnitude, size):
    x = images(3, size, generator(2))
    for sign in strengths(magnitude, 31, *size):
        m = sign[NAMES.index(name)]
        expected = by_pillow(name, x, torch.full((len(x),), m, dtype=torch.float64))
        assert torch.equal(OPERATIONS[name](x, m), expected)  # a number stands for all images


@settings(max_examples=150, deadline=None)
@given(
    array=hnp.arrays(
        np.uint8,
        st.tuples(st.sampled_from([1, 3]), st.integers(1, 12), st.integers(1, 12)),
        elements=st.one_of(st.integers(0, 255), st.sampled_from([0, 127, 128, 255])),
    ),
    name=st.sampled_from(NAMES),
    u=st.floats(-1, 1),
)
def test_operation_equals_pillow_on_any_image(array, name, u):
    scale = {"Rotate": 360, "TranslateX": 12, "TranslateY": 12}.get(name, 1)
    m = {"Posterize": round(4.5 + 3.5 * u), "Solarize": 128 + 130 * u}.get(name, scale * u)
    x = torch.from_numpy(array)[None]
    expected = by_pillow(name, x, torch.tensor([m], dtype=torch.float64))
    assert torch.equal(OPERATIONS[name](x, m), expected)


# ---- conventions, stated


def test_pixel_centres_are_at_half_integers_and_coordinates_round_down():
    x = images(1, (9, 14), generator(), n=1)[:1]
    slope = 0.4
    expected = torch.zeros_like(x)
    for i in range(9):
        for j in range(14):
            source = int(j + 0.5 + slope * (i + 0.5))  # the top left corner of the image stays
            if source < 14:
                expected[0, 0, i, j] = x[0, 0, i, source]
    assert torch.equal(OPERATIONS["ShearX"](x, slope), expected)
    assert torch.equal(OPERATIONS["ShearY"](x.mT, slope), expected.mT)


def test_translation_is_by_whole_pixels_towards_right_and_bottom():
    x = images(3, (8, 9), generator())
    for m in (2.0, 2.9):
        right, down = OPERATIONS["TranslateX"](x, m), OPERATIONS["TranslateY"](x, m)
        assert torch.equal(right[..., 2:], x[..., :-2]) and not right[..., :2].any()
        assert torch.equal(down[..., 2:, :], x[..., :-2, :]) and not down[..., :2, :].any()
        left = OPERATIONS["TranslateX"](x, -m)
        assert torch.equal(left[..., :-2], x[..., 2:]) and not left[..., -2:].any()


@pytest.mark.parametrize("side", [8, 9])
def test_rotation_is_anticlockwise_about_the_centre(side):
    x = images(3, (side, side), generator())
    turns = torch.arange(len(x)) % 4
    expected = torch.stack([a.rot90(int(k), (1, 2)) for a, k in zip(x, turns, strict=True)])
    assert torch.equal(OPERATIONS["Rotate"](x, 90.0 * turns), expected)


@pytest.mark.parametrize("channels", [2, 4])
def test_other_numbers_of_channels_work(channels):
    """Colour does nothing, contrast takes the mean over all channels, others act per channel."""
    x = images(channels, (9, 8), generator())
    assert torch.equal(OPERATIONS["Color"](x, 0.27), x)
    mean = (x.double().mean((1, 2, 3), keepdim=True) + 0.5).floor().float()
    expected = (mean + 1.5 * (x - mean)).clamp(0, 255).byte()
    assert torch.equal(OPERATIONS["Contrast"](x, 0.5), expected)
    for name in set(NAMES) - {"Color", "Contrast"}:
        m = strengths(9, 31, 9, 8)[0][NAMES.index(name)]
        apart = [OPERATIONS[name](channel, m) for channel in x.split(1, dim=1)]
        assert torch.equal(OPERATIONS[name](x, m), torch.cat(apart, dim=1))


# ---- torchvision, where it is installed: it is no dependency, of the tests neither

STUBS = []  # torch forgets the schemas when the library object goes


@pytest.fixture(scope="module")
def autoaugment():
    """The module torchvision.transforms.autoaugment."""
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed; it serves as a second oracle only")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module("torchvision.transforms.autoaugment")
        except (RuntimeError, OSError):  # its binary part does not fit this torch
            return import_without_binaries()


def import_without_binaries():
    """Declare the two operators whose absence stops the import; the transforms do not use them."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    STUBS.append(torch.library.Library("torchvision", "FRAGMENT"))
    for name in ("nms", "qnms"):
        STUBS[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision.transforms.autoaugment")


def by_torchvision(autoaugment, name, x, m, fill=None):
    return autoaugment._apply_op(x, name, m, autoaugment.InterpolationMode.NEAREST, fill)


@pytest.mark.parametrize("name", NAMES)
def test_operation_equals_torchvision_on_pil_images(autoaugment, name):
    for channels, size in ((3, (32, 32)), (1, (28, 28)), (3, (21, 34)), (3, (5, 4))):
        g = generator(6)
        x = images(channels, size, g)
        m = magnitudes(name, len(x), size, g)
        m[:2] = torch.tensor([row[NAMES.index(name)] for row in strengths(9, 31, *size)])
        pairs = zip(x, m.tolist(), strict=True)
        theirs = [by_torchvision(autoaugment, name, to_pil(a), v) for a, v in pairs]
        assert torch.equal(OPERATIONS[name](x, m), torch.stack([from_pil(a) for a in theirs]))


@pytest.mark.parametrize("name", NAMES)
def test_torchvision_on_tensors_differs_by_rounding_only(autoaugment, name):
    """Its tensor path keeps grey levels unrounded before it blends, stretches contrast in float32,
    and rounds the coordinates of a warp in float32: a grey level in colours, in warps the
    neighbour of a pixel in a thousand. PIL images are what we follow."""
    for channels, size in ((3, (32, 32)), (1, (28, 28)), (3, (21, 34)), (3, (150, 200))):
        x = images(channels, size, generator(7), n=2)
        for row in strengths(9, 31, *size):
            m, black = row[NAMES.index(name)], [0.0] * channels
            theirs = torch.stack([by_torchvision(autoaugment, name, a, m, black) for a in x])
            error = (OPERATIONS[name](x, m).int() - theirs.int()).abs()
            if name in ("ShearX", "ShearY", "Rotate"):
                assert (error > 0).any(1).double().mean() < 1e-3
            else:
                rounded = name in ("Color", "Contrast", "Sharpness", "AutoContrast")
                assert error.max() <= rounded


@pytest.mark.parametrize("size", [(32, 32), (224, 200)])
def test_strengths_equal_torchvision(autoaugment, size):
    policy = autoaugment.RandAugment()
    assert (policy.num_ops, policy.magnitude, policy.num_magnitude_bins) == (2, 9, 31)
    space = policy._augmentation_space(31, size)
    assert tuple(space) == NAMES
    for magnitude in range(31):
        minus, plus = strengths(magnitude, 31, *size)
        for k, (values, signed) in enumerate(space.values()):
            value = float(values[magnitude]) if values.ndim else 0.0
            assert (minus[k], plus[k]) == (-value if signed else value, value)
