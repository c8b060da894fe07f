"""Every part of the contrastive augmentation against Pillow or a loop over pixels."""

import colorsys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance
from torch.nn import functional as F

from earl.errors import InvalidInput
from earl.nn.contrastive_augment import (
    contrast_augment,
    draw_boxes,
    draw_jitter,
    jitter,
    resized_crop,
    turn_hue,
)
from randaugment_tools import from_pil
from seeds import generator

SIZES = [(32, 32), (33, 20), (7, 13), (2, 5), (1, 1)]


def images(n, channels, h, w, seed=0):
    shape = (n, channels, h, w)
    return torch.randint(256, shape, generator=generator(seed), dtype=torch.uint8)


def to_pil(x):
    return Image.fromarray(x[0].numpy() if len(x) == 1 else x.permute(1, 2, 0).numpy())


def hue_of_a_pixel(rgb, turn):
    h, s, v = colorsys.rgb_to_hsv(*(int(c) / 255 for c in rgb))
    return [int(255 * c + 0.5) for c in colorsys.hsv_to_rgb((h + turn) % 1, s, v)]


# ---- crops


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("h", "w"), SIZES)
def test_a_resized_crop_is_bilinear_rounded_once_per_axis(h, w, channels):
    x = images(20, channels, h, w)
    boxes = draw_boxes(20, h, w, generator(1), smallest=0.05)
    result = resized_crop(x, boxes)
    for image, (top, left, height, width), got in zip(x, boxes.T.tolist(), result, strict=True):
        crop = image[:, top : top + height, left : left + width]
        exact = F.interpolate(crop[None].double(), (h, w), mode="bilinear")[0]
        assert (got - exact).abs().max() <= 1.001  # half a level each
        pillow = from_pil(to_pil(crop).resize((w, h), Image.Resampling.BILINEAR))
        assert (got.int() - pillow.int()).abs().max() <= 2  # whose weights are coarser


def test_the_whole_image_as_its_crop_stays_as_it_is():
    x = images(3, 3, 9, 14)
    boxes = torch.tensor([[0, 0, 9, 14]] * 3).T
    assert torch.equal(resized_crop(x, boxes), x)


@given(st.integers(1, 40), st.integers(1, 40), st.floats(0.01, 1), st.integers(0, 2**31))
def test_every_box_lies_in_its_image(h, w, smallest, seed):
    top, left, height, width = draw_boxes(50, h, w, generator(seed), smallest)
    assert int(height.min()) >= 1 and int(width.min()) >= 1
    assert int(top.min()) >= 0 and int((top + height).max()) <= h
    assert int(left.min()) >= 0 and int((left + width).max()) <= w


def test_area_aspect_and_place_of_the_boxes():
    top, left, height, width = draw_boxes(20000, 100, 100, generator(), 0.2).double()
    area, ratio = height * width / 1e4, width / height
    assert 0.19 < float(area.min()) < 0.21 and float(area.max()) > 0.95
    assert 0.73 < float(ratio.min()) < 0.76 and 1.32 < float(ratio.max()) < 1.37
    assert abs(float(ratio.log().mean())) < 0.005  # as often wide as high
    place = top / (100 - height).clamp(min=1)
    assert abs(float(place[height < 80].mean()) - 0.5) < 0.01
    assert abs(float(torch.corrcoef(torch.stack((top, left)))[0, 1])) < 0.5


def test_an_image_that_holds_no_allowed_crop_is_cut_to_the_longest_ratio():
    _, _, height, width = draw_boxes(8, 3, 300, generator(), 1.0)
    assert height.tolist() == [3] * 8 and width.tolist() == [4] * 8


# ---- colours


def test_a_turn_of_hue_is_that_of_every_pixel_alone():
    x = images(6, 3, 5, 4)
    x[0, :, 0, 0] = 77  # grey has no hue
    turn = torch.tensor([0.0, 0.1, -0.1, 0.37, 0.5, -0.03])
    result = turn_hue(x, turn)
    for image, by, got in zip(x, turn.tolist(), result, strict=True):
        for i in range(5):
            for j in range(4):
                expected = torch.tensor(hue_of_a_pixel(image[:, i, j], by))
                assert (got[:, i, j].int() - expected).abs().max() <= 1  # ties of rounding
    assert torch.equal(result[0], x[0])


def test_turns_of_hue_by_thirds_exchange_the_channels():
    x = images(4, 3, 6, 6)
    assert torch.equal(turn_hue(x, 1 / 3), x[:, [2, 0, 1]])
    assert torch.equal(turn_hue(x, 1.0), x)


