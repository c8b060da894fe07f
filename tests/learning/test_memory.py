"""Memory: its books against plain lists, its policies against their laws."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.errors import InvalidSetting
from earl.learning.memory import Memory, draw_distinct
from earl.learning.policies import POLICIES, class_reservoir, gdumb, greedy_balanced, reservoir

LABELS = st.lists(st.integers(0, 5), max_size=60)
CAPACITY = st.integers(1, 12)
POLICY = st.sampled_from(sorted(POLICIES))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def numbered(labels, start=0):
    """Return columns for `add`: the labels, and the place of each sample in the stream."""
    y = torch.tensor(labels, dtype=torch.int64)
    return {"y": y, "t": torch.arange(start, start + len(y))}


def filled(labels, capacity, policy, seed=0):
    memory = Memory(capacity, policy)
    memory.add(generator(seed), **numbered(labels))
    return memory


def contents(memory, *names):
    """Return the named columns of all rows as lists."""
    return tuple(c.tolist() for c in memory.take(torch.arange(len(memory)), *names))


def shuffled(labels, seed=0):
    order = torch.randperm(len(labels), generator=generator(seed))
    return torch.tensor(labels)[order].tolist()


def looks_uniform(counts):
    """Whether equally likely outcomes were counted: chi-square within 5 s.d. of its mean."""
    counts = np.asarray(counts, dtype=float)
    expected = counts.sum() / counts.size
    assert expected >= 5, "too few draws to tell"
    freedom = counts.size - 1
    return ((counts - expected) ** 2 / expected).sum() <= freedom + 5 * (2 * freedom) ** 0.5


# ---- the books


@settings(max_examples=150, deadline=None)
@given(labels=LABELS, capacity=CAPACITY, policy=POLICY, seed=st.integers(0, 99), data=st.data())
def test_memory_holds_what_a_plain_list_holds_after_the_same_decisions(
    labels, capacity, policy, seed, data
):
    decisions = []

    def remembered(memory, c, generator):
        decisions.append(POLICIES[policy](memory, c, generator))
        return decisions[-1]

    memory, g, slots = Memory(capacity, remembered), generator(seed), []
    while len(decisions) < len(labels):
        start = len(decisions)
        size = data.draw(st.integers(1, len(labels) - start))
        memory.add(g, **numbered(labels[start : start + size], start))
        assert len(decisions) == start + size  # every sample is offered, one by one
        for t in range(start, start + size):
            row = decisions[t]
            if row is not None and row == len(slots):
                slots.append((labels[t], t))
            elif row is not None:
                slots[row] = (labels[t], t)
        assert len(memory) == len(slots) <= capacity
        assert memory.full == (len(slots) == capacity)
        assert list(zip(*contents(memory, "y", "t"), strict=True)) == slots
        assert memory.seen == start + size
        for c in range(max(labels[: start + size]) + 1):
            rows = [row for row, (y, _) in enumerate(slots) if y == c]
            assert sorted(memory.rows_of(c)) == rows
            assert memory.counts[c] == len(rows)
            assert memory.seen_of[c] == labels[: start + size].count(c)
        assert memory.classes_held().tolist() == sorted({y for y, _ in slots})


@settings(max_examples=60, deadline=None)
@given(labels=LABELS, capacity=CAPACITY, policy=POLICY, seed=st.integers(0, 99))
def test_samples_offered_together_and_one_by_one_leave_the_same_memory(
    labels, capacity, policy, seed
):
    together = filled(labels, capacity, POLICIES[policy], seed)
    apart, g = Memory(capacity, POLICIES[policy]), generator(seed)
    for t, c in enumerate(labels):
        apart.add(g, **numbered([c], t))
    assert len(together) == len(apart)
    if labels:
        assert contents(together, "y", "t") == contents(apart, "y", "t")


def test_columns_of_any_type_and_shape_are_kept_together():
    n, g = 40, generator()
    columns = {
        "x": torch.randint(256, (n, 3, 4, 4), generator=g).byte(),
        "logits": torch.randn(n, 7, generator=g).half(),
        "weight": torch.randn(n, generator=g, dtype=torch.float64),
        "task": torch.arange(n, dtype=torch.int32),
        "flag": torch.arange(n) % 2 == 0,
        "code": torch.arange(2 * n, dtype=torch.int16).view(n, 2),
    }
    memory = Memory(10, reservoir)
    memory.add(generator(1), y=torch.arange(n) % 4, **columns)
    stored = memory.take(torch.arange(10), "y", *columns)
    came = stored[1 + list(columns).index("task")].long()
    assert stored[0].tolist() == (came % 4).tolist()
    for (name, values), held in zip(columns.items(), stored[1:], strict=True):
        assert held.dtype == values.dtype, name
        assert torch.equal(held, values[came]), name
    row = 8 + 48 + 14 + 8 + 4 + 1 + 4
    assert sum(memory.nbytes().values()) == 10 * row


def test_the_caller_may_reuse_its_tensors():
    x, y = torch.zeros(2, 3), torch.tensor([0, 1])
    memory = Memory(4, reservoir)
    memory.add(generator(), x=x, y=y)
    x.fill_(9), y.fill_(9)
    held = memory.take(torch.tensor([0, 1]), "x", "y")
    held[0].fill_(7)
    assert memory.take(torch.tensor([0, 1]), "x")[0].eq(0).all()
    assert contents(memory, "y") == ([0, 1],)


def test_a_memory_without_room_is_refused():
    with pytest.raises(InvalidSetting, match="0"):
        Memory(0, reservoir)


def test_update_rewrites_only_the_named_columns_of_the_given_rows():
    memory = Memory(5, reservoir)
    memory.add(generator(), y=torch.arange(5), z=torch.zeros(5, 2), t=torch.arange(5))
    memory.update(torch.tensor([3, 1]), z=torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    z, y, t = contents(memory, "z", "y", "t")
    assert z == [[0, 0], [3, 4], [0, 0], [1, 2], [0, 0]]
    assert y == t == [0, 1, 2, 3, 4]


def test_a_newcomer_brings_its_own_columns_into_an_updated_row():
    memory = Memory(1, greedy_balanced)
    memory.add(generator(), y=torch.tensor([0]), z=torch.tensor([1.0]))
    memory.update(torch.tensor([0]), z=torch.tensor([5.0]))
    memory.add(generator(), y=torch.tensor([1]), z=torch.tensor([2.0]))
    assert contents(memory, "y", "z") == ([1], [2.0])


@settings(max_examples=100, deadline=None)
@given(before=LABELS, after=LABELS, capacity=CAPACITY, policy=POLICY, data=st.data())
def test_removed_rows_are_gone_and_the_books_fit_the_others(before, after, capacity, policy, data):
    memory = filled([0, *before], capacity, POLICIES[policy])
    y, t = contents(memory, "y", "t")
    seen, seen_of = memory.seen, memory.seen_of.tolist()
    dropped = data.draw(st.sets(st.integers(0, len(memory) - 1)))
    memory.remove(torch.tensor(sorted(dropped), dtype=torch.int64))
    kept = [i for i in range(len(y)) if i not in dropped]
    assert contents(memory, "y", "t") == ([y[i] for i in kept], [t[i] for i in kept])
    assert (memory.seen, memory.seen_of.tolist()) == (seen, seen_of)
    memory.add(generator(1), **numbered(after, start=100))  # the policy goes on with right books
    assert len(memory) <= capacity
    (y,) = contents(memory, "y")
    for c, count in enumerate(memory.counts):
        assert sorted(memory.rows_of(c)) == [row for row in range(len(y)) if y[row] == c]
        assert count == y.count(c)


@settings(max_examples=50, deadline=None)
@given(before=LABELS, after=LABELS, capacity=CAPACITY, policy=POLICY)
def test_a_cleared_memory_is_as_if_new(before, after, capacity, policy):
    memory, new = filled(before, capacity, POLICIES[policy]), Memory(capacity, POLICIES[policy])
    memory.clear()
    assert len(memory) == memory.seen == 0
    for one in (memory, new):
        one.add(generator(1), **numbered([0, *after]))
    assert contents(memory, "y", "t") == contents(new, "y", "t")
    assert memory.counts.tolist() == new.counts.tolist()
    assert (memory.seen, memory.seen_of.tolist()) == (new.seen, new.seen_of.tolist())


# ---- state


@settings(max_examples=60, deadline=None)
@given(before=LABELS, after=LABELS, capacity=CAPACITY, policy=POLICY, seed=st.integers(0, 99))
def test_a_loaded_memory_continues_identically(before, after, capacity, policy, seed):
    old = filled(before, capacity, POLICIES[policy], seed)
    new = Memory(capacity, POLICIES[policy])
    new.load_state_dict(old.state_dict())
    for memory in (old, new):
        memory.add(generator(seed + 1), **numbered(after, start=len(before)))
    assert (len(old), old.seen) == (len(new), new.seen)
    if len(old):
        assert contents(old, "y", "t") == contents(new, "y", "t")
        drawn = [m.sample(3, "t", generator=generator(5))[0].tolist() for m in (old, new)]
        assert drawn[0] == drawn[1]
        held = old.classes_held()
        assert held.tolist() == new.classes_held().tolist()
        rows = [m.sample_of(held, generator(6)).tolist() for m in (old, new)]
        assert rows[0] == rows[1]
    assert old.counts.tolist() == new.counts.tolist()
    assert old.seen_of.tolist() == new.seen_of.tolist()


def test_a_loaded_memory_shares_nothing_with_the_state_it_came_from():
    old = filled([0, 1, 0, 1], 4, greedy_balanced)
    new = Memory(4, greedy_balanced)
    new.load_state_dict(old.state_dict())
    new.add(generator(3), **numbered([0, 1, 0], start=100))
    assert contents(old, "y", "t") == ([0, 1, 0, 1], [0, 1, 2, 3])
    assert old.seen == 4 and old.seen_of.tolist() == [2, 2]


def test_state_holds_stored_samples_only_and_keeps_every_type():
    memory = Memory(100, reservoir)
    x = torch.randint(256, (3, 1, 2, 2), generator=generator()).byte()
    memory.add(generator(), x=x, y=torch.tensor([0, 1, 0]), z=torch.ones(3, 2).half())
    state = memory.state_dict()
    assert {len(column) for column in state["columns"].values()} == {3}
    other = Memory(5, reservoir)  # another capacity is no obstacle while the samples fit
    other.load_state_dict(state)
    held = other.take(torch.arange(3), "x", "y", "z")
    assert [column.dtype for column in held] == [torch.uint8, torch.int64, torch.float16]
    assert torch.equal(held[0], x)


def test_more_samples_than_room_do_not_load():
    state = filled([0, 1, 2], 3, reservoir).state_dict()
    with pytest.raises(InvalidSetting, match=r"3 .* 2"):
        Memory(2, reservoir).load_state_dict(state)


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
