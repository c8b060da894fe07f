"""Preparatory data: a mapping that keeps off seen classes, and images that carry its targets."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.learning.classes import Classes
from earl.methods.earl.negatives import NEGATIVES
from earl.methods.earl.preparatory import (
    PreparatoryData,
)
from earl.randomness import Randomness
from seeds import generator, looks_uniform


def mapping(K, seed=0, negative=NEGATIVES["rotation"]):
    return PreparatoryData(K, negative, Randomness(seed))


def assert_keeps_off_classes(prepare, n):
    """Check that all targets exist and none of the n seen classes is one."""
    assert prepare.m.shape == (n, 3)
    assert prepare.m.dtype == torch.int64
    assert bool((prepare.m >= n).all()) and bool((prepare.m < prepare.K).all())


# ---- the mapping m


def test_no_target_is_a_seen_class_over_1000_classes_in_random_order():
    prepare, classes = mapping(4097), Classes()
    ids = torch.randperm(1000, generator=generator())
    for i, c in enumerate(ids.split(1)):
        known = ids[torch.randint(i + 1, (1,), generator=generator(i))]  # comes once more
        classes.index(torch.cat((c, known)))
        prepare.assign(len(classes))
        before = prepare.m.clone()
        prepare.assign(len(classes))
        assert torch.equal(prepare.m, before)
        assert_keeps_off_classes(prepare, i + 1)
        assert len(prepare.m.unique()) == 3 * (i + 1)  # injective: 4 n <= 4097


def test_targets_are_shared_only_when_they_have_to_be():
    K = 4097
    prepare = mapping(K)
    prepare.assign(K // 4)
    assert len(prepare.m.unique()) == 3 * (K // 4)  # 4 n <= K: injective to the last
    for n in range(K // 4 + 1, K // 4 + 60):
        prepare.assign(n)
        assert_keeps_off_classes(prepare, n)
        assert len(prepare.m.unique()) == K - n < 3 * n  # every vector without a class is in use


@settings(max_examples=60, deadline=None)
@given(K=st.integers(2, 40), seed=st.integers(0, 99), data=st.data())
def test_the_mapping_is_legal_after_every_new_class(K, seed, data):
    prepare = mapping(K, seed)
    n = 0
    while n < K - 1:
        before = prepare.m.clone()
        n = data.draw(st.integers(n + 1, min(n + 4, K - 1)))
        prepare.assign(n)
        assert prepare.active
        assert_keeps_off_classes(prepare, n)
        if 4 * n <= K:
            assert len(prepare.m.unique()) == 3 * n
        else:
            assert len(prepare.m.unique()) <= K - n
        untouched = before >= n  # entries change only when a class takes their vector
        assert torch.equal(prepare.m[: len(before)][untouched], before[untouched])


@settings(max_examples=30, deadline=None)
@given(K=st.integers(2, 30), seed=st.integers(0, 9), data=st.data())
def test_classes_that_come_together_are_mapped_as_if_one_by_one(K, seed, data):
    n = data.draw(st.integers(1, K - 1))
    together, apart = mapping(K, seed), mapping(K, seed)
    together.assign(n)
    for known in range(1, n + 1):
        apart.assign(known)
    assert torch.equal(together.m, apart.m)


@settings(max_examples=30, deadline=None)
@given(K=st.integers(2, 12), seed=st.integers(0, 9), data=st.data())
def test_more_vectors_give_the_mapping_that_as_many_from_the_beginning_give(K, seed, data):
    prepare, always = mapping(K, seed), mapping(2 * K, seed)
    prepare.assign(K)
    assert not prepare.active
    prepare.regrow(2 * K)
    n = data.draw(st.integers(K, 2 * K - 1))
    prepare.assign(n), always.assign(n)
    assert prepare.active and torch.equal(prepare.m, always.m) and prepare.low == always.low
    assert_keeps_off_classes(prepare, n)


def test_preparatory_targets_are_taken_from_the_back():
    prepare = mapping(100)
    prepare.assign(5)
    assert sorted(prepare.m.flatten().tolist()) == list(range(85, 100))


def test_a_target_that_becomes_a_class_is_mapped_again():
    prepare = mapping(9)
    prepare.assign(2)
    assert sorted(prepare.m.flatten().tolist()) == [3, 4, 5, 6, 7, 8]  # all that is left
    prepare.assign(3)  # takes 2, which is free; its own targets have to be shared
    shared = prepare.m.clone()
    assert set(shared[2].tolist()) <= {3, 4, 5, 6, 7, 8}
    assert sorted(shared[:2].flatten().tolist()) == [3, 4, 5, 6, 7, 8]
    prepare.assign(4)  # takes 3, which is in use
    lent = shared == 3
    assert lent.any()
    assert bool((prepare.m[:3][lent] >= 4).all())
    assert torch.equal(prepare.m[:3][~lent], shared[~lent])


def test_a_vector_is_shared_uniformly_among_those_left():
    counts = np.zeros(9)
    for seed in range(300):
        prepare = mapping(9, seed)
        prepare.assign(3)
        np.add.at(counts, prepare.m[2].numpy(), 1)
    assert counts[:3].sum() == 0 and looks_uniform(counts[3:])


def test_a_target_is_mapped_again_uniformly_to_those_left():
    counts = np.zeros(9)
    for seed in range(600):
        prepare = mapping(9, seed)
        prepare.assign(3)
        lent = prepare.m == 3
        prepare.assign(4)
        first = prepare.m[:3][lent][0]
        counts[int(first)] += 1
    assert counts[:4].sum() == 0 and looks_uniform(counts[4:])


def test_preparation_is_active_while_a_vector_is_left():
    prepare = mapping(9)
    assert not prepare.active  # no class, nothing to transform
    for n in range(1, 9):
        prepare.assign(n)
        assert prepare.active
    assert bool((prepare.m == 8).all())  # the last one serves all
    prepare.assign(9)
    assert not prepare.active


def test_the_mapping_depends_on_the_seed_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, same, other = mapping(30, 1), mapping(30, 1), mapping(30, 2)
    for prepare in (one, same, other):
        prepare.assign(25)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.m, same.m) and not torch.equal(one.m, other.m)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 8, 9])
def test_a_loaded_mapping_continues_identically(n):
    old, new = mapping(9, 3), mapping(9, 3)
    old.assign(n)
    new.load_state_dict(old.state_dict())
    for prepare in (old, new):
        prepare.assign(9)
    assert torch.equal(old.m, new.m)
