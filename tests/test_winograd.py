"""Winograd's convolution against torch's, for all shapes and to the last bits that matter."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from earl import winograd
from earl.randomness import Randomness
from earl.winograd import TILES, Winograd


def drawn(seed: int, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    generator = Randomness(seed).at(0, "winograd")
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


@given(
    n=st.integers(0, 5),
    c=st.integers(1, 4),
    o=st.integers(1, 4),
    h=st.integers(1, 13),
    w=st.integers(1, 13),
    last=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_it_convolves_every_shape(
    n: int, c: int, o: int, h: int, w: int, last: bool, seed: int
) -> None:
    x, weight, bias = drawn(seed, (n, c, h, w), (o, c, 3, 3), (o,))
    if last:
        x, weight = (t.to(memory_format=torch.channels_last) for t in (x, weight))
    y = Winograd(weight, bias)(x)
    torch.testing.assert_close(y, F.conv2d(x, weight, bias, padding=1), rtol=1e-10, atol=1e-10)


def test_images_that_do_not_fill_the_last_part_are_all_there() -> None:
    assert 19 % (TILES // 16)  # tiles of an image of 16 px
    x, weight, bias = drawn(1, (19, 2, 16, 16), (3, 2, 3, 3), (3,))
    y = Winograd(weight, bias)(x)
    torch.testing.assert_close(y, F.conv2d(x, weight, bias, padding=1), rtol=1e-10, atol=1e-10)


def test_its_three_matrices_multiply_polynomials() -> None:
    """Aᵀ[(G g) ⊙ (Bᵀ d)] is the valid correlation of d with g, exactly, for a basis of both."""
    AT, BT, G = winograd.AT.double(), winograd.BT.double(), winograd.G
    for d in torch.eye(6, dtype=torch.float64):
        for g in torch.eye(3, dtype=torch.float64):
            y = AT @ ((G @ g) * (BT @ d))
            torch.testing.assert_close(y, F.conv1d(d.view(1, 1, -1), g.view(1, 1, -1)).flatten())


def test_float32_loses_one_digit_more_than_direct_sums_do() -> None:
    x, weight, bias = drawn(2, (4, 256, 8, 8), (256, 256, 3, 3), (256,))
    exact = F.conv2d(x, weight, bias, padding=1)
    y = Winograd(weight.float(), bias.float())(x.float())
    assert (y - exact).abs().max() < 3e-5 * exact.abs().max()
