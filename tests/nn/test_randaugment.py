"""RandAugment draws for every image by itself, as the policy says."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.errors import InvalidInput, InvalidSetting
from earl.nn.randaugment import draw, plan, rand_augment, strengths
from earl.nn.randaugment_ops import NAMES, OPERATIONS, apply
from randaugment_tools import images
from seeds import generator

# ---- the policy


def test_default_strengths_are_the_published_ones():
    minus, plus = (dict(zip(NAMES, row, strict=True)) for row in strengths(9, 31, 32, 64))
    assert plus == pytest.approx(
        {"Identity": 0, "ShearX": 0.09, "ShearY": 0.09, "Rotate": 9}
        | {"TranslateX": 150 / 331 * 64 * 0.3, "TranslateY": 150 / 331 * 32 * 0.3}
        | {"Brightness": 0.27, "Color": 0.27, "Contrast": 0.27, "Sharpness": 0.27}
        | {"Posterize": 7, "Solarize": 178.5, "AutoContrast": 0, "Equalize": 0}
    )
    unsigned = {"Identity", "Posterize", "Solarize", "AutoContrast", "Equalize"}
    assert minus == {k: v if k in unsigned else -v for k, v in plus.items()}


def test_operations_and_signs_are_uniform_and_independent():
    n = 40_000
    ops, signs = draw(n, generator(3))
    assert ops.shape == signs.shape == (2, n)
    pairs = torch.bincount((ops[0] * 14 + ops[1]) * 4 + signs[0] * 2 + signs[1], minlength=784)
    expected = n / 784
    chi2 = float(((pairs - expected) ** 2 / expected).sum())
    assert abs(chi2 - 783) < 5 * (2 * 783) ** 0.5
    for count, k in ((torch.bincount(ops[0]), 14), (torch.bincount(signs[1]), 2)):
        assert (count - n / k).abs().max() < 4 * (n / k) ** 0.5


def one_by_one(x, g, num_ops, magnitude):
    """RandAugment as a loop over images, with the draws that rand_augment makes."""
    ops, signs = draw(len(x), g, num_ops)
    table = strengths(magnitude, 31, *x.shape[2:])
    result = []
    for n, image in enumerate(x.split(1)):
        for op, sign in zip(ops[:, n].tolist(), signs[:, n].tolist(), strict=True):
            image = OPERATIONS[NAMES[op]](image, table[sign][op])
        result.append(image)
    return torch.cat(result)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 60),
    channels=st.sampled_from([1, 3, 4]),
    size=st.tuples(st.integers(1, 16), st.integers(1, 16)),
    levels=st.sampled_from([2, 5, 60, 256]),
    num_ops=st.integers(0, 3),
    magnitude=st.integers(0, 30),
    seed=st.integers(0, 2**32),
)
def test_any_batch_equals_its_images_one_by_one(
    n, channels, size, levels, num_ops, magnitude, seed
):
    x = torch.randint(levels, (n, channels, *size), generator=generator(seed)).byte()
    result = apply(x, *plan(n, *size, generator(seed), num_ops, magnitude, 31))
    assert torch.equal(result, one_by_one(x, generator(seed), num_ops, magnitude))


def test_identical_images_get_operations_of_their_own():
    x = torch.randint(256, (1, 3, 32, 32), generator=generator()).byte().expand(16, -1, -1, -1)
    distinct = rand_augment(x, generator()).unique(dim=0)
    assert len(distinct) >= 13  # 16 of some 22 ** 2 outcomes


def test_every_operation_shows_up_as_often_as_it_should():
    """Seen from the outside: one operation per image, on an image that tells them all apart."""
    ramp = torch.arange(24 * 24).view(1, 1, 24, 24) // 3
    image = torch.cat([ramp, ramp.mT, ramp.flip(3)], dim=1).clamp(20, 180).byte()
    n = 4000
    result = rand_augment(image.expand(n, -1, -1, -1), generator(4), num_ops=1)
    outcome = {
        OPERATIONS[name](image, sign[k]).numpy().tobytes(): name
        for sign in strengths(9, 31, 24, 24)
        for k, name in enumerate(NAMES)
    }
    assert len(outcome) == 14 + 9  # nine operations have two signs
    seen = Counter(outcome[row.numpy().tobytes()] for row in result)
    assert all(abs(seen[name] - n / 14) < 4 * (n / 14) ** 0.5 for name in NAMES)


def test_randomness_is_the_generators_alone():
    x = images(3, (16, 16), generator())
    before, kept = torch.random.get_rng_state(), x.clone()
    first, again, other = (rand_augment(x, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(x, kept)


def test_the_number_of_draws_depends_on_the_batch_size_only():
    states = set()
    for channels, size in ((1, (4, 4)), (3, (16, 16)), (3, (9, 30))):
        g = generator(5)
        rand_augment(images(channels, size, generator()), g, magnitude=size[0] % 3)
        states.add(g.get_state().numpy().tobytes())
    assert len(states) == 1


def test_memory_layout_does_not_matter():
    x = images(3, (12, 10), generator())
    expected = rand_augment(x, generator())
    wide = torch.zeros(*x.shape[:3], 20, dtype=torch.uint8)
    wide[..., ::2] = x
    for same in (x.contiguous(memory_format=torch.channels_last), wide[..., ::2]):
        assert torch.equal(rand_augment(same, generator()), expected)


def test_an_empty_batch_stays_empty():
    x = torch.zeros(0, 3, 8, 8, dtype=torch.uint8)
    assert rand_augment(x, generator()).shape == x.shape


def test_wrong_use_is_refused():
    x = images(3, (8, 8), generator())
    for wrong in (x.float(), x[0]):
        with pytest.raises(InvalidInput, match="uint8"):
            rand_augment(wrong, generator())
    for magnitude, bins in ((31, 31), (-1, 31), (0, 1)):
        with pytest.raises(InvalidSetting, match="bins"):
            rand_augment(x, generator(), magnitude=magnitude, bins=bins)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_gives_the_same_bytes():
    x = torch.cat([images(3, (32, 32), generator(seed)) for seed in range(4)])
    assert torch.equal(rand_augment(x.cuda(), generator()).cpu(), rand_augment(x, generator()))
