"""Crop, flip and view against plain loops."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from earl.errors import InvalidInput, InvalidSetting
from earl.methods.earl.negatives import NEGATIVES
from earl.nn.augment import (
    Augment,
    View,
    augment_together,
    random_crop,
    random_flip,
    windows_at_once,
    windows_one_by_one,
)
from earl.nn.randaugment import rand_augment
from seeds import generator

VIEW = View(mean=(0.49, 0.48, 0.45), std=(0.25, 0.24, 0.26))


def stored(n=6, channels=3, h=12, w=12, seed=0):
    """Return images whose pixels are never 0, so that padding shows."""
    return torch.randint(1, 256, (n, channels, h, w), generator=generator(seed)).byte()


# ---- view


def test_view_normalises_every_channel():
    x = stored()
    mean, std = torch.tensor(VIEW.mean).view(3, 1, 1), torch.tensor(VIEW.std).view(3, 1, 1)
    result = VIEW(x)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, (x.float() / 255 - mean) / std)


@pytest.mark.parametrize(
    "wrong",
    [stored().float(), stored(channels=1), stored()[0]],
    ids=["float", "grey", "one image"],
)
def test_view_and_augment_refuse_what_is_not_a_batch_of_stored_images(wrong):
    with pytest.raises(InvalidInput, match="uint8 images"):
        VIEW(wrong)
    with pytest.raises(InvalidInput, match="uint8 images"):
        Augment(view=VIEW)(wrong, generator())


@pytest.mark.parametrize("std", [(0.2,), (0.2, 0.2, 0.0)])
def test_view_refuses_impossible_settings(std):
    with pytest.raises(InvalidSetting, match="one value per channel"):
        View(mean=(0.5, 0.5, 0.5), std=std)


# ---- crop and flip


@pytest.mark.parametrize(("h", "w", "padding"), [(12, 12, 4), (5, 9, 4), (9, 5, 2), (3, 3, 5)])
def test_crop_is_a_window_of_the_padded_image(h, w, padding):
    x = stored(40, 3, h, w)
    result = random_crop(x, generator(1), padding)
    shift = torch.randint(-padding, padding + 1, (2, 40, 1, 1), generator=generator(1)).view(2, -1)
    padded = F.pad(x, [padding] * 4)
    for n, (top, left) in enumerate((shift + padding).T.tolist()):
        assert torch.equal(result[n], padded[n, :, top : top + h, left : left + w])


def test_windows_are_the_same_at_once_as_on_a_gpu_and_one_by_one():
    x, corner = stored(40, 3, 20, 18), torch.randint(7, (2, 40), generator=generator(1))
    assert torch.equal(windows_at_once(x, corner, 14, 12), windows_one_by_one(x, corner, 14, 12))


def test_crop_places_are_uniform_and_differ_between_images():
    x = stored(1, 1).expand(4000, -1, -1, -1)
    result, count = random_crop(x, generator(), 1).unique(dim=0, return_counts=True)
    assert len(result) == 9
    assert (count - 4000 / 9).abs().max() < 4 * (4000 / 9) ** 0.5


def test_flip_mirrors_half_of_the_images_left_to_right():
    x = stored(1000, h=4, w=5)
    result = random_flip(x, generator())
    same = (result == x).flatten(1).all(1)
    mirrored = (result == x.flip(3)).flatten(1).all(1)
    assert (same ^ mirrored).all()
    assert abs(int(mirrored.sum()) - 500) < 4 * 250**0.5
    assert torch.equal(random_flip(x, generator(), p=0.0), x)
    assert torch.equal(random_flip(x, generator(), p=1.0), x.flip(3))


# ---- augment


@pytest.mark.parametrize("n", [1, 16])
@pytest.mark.parametrize("channels", [1, 3])
def test_augment_is_crop_then_flip_then_rand_augment_then_view(n, channels):
    view = View(mean=VIEW.mean[:channels], std=VIEW.std[:channels])
    x = stored(n, channels)
    g = generator(3)
    expected = view(rand_augment(random_flip(random_crop(x, g, 4), g), g))
    assert torch.equal(Augment(view=view)(x, generator(3)), expected)


def test_augment_parts_can_be_switched_off():
    x = stored()
    plain = Augment(view=VIEW, padding=0, flip=False, rand_augment=False)
    assert torch.equal(plain(x, generator()), VIEW(x))
    only_flip = dataclasses.replace(plain, flip=True)
    assert torch.equal(only_flip(x, generator()), VIEW(random_flip(x, generator())))
    with pytest.raises(InvalidSetting, match="padding"):
        Augment(view=VIEW, padding=-1)


def test_augment_takes_its_randomness_from_the_generator_and_leaves_its_input_alone():
    x = stored(16)
    kept, state = x.clone(), torch.random.get_rng_state()
    augment = Augment(view=VIEW)
    first, again, other = (augment(x, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(x, kept)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first.dtype == torch.float32 and first.shape == x.shape


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    padding=st.integers(0, 3),
    flip=st.booleans(),
    rand=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_batches_augmented_together_get_the_bits_that_each_gets_alone(
    sizes, padding, flip, rand, seed
):
    """Also what is drawn afterwards stays: every generator has moved on as it does alone."""
    augment = Augment(view=VIEW, padding=padding, flip=flip, rand_augment=rand)
    batches = [stored(n, h=9, w=9, seed=i) for i, n in enumerate(sizes)]
    ours, alone = ([generator(seed + i) for i in range(len(sizes))] for _ in range(2))
    together = augment_together(augment, *zip(batches, ours, strict=True))
    for x, result, a, b in zip(batches, together, ours, alone, strict=True):
        assert torch.equal(result, augment(x, b))
        assert torch.equal(a.get_state(), b.get_state())


def test_an_augmentation_that_knows_one_generator_takes_batch_after_batch():
    sizes = []

    def noisy(x, generator):
        sizes.append(len(x))
        return x + torch.rand(x.shape, generator=generator)

    x = stored(5)
    a, b = augment_together(noisy, (x[:2], generator(1)), (x[2:], generator(2)))
    assert sizes == [2, 3]
    assert torch.equal(a, noisy(x[:2], generator(1)))
    assert torch.equal(b, noisy(x[2:], generator(2)))


def test_augment_works_on_any_memory_layout():
    x = stored(16)
    expected = Augment(view=VIEW)(x, generator())
    last = x.contiguous(memory_format=torch.channels_last)
    assert torch.equal(Augment(view=VIEW)(last, generator()), expected)


def test_nothing_is_read_back_from_the_device():
    """A meta tensor has no values: code that waited for one, or that mixed devices, would fail."""
    x, g = stored(64).to("meta"), torch.zeros(64, dtype=torch.int64, device="meta")
    result = Augment(view=VIEW)(x, generator())
    assert result.device.type == "meta" and result.shape == x.shape
    for negative in NEGATIVES.values():
        assert negative.apply(result, g, result, generator()).device.type == "meta"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_gives_the_same_images():
    x = stored(64)
    augment = Augment(view=VIEW)
    torch.testing.assert_close(augment(x.cuda(), generator()).cpu(), augment(x, generator()))
    g = torch.arange(64) % 3
    for negative in NEGATIVES.values():
        ours = negative.apply(VIEW(x), g, VIEW(x.flip(0)), generator())
        there = (VIEW(x).cuda(), g.cuda(), VIEW(x.flip(0)).cuda())
        assert torch.equal(negative.apply(*there, generator()).cpu(), ours)