def jitter_of_one(image, strength, order):
    """Pillow's enhancers one after the other; hue by the loop over pixels."""
    for k in order:
        m = float(strength[k])
        if k == 0:
            image = from_pil(ImageEnhance.Brightness(to_pil(image)).enhance(1 + m))
        elif k == 1:
            image = from_pil(ImageEnhance.Contrast(to_pil(image)).enhance(1 + m))
        elif k == 2:
            image = from_pil(ImageEnhance.Color(to_pil(image)).enhance(1 + m))
        elif len(image) == 3:
            pixels = image.flatten(1).T.tolist()
            turned = torch.tensor([hue_of_a_pixel(p, m) for p in pixels], dtype=torch.uint8)
            image = turned.T.reshape(image.shape)
    return image


@pytest.mark.parametrize("channels", [1, 3])
def test_every_image_is_jittered_by_its_own_strengths_in_its_own_order(channels):
    x = images(24, channels, 6, 5)
    strength, rounds = draw_jitter(24, generator(3))
    result = jitter(x, strength, rounds)
    for n in range(24):
        expected = jitter_of_one(x[n], strength[:, n], rounds[:, n].tolist())
        assert (result[n].int() - expected.int()).abs().max() <= (0 if channels == 1 else 2)
    assert len({tuple(order) for order in rounds.T.tolist()}) > 8  # of 24


def test_strengths_are_uniform_and_orders_are_permutations():
    strength, rounds = draw_jitter(20000, generator())
    ends = torch.tensor([0.4, 0.4, 0.4, 0.1]).double()
    torch.testing.assert_close(strength.abs().amax(dim=1), ends, atol=1e-3, rtol=0)
    torch.testing.assert_close(strength.abs().mean(dim=1), ends / 2, atol=5e-3, rtol=0)
    assert torch.equal(rounds.sort(dim=0).values, torch.arange(4)[:, None].expand(4, 20000))
    share = torch.stack([(rounds[0] == k).double().mean() for k in range(4)])
    torch.testing.assert_close(share, torch.full((4,), 0.25).double(), atol=0.015, rtol=0)


# ---- all together


def test_a_grey_image_is_cropped_but_has_no_colour_to_lose():
    x = torch.full((200, 1, 8, 8), 100, dtype=torch.uint8)
    levels = contrast_augment(x, generator())
    assert levels.shape == x.shape
    assert all(len(image.unique()) == 1 for image in levels)  # flat stays flat
    changed = float((levels[:, 0, 0, 0] != 100).double().mean())
    assert 0.7 < changed < 0.9  # brightness, with probability 0.8


def test_one_image_in_five_is_grey_and_one_in_two_is_mirrored():
    x = torch.zeros(2000, 3, 8, 8, dtype=torch.uint8)
    x[:, 0, :, :4], x[:, 2, :, 4:] = 200, 200  # red on the left, blue on the right
    result = contrast_augment(x, generator(), smallest=1.0).int()
    grey = (result.amax(1) == result.amin(1)).flatten(1).all(1)
    assert 0.17 < float(grey.double().mean()) < 0.23
    mirrored = (result[~grey, 2, :, 0] > result[~grey, 0, :, 0]).all(1)
    assert 0.46 < float(mirrored.double().mean()) < 0.54
    result = contrast_augment(x, generator(), smallest=1.0, mirror=False).int()
    assert (result[:, 0, :, 0] >= result[:, 2, :, 0]).all()


def test_it_draws_from_its_generator_alone_and_leaves_its_input():
    x = images(9, 3, 12, 12)
    copy, before = x.clone(), torch.get_rng_state()
    one, same = contrast_augment(x, generator(5)), contrast_augment(x, generator(5))
    assert one.dtype == torch.uint8 and torch.equal(one, same)
    assert not torch.equal(one, contrast_augment(x, generator(6)))
    assert torch.equal(x, copy) and torch.equal(torch.get_rng_state(), before)


def test_images_of_a_batch_come_out_differently():
    x = images(1, 3, 16, 16).expand(12, -1, -1, -1)
    assert len({image.numpy().tobytes() for image in contrast_augment(x, generator())}) == 12


@pytest.mark.parametrize("x", [torch.zeros(2, 3, 8, 8), torch.zeros(3, 8, 8, dtype=torch.uint8)])
def test_other_than_batches_of_bytes_are_refused(x):
    with pytest.raises(InvalidInput, match="uint8"):
        contrast_augment(x, generator())
