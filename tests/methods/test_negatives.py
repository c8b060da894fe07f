"""Negative transformations against what the paper says of them."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.errors import InvalidInput, InvalidSetting
from earl.methods.earl.negatives import GRIDS, NEGATIVES, cutmix, noise, permutation, rotation
from seeds import generator


def numbered(n=6, channels=3, h=8, w=8):
    """Return images whose every pixel is a number of its own."""
    return torch.arange(n * channels * h * w, dtype=torch.float32).view(n, channels, h, w)


# ---- negative transformations


def test_there_are_four_negatives_and_one_needs_a_partner():
    assert set(NEGATIVES) == {"rotation", "permutation", "cutmix", "noise"}
    assert [name for name, n in NEGATIVES.items() if n.needs_partner] == ["cutmix"]


@pytest.mark.parametrize("name", NEGATIVES)
@pytest.mark.parametrize("n", [1, 7])
def test_negatives_keep_shape_dtype_input_and_global_randomness(name, n):
    x, partner, g = numbered(n, h=16, w=16), -numbered(n, h=16, w=16), torch.arange(n) % 3
    kept, state = x.clone(), torch.random.get_rng_state()
    first, again = (NEGATIVES[name].apply(x, g, partner, generator(1)) for _ in range(2))
    assert first.shape == x.shape and first.dtype == x.dtype
    assert torch.equal(first, again)
    assert torch.equal(x, kept)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("name", ["rotation", "permutation", "cutmix"])
def test_every_image_follows_its_own_g(name):
    x, partner = numbered(9), -numbered(9)
    g = torch.tensor([2, 0, 1, 1, 0, 2, 0, 0, 1])
    together = NEGATIVES[name].apply(x, g, partner, generator())
    for value in range(3):
        alike = NEGATIVES[name].apply(x, torch.full_like(g, value), partner, generator())
        assert torch.equal(together[g == value], alike[g == value])


@pytest.mark.parametrize("side", [1, 2, 7, 8])
def test_four_rotations_compose_to_identity(side):
    x = numbered(h=side, w=side)
    for quarters in (1, 2, 3):
        g = torch.full((6,), quarters - 1)
        once = rotation(x, g, None, generator())
        assert torch.equal(once, x.rot90(quarters, (2, 3)))
        turned = x
        for _ in range(4):
            turned = rotation(turned, g, None, generator())
        assert torch.equal(turned, x)


def test_rotation_refuses_images_that_are_not_square():
    with pytest.raises(InvalidInput, match=r"8 x 6; resize them to a square"):
        rotation(numbered(h=8, w=6), torch.zeros(6, dtype=torch.int64), None, generator())


@pytest.mark.parametrize(("h", "w"), [(2, 2), (8, 8), (6, 10)])
def test_permutation_is_a_bijection_of_pixels(h, w):
    x = numbered(3, h=h, w=w)
    result = permutation(x, torch.arange(3), None, generator())
    assert torch.equal(result.flatten(1).sort(1).values, x.flatten(1))  # x is sorted already
    top, left = slice(0, h // 2), slice(0, w // 2)
    bottom, right = slice(h // 2, h), slice(w // 2, w)
    place = [(top, left), (top, right), (bottom, left), (bottom, right)]
    for g, sources in enumerate([(1, 3, 0, 2), (2, 0, 3, 1), (3, 2, 1, 0)]):
        for here, source in enumerate(sources):
            assert torch.equal(result[g][:, *place[here]], x[g][:, *place[source]])


@pytest.mark.parametrize(("h", "w"), [(7, 8), (8, 7), (5, 5)])
def test_permutation_refuses_odd_sides(h, w):
    with pytest.raises(InvalidSetting, match=f"{h} x {w} have no four equal quadrants"):
        permutation(numbered(h=h, w=w), torch.zeros(6, dtype=torch.int64), None, generator())


@settings(max_examples=60, deadline=None)
@given(h=st.integers(1, 40), w=st.integers(1, 40), g=st.integers(0, 2), seed=st.integers(0, 999))
def test_cutmix_cells_come_from_exactly_two_images(h, w, g, seed):
    """All channels of a cell come from one of the two, from their place; cells tile the image."""
    x = numbered(2, 3, h, w)
    result = cutmix(x, torch.full((2,), g), -1 - x, generator(seed))
    from_partner = result == -1 - x
    assert (from_partner ^ (result == x)).all()
    assert (from_partner == from_partner[:, :1]).all()
    cells = GRIDS[g]
    edges_h = [-(-k * h // cells) for k in range(cells + 1)]
    edges_w = [-(-k * w // cells) for k in range(cells + 1)]
    for top, bottom in pairwise(edges_h):
        assert bottom - top in (h // cells, -(-h // cells))
        for left, right in pairwise(edges_w):
            cell = from_partner[:, 0, top:bottom, left:right].flatten(1)
            assert (cell == cell[:, :1]).all()


@pytest.mark.parametrize(("g", "cells"), [(0, 4), (1, 8), (2, 16)])
def test_cutmix_cuts_sides_into_four_eight_and_sixteen_cells(g, cells):
    """Where neighbouring pixels come from different images, in any of many mixtures, is an edge."""
    x = torch.zeros(200, 1, 48, 96)
    mixed = cutmix(x, torch.full((200,), g), x + 1, generator())
    for dim, side in ((2, 48), (3, 96)):
        other = (mixed.diff(dim=dim) != 0).transpose(2, dim).flatten(3).any(3).any(0).flatten()
        edges = (other.nonzero().flatten() + 1).tolist()
        assert edges == [k * side // cells for k in range(1, cells)]


@pytest.mark.parametrize("g", [0, 1, 2])
def test_cutmix_takes_every_cell_with_probability_one_half(g):
    n, side = 2000, GRIDS[g]
    x = torch.zeros(n, 1, side, side)  # one pixel a cell
    share = cutmix(x, torch.full((n,), g), x + 1, generator()).mean(0).flatten()
    assert (share - 0.5).abs().max() < 5 * (0.25 / n) ** 0.5
    assert abs(float(share.mean()) - 0.5) < 4 * (0.25 / n / side**2) ** 0.5


@pytest.mark.parametrize("partner", [None, numbered(1)], ids=["none", "one for all"])
def test_cutmix_refuses_to_mix_without_a_partner_for_every_image(partner):
    with pytest.raises(InvalidInput, match="pass a partner"):
        cutmix(numbered(), torch.zeros(6, dtype=torch.int64), partner, generator())


def test_noise_is_standard_normal_and_independent_of_the_input():
    x, g = numbered(20, h=16, w=16), torch.zeros(20, dtype=torch.int64)
    result = noise(x, g, None, generator(1))
    assert torch.equal(result, noise(torch.zeros_like(x), g + 2, None, generator(1)))
    n = result.numel()
    assert abs(float(result.mean())) < 4 / n**0.5
    assert abs(float(result.var()) - 1) < 4 * (2 / n) ** 0.5
    assert len(result.flatten(1).unique(dim=0)) == 20
