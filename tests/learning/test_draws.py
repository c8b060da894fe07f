"""Draws from a memory are uniform, distinct and leave it as it is."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.learning.memory import Memory, draw_distinct, with_replay
from earl.learning.policies import POLICIES, greedy_balanced, reservoir
from memories import CAPACITY, LABELS, contents, filled, shuffled
from seeds import generator, looks_uniform

# ---- drawing


@settings(max_examples=200, deadline=None)
@given(n=st.integers(0, 40), k=st.integers(0, 50), seed=st.integers(0, 999))
def test_distinct_draws_are_distinct_and_in_range(n, k, seed):
    drawn = draw_distinct(n, k, generator(seed))
    assert drawn.dtype == torch.int64 and drawn.shape == (min(k, n),)
    assert len(set(drawn.tolist())) == len(drawn)
    assert all(0 <= i < n for i in drawn.tolist())


@pytest.mark.parametrize(("n", "k"), [(4, 2), (4, 3), (3, 3), (3, 7), (5, 1)])
def test_distinct_draws_are_uniform_over_ordered_choices(n, k):
    counts = dict.fromkeys(permutations(range(n), min(k, n)), 0)
    g = generator(1)
    for _ in range(2400):
        counts[tuple(draw_distinct(n, k, g).tolist())] += 1
    assert looks_uniform(list(counts.values()))


def test_sample_is_uniform_over_sets_of_rows():
    memory = filled([0, 0, 1, 2, 2, 2], 6, greedy_balanced)
    g, singles, pairs = generator(2), np.zeros(6), np.zeros((6, 6))
    for _ in range(3000):
        (t,) = memory.sample(2, "t", generator=g)
        a, b = sorted(t.tolist())
        assert a != b
        singles[[a, b]] += 1
        pairs[a, b] += 1
    assert looks_uniform(singles)
    assert looks_uniform(pairs[np.triu_indices(6, 1)])


@pytest.mark.parametrize("n", [4, 5, 100])
def test_sample_returns_every_row_once_when_asked_for_all(n):
    memory = filled([0, 1, 0, 2], 10, reservoir)
    y, t = memory.sample(n, "y", "t", generator=generator())
    assert sorted(t.tolist()) == [0, 1, 2, 3]
    assert y.tolist() == [[0, 1, 0, 2][i] for i in t.tolist()]


def test_a_sample_of_no_rows_is_empty():
    memory = filled([0, 1, 0, 2], 10, reservoir)
    y, t = memory.sample(0, "y", "t", generator=generator())
    assert y.shape == t.shape == (0,)


def test_replay_fills_a_batch_up_with_samples_of_the_memory():
    memory, labels = Memory(5, reservoir), torch.tensor([0, 1, 2, 0, 1])
    memory.add(generator(), x=torch.arange(5)[:, None], y=labels)
    X, Y = torch.tensor([[8], [9]]), torch.tensor([3, 4])
    x, y = with_replay(X, Y, memory, 6, generator(3))
    X_m, Y_m = memory.sample(4, "x", "y", generator=generator(3))
    assert torch.equal(x, torch.cat((X, X_m))) and torch.equal(y, torch.cat((Y, Y_m)))
    x, y = with_replay(X, Y, Memory(5, reservoir), 6, generator(3))
    assert torch.equal(x, X) and torch.equal(y, Y)  # there is nothing to replay yet


def test_drawing_changes_nothing():
    memory = filled(shuffled([0, 1, 2] * 9), 8, greedy_balanced)
    before = contents(memory, "y", "t"), memory.seen, [list(memory.rows_of(c)) for c in range(3)]
    memory.sample(5, "y", generator=generator())
    memory.sample_of(torch.tensor([0, 2]), generator())
    after = contents(memory, "y", "t"), memory.seen, [list(memory.rows_of(c)) for c in range(3)]
    assert before == after


@settings(max_examples=50, deadline=None)
@given(labels=LABELS.filter(len), capacity=CAPACITY, seed=st.integers(0, 99), data=st.data())
def test_sample_of_returns_a_row_of_each_class_asked_for(labels, capacity, seed, data):
    memory = filled(labels, capacity, greedy_balanced, seed)
    held = memory.classes_held().tolist()
    asked = data.draw(st.lists(st.sampled_from(held), min_size=1, max_size=8))
    rows = memory.sample_of(torch.tensor(asked), generator(seed))
    assert memory.take(rows, "y")[0].tolist() == asked


def test_sample_of_is_uniform_within_the_class():
    memory = filled(shuffled([0] * 9 + [1] * 5 + [2] * 2), 12, greedy_balanced, seed=1)
    g = generator(3)
    for c in range(3):
        rows = memory.sample_of(torch.full((1500,), c), g)
        counts = rows.bincount(minlength=12)[sorted(memory.rows_of(c))]
        assert int(counts.sum()) == 1500 and looks_uniform(counts.numpy())


def test_a_row_for_no_class_is_no_row():
    memory = filled([0, 1], 4, reservoir)
    rows = memory.sample_of(torch.empty(0, dtype=torch.int64), generator())
    assert memory.take(rows, "t")[0].shape == (0,)


def test_the_global_random_state_is_left_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    for policy in POLICIES.values():
        memory = filled(shuffled([0, 1, 2] * 9), 8, policy)
        memory.sample(5, "y", generator=generator())
        memory.sample_of(torch.tensor([0, 2]), generator())
    assert torch.equal(torch.get_rng_state(), before)
