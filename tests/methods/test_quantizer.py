"""Product quantisation against loops that look at every codeword."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from earl.errors import InvalidSetting
from earl.methods.frozen.quantizer import CHUNK, LLOYD, ProductQuantizer, means, vectors_of
from seeds import generator as seeded


def fitted(vectors: Tensor, codebooks: int, codewords: int, seed: int = 0) -> ProductQuantizer:
    quantizer = ProductQuantizer(vectors.shape[1], codebooks, codewords)
    quantizer.fit(vectors, seeded(seed))
    return quantizer


def clustered(n: int, c: int, seed: int = 0) -> Tensor:
    """Return vectors (n, c) that lie around twelve points."""
    generator = seeded(seed)
    centres = 3 * torch.randn(12, c, generator=generator)
    which = torch.randint(12, (n,), generator=generator)
    return centres[which] + 0.5 * torch.randn(n, c, generator=generator)


def error(quantizer: ProductQuantizer, vectors: Tensor) -> float:
    maps = vectors[:, :, None, None]
    return float((quantizer.decode(quantizer(maps)) - maps).square().mean())


@given(
    st.integers(1, 4), st.integers(1, 3), st.integers(2, 9), st.integers(1, 3), st.integers(0, 99)
)
def test_codes_name_the_nearest_codeword_of_every_part_at_every_position(
    m: int, width: int, k: int, side: int, seed: int
) -> None:
    quantizer = ProductQuantizer(m * width, m, k)
    quantizer.codebooks.copy_(torch.randn(m, k, width, generator=seeded(seed)))
    maps = torch.randn(3, m * width, side, side + 1, generator=seeded(seed + 1))
    codes, decoded = quantizer(maps), quantizer.decode(quantizer(maps))
    assert codes.shape == (3, m, side, side + 1) and codes.dtype == torch.uint8
    for b in range(3):
        for i in range(side):
            for j in range(side + 1):
                for part in range(m):
                    one = maps[b, part * width : (part + 1) * width, i, j]
                    distances = [float((one - w).norm()) for w in quantizer.codebooks[part]]
                    named = int(codes[b, part, i, j])
                    assert distances[named] <= min(distances) + 1e-5
                    back = decoded[b, part * width : (part + 1) * width, i, j]
                    assert torch.equal(back, quantizer.codebooks[part, named])


def test_more_vectors_than_fit_into_a_chunk_get_the_codes_they_get_alone() -> None:
    vectors = clustered(2 * CHUNK + 5, 4)
    quantizer = fitted(vectors[:200], 2, 16)
    maps = vectors[:, :, None, None]
    together = quantizer(maps)
    assert torch.equal(together[-7:], quantizer(maps[-7:]))
    assert torch.equal(together[CHUNK - 2 : CHUNK + 2], quantizer(maps[CHUNK - 2 : CHUNK + 2]))


def test_decoded_maps_keep_their_codes() -> None:
    quantizer = fitted(clustered(500, 8), 4, 32)
    maps = torch.randn(6, 8, 3, 3, generator=seeded(4))
    decoded = quantizer.decode(quantizer(maps))
    assert torch.equal(quantizer.decode(quantizer(decoded)), decoded)


def test_fitted_codebooks_err_less_than_random_ones() -> None:
    vectors, unseen = clustered(1000, 8), clustered(2000, 8)[1000:]
    random = ProductQuantizer(8, 2, 16)
    generator = seeded(3)
    spread = vectors.std() * torch.randn(2, 16, 4, generator=generator)
    random.codebooks.copy_(vectors.mean() + spread)
    quantizer = fitted(vectors, 2, 16)
    assert error(quantizer, vectors) < 0.5 * error(random, vectors)
    assert error(quantizer, unseen) < 0.5 * error(random, unseen)


def test_more_codewords_and_more_codebooks_err_less() -> None:
    vectors = clustered(1000, 8)
    by_codewords = [error(fitted(vectors, 2, k), vectors) for k in (2, 8, 32, 128)]
    by_codebooks = [error(fitted(vectors, m, 8), vectors) for m in (1, 2, 4, 8)]
    for errors in (by_codewords, by_codebooks):
        assert errors == sorted(errors, reverse=True) and errors[-1] < 0.5 * errors[0]


def test_an_iteration_never_raises_the_error() -> None:
    X, codewords = clustered(400, 3), clustered(20, 3, seed=9)
    last = float("inf")
    for _ in range(12):
        distance, nearest = torch.cdist(X, codewords).min(dim=1)
        assert float(distance.square().sum()) <= last * (1 + 1e-5)
        last = float(distance.square().sum())
        codewords = means(X, nearest, codewords)


def test_codewords_become_the_means_of_their_vectors_and_empty_ones_go_where_it_hurts() -> None:
    X = torch.tensor([[0.0, 0], [2, 0], [10, 0], [10, 6]])
    codewords = torch.tensor([[1.0, 1], [99, 99], [10, 0], [-99, 0]])
    moved = means(X, torch.tensor([0, 0, 2, 2]), codewords)
    assert moved[0].tolist() == [1, 0] and moved[2].tolist() == [10, 3]
    assert moved[1].tolist() == [10, 6]  # the farthest from its codeword
    assert moved[3].tolist() in ([0, 0], [2, 0])  # then these


def test_vectors_that_are_fewer_than_the_codewords_come_back_exactly() -> None:
    vectors = clustered(11, 6)
    quantizer = fitted(vectors, 3, 256)
    assert torch.isfinite(quantizer.codebooks).all()
    assert error(quantizer, vectors) < 1e-10
    alone = fitted(vectors[:1], 3, 5)
    assert error(alone, vectors[:1]) < 1e-10


def test_equal_vectors_leave_room_for_the_others() -> None:
    """As after a ReLU: most vectors are 0, and codewords drawn from them mostly coincide."""
    vectors = torch.cat((torch.zeros(990, 2), clustered(10, 2)))
    assert error(fitted(vectors, 1, 11), vectors) < 1e-8


def test_fitting_depends_on_the_generator_alone_and_tells_how_many_it_compared() -> None:
    vectors = clustered(300, 4)
    before = torch.get_rng_state()
    one, same, other = (ProductQuantizer(4, 2, 16) for _ in range(3))
    assert one.fit(vectors, seeded(1)) == LLOYD * 300
    same.fit(vectors, seeded(1)), other.fit(vectors, seeded(2))
    assert torch.equal(one.codebooks, same.codebooks)
    assert not torch.equal(one.codebooks, other.codebooks)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("codewords", "each"), [(2, 1), (256, 1), (257, 2), (2048, 2)])
def test_a_code_takes_one_byte_up_to_256_codewords_and_two_above(codewords: int, each: int) -> None:
    quantizer = ProductQuantizer(8, 4, codewords)
    last = torch.arange(codewords, dtype=torch.float32)[:, None].expand(-1, 2)
    quantizer.codebooks.copy_(last)
    codes = quantizer(torch.full((1, 8, 3, 5), float(codewords)))
    assert codes.nbytes == quantizer.nbytes(15) == 15 * 4 * each
    assert (quantizer.decode(codes) == codewords - 1).all()  # the highest number survives


def test_vectors_are_taken_position_by_position() -> None:
    maps = torch.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2)
    vectors = vectors_of(maps)
    assert vectors.shape == (8, 3)
    assert vectors[5].tolist() == maps[1, :, 0, 1].tolist()


def test_impossible_codebooks_are_refused_with_those_that_are_possible() -> None:
    with pytest.raises(InvalidSetting, match=r"32 must divide the 12 .* 1, 2, 3, 4, 6, 12"):
        ProductQuantizer(12, 32, 256)
    for codebooks, codewords in ((0, 256), (-1, 256), (4, 1), (4, 2049)):
        with pytest.raises(InvalidSetting):
            ProductQuantizer(12, codebooks, codewords)
