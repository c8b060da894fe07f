"""Memory: its books against plain lists."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.errors import InvalidSetting
from earl.learning.memory import Memory
from earl.learning.policies import POLICIES, greedy_balanced, reservoir
from memories import CAPACITY, LABELS, contents, filled, numbered
from seeds import generator

POLICY = st.sampled_from(sorted(POLICIES))


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


def test_a_column_is_widened_with_nan() -> None:
    memory = Memory(3, reservoir)
    memory.widen("logits", 5)  # there is none yet
    memory.add(torch.Generator(), y=torch.tensor([0, 1]), logits=torch.ones(2, 2))
    memory.widen("logits", 1)
    assert torch.tensor(contents(memory, "logits")[0]).shape == (2, 2)
    memory.widen("logits", 4)
    stored = torch.tensor(contents(memory, "logits")[0])
    assert stored[:, :2].eq(1).all() and stored[:, 2:].isnan().all()
