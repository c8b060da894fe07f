"""Policies of a memory against their laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.learning.memory import Memory
from earl.learning.policies import POLICIES, class_reservoir, gdumb, greedy_balanced, reservoir
from memories import CAPACITY, LABELS, contents, filled, numbered, shuffled
from seeds import generator, looks_uniform

# ---- reservoir


@pytest.mark.parametrize(("M", "t"), [(1, 2), (1, 4), (2, 3), (6, 6), (6, 15), (6, 40)])
def test_reservoir_keeps_every_sample_of_the_stream_equally_often(M, t):
    trials = 700
    hits = np.zeros(t)
    for seed in range(trials):
        (kept,) = contents(filled([0] * t, M, reservoir, seed), "t")
        assert len(kept) == len(set(kept)) == M
        hits[kept] += 1
    share = M / t
    error = (share * (1 - share) / trials) ** 0.5
    for place in (0, M - 1, t // 2, t - 1):
        assert abs(hits[place] / trials - share) <= 3 * error
    assert t == M or looks_uniform(hits)


@settings(max_examples=50, deadline=None)
@given(labels=LABELS, capacity=CAPACITY)
def test_reservoir_decides_without_looking_at_classes(labels, capacity):
    kept = filled(labels, capacity, reservoir)
    blind = filled([0] * len(labels), capacity, reservoir)
    assert len(kept) == min(capacity, len(labels))
    if labels:
        assert contents(kept, "t") == contents(blind, "t")


# ---- greedy-balanced


@settings(max_examples=100, deadline=None)
@given(labels=LABELS.filter(len), capacity=CAPACITY, seed=st.integers(0, 99))
def test_greedy_balanced_keeps_the_newcomer_and_replaces_one_of_a_largest_class(
    labels, capacity, seed
):
    memory, g = Memory(capacity, greedy_balanced), generator(seed)
    for t, c in enumerate(labels):
        before = contents(memory, "y", "t") if len(memory) else ([], [])
        memory.add(g, **numbered([c], t))
        y, times = contents(memory, "y", "t")
        assert t in times and y[times.index(t)] == c
        gone = [k for k, s in zip(*before, strict=True) if s not in times]
        if len(before[0]) < capacity:
            assert gone == []
            continue
        counts = {k: before[0].count(k) for k in before[0]}
        largest = {k for k, n in counts.items() if n == max(counts.values())}
        assert len(gone) == 1 and gone[0] in largest
        assert c not in largest or gone[0] == c


@settings(max_examples=60, deadline=None)
@given(
    prefix=LABELS,
    classes=st.integers(1, 6),
    capacity=CAPACITY,
    policy=st.sampled_from(["greedy_balanced", "class_reservoir"]),
    seed=st.integers(0, 99),
)
def test_classes_with_enough_samples_differ_by_at_most_one_once_full(
    prefix, classes, capacity, policy, seed
):
    classes = max([classes, *(c + 1 for c in prefix)])
    rest = shuffled(list(range(classes)) * capacity, seed)
    memory = filled(prefix + rest, capacity, POLICIES[policy], seed)
    assert memory.full
    assert memory.counts.max() - memory.counts.min() <= 1


def test_greedy_balanced_evicts_any_row_of_any_largest_class_equally_often():
    stream = [0, 0, 0, 1, 1, 1, 2]  # six rows are full; class 2 then takes one of the six
    gone = np.zeros(6)
    for seed in range(600):
        (times,) = contents(filled(stream, 6, greedy_balanced, seed), "t")
        gone[(set(range(6)) - set(times)).pop()] += 1
    assert looks_uniform(gone)


def test_greedy_balanced_evicts_any_row_of_its_own_class_equally_often():
    stream = [0, 1, 0, 1, 0, 1, 0]
    gone = {0: 0, 2: 0, 4: 0}
    for seed in range(400):
        (times,) = contents(filled(stream, 6, greedy_balanced, seed), "t")
        gone[(set(range(6)) - set(times)).pop()] += 1
    assert looks_uniform(list(gone.values()))


# ---- gdumb


@settings(max_examples=100, deadline=None)
@given(labels=LABELS, capacity=CAPACITY, seed=st.integers(0, 99))
def test_gdumb_drops_exactly_the_newcomers_whose_class_has_its_share(labels, capacity, seed):
    memory, g, counts = Memory(capacity, gdumb), generator(seed), {}
    for t, c in enumerate(labels):
        counts.setdefault(c, 0)
        share = capacity / len(counts)
        dropped = counts[c] >= share
        most = max(counts.values())
        full = sum(counts.values()) == capacity
        memory.add(g, **numbered([c], t))
        y, times = contents(memory, "y", "t")
        assert (t not in times) == dropped
        new = {k: y.count(k) for k in counts}
        if not dropped:
            counts[c] += 1
            if full:
                (loser,) = (k for k in counts if new[k] < counts[k])
                assert counts[loser] == most
                counts[loser] -= 1
        assert new == counts


def test_gdumb_keeps_the_first_samples_of_a_class():
    memory = filled([0] * 20 + [1] * 20, 8, gdumb)
    y, times = contents(memory, "y", "t")
    assert sorted(t for t, c in zip(times, y, strict=True) if c == 1) == [20, 21, 22, 23]
    assert all(t < 8 for t, c in zip(times, y, strict=True) if c == 0)


# ---- class reservoir


def kept_per_place(stream, capacity, trials, c):
    """Return how often each sample of class c is in memory at the end of the stream."""
    places = [t for t, label in enumerate(stream) if label == c]
    hits = dict.fromkeys(places, 0)
    for seed in range(trials):
        y, times = contents(filled(stream, capacity, class_reservoir, seed), "y", "t")
        for label, t in zip(y, times, strict=True):
            if label == c:
                hits[t] += 1
    return list(hits.values())


def test_class_reservoir_keeps_every_sample_of_one_class_equally_often():
    assert looks_uniform(kept_per_place([0] * 20, 6, 400, c=0))


def test_class_reservoir_is_uniform_within_classes_that_come_together():
    stream = [0, 1] * 15
    for c in (0, 1):
        assert looks_uniform(kept_per_place(stream, 6, 400, c))


def test_class_reservoir_is_uniform_within_a_class_that_made_room_for_another():
    # Class 2 takes rows of the others; what they lost must not favour their next sample.
    stream = [0, 1] * 8 + [2, 2] + [0, 1, 2] * 6
    for c in (0, 1):
        assert looks_uniform(kept_per_place(stream, 12, 500, c))
