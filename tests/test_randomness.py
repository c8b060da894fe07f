"""A draw depends on seed, step and purpose, and on nothing else."""

import numpy as np
import pytest
import torch

from earl.randomness import Randomness, words

# ---- randomness


def draw(generator):
    return tuple(torch.randint(2**60, (4,), generator=generator).tolist())


def test_a_draw_is_a_function_of_seed_step_and_purpose():
    draws = {
        draw(Randomness(seed).at(step, purpose))
        for seed in (0, 1, 2, 11)
        for step in (0, 1, 2, 11, 10**9)
        for purpose in ("augment", "draw", "")
    }
    assert len(draws) == 4 * 5 * 3
    assert draw(Randomness(1).at(2, "draw")) == draw(Randomness(1).at(2, "draw"))


def test_a_generator_is_fresh_each_time():
    randomness = Randomness(1)
    first = randomness.at(3, "draw")
    one = draw(first)
    assert draw(first) != one  # it moves on
    assert draw(randomness.at(3, "draw")) == one  # a new one starts again


def test_the_global_random_states_are_left_alone():
    torch.manual_seed(0)
    before, array = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    draw(Randomness(1).at(0, "draw"))
    words("key", 10)
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == array).all()  # noqa: NPY002


def test_words_depend_on_their_key_alone_and_a_longer_draw_begins_with_the_shorter():
    one = words("a", 1000)
    assert one.dtype == np.uint64 and (words("a", 10) == one[:10]).all()
    assert (words("b", 1000) != one).all()
    bits = np.unpackbits(one.view(np.uint8))
    assert bits.mean() == pytest.approx(0.5, abs=4 * 0.5 / 64000**0.5)
