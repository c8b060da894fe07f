"""Updates are due as the rate says, and samples wait until there are enough of them."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from earl.learning.pace import Pace, Waiting
from earl.learning.work import Pass, Work
from plain_setting import ids, raw, setting

# ---- pace


def pace_of(rate):
    return Pace(setting(iterations=rate), Work(dict))


def updates(pace, samples):
    return sum(1 for _ in pace.owed(samples))


RATES = [0.25, 0.75, 1, 2.25, 3, 0.1]


@settings(max_examples=150, deadline=None)
@given(rate=st.sampled_from(RATES), sizes=st.lists(st.integers(1, 17), max_size=40))
def test_after_n_samples_floor_of_rate_times_n_updates_were_due(rate, sizes):
    pace, done, samples = pace_of(rate), 0, 0
    exact = Fraction(str(rate))
    for size in sizes:
        done += updates(pace, size)
        samples += size
        assert done == math.floor(exact * samples)


@settings(max_examples=60, deadline=None)
@given(rate=st.decimals("0.001", "9", places=3), samples=st.integers(0, 100_000))
@example(rate=Decimal("0.7"), samples=10)  # the float nearest to 0.7 is smaller
@example(rate=Decimal("0.1"), samples=10)
def test_any_short_decimal_rate_is_meant_exactly(rate, samples):
    assert updates(pace_of(float(rate)), samples) == math.floor(Fraction(rate) * samples)


@pytest.mark.parametrize("rate", [0.1, 0.75, 2.25])
@pytest.mark.parametrize("pause", [0, 1, 2, 3, 7])
def test_a_loaded_pace_still_owes_the_part_of_an_update(rate, pause):
    old, new = pace_of(rate), pace_of(rate)
    for _ in range(pause):
        updates(old, 1)
    new.load_state_dict(old.state_dict())
    assert [updates(old, 1) for _ in range(20)] == [updates(new, 1) for _ in range(20)]


# ---- waiting


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
def test_what_samples_cost_leaves_the_rest_of_the_budget_to_updates(share):
    """Looks that come with samples are paid for once: no update waits for twice their cost."""
    one = Pass(torch.nn.Linear(10, 10, bias=False), (10,), trains=False)  # 200 FLOPs
    work = Work(lambda: {"looks": one, "images": one})
    pace = Pace(setting(flops=2_000.0), work)
    for n in range(1, 301):
        work.count(looks=int(10 * share))
        for _ in pace.owed(1):
            work.add(images=7)
        assert abs(2_000 * n - work.flops) < 7 * 200  # the first update is made at once
    assert abs(work.updates - 300 * int(10 - 10 * share) / 7) < 1


def waiting_room(size):
    """Return samples that wait, and a list of all that was learned of them."""
    learned = []
    return Waiting(size, lambda x, y: learned.append((x, y))), learned


def test_samples_wait_in_order_until_there_are_enough_and_are_learned_at_once():
    waiting, learned = waiting_room(3)
    waiting.append(torch.full((1, 1, 2, 2), 7).byte(), ids(4))
    waiting.append(torch.arange(4).view(1, 1, 2, 2).byte(), ids(5))
    assert len(waiting) == 2 and not learned
    waiting.append(torch.arange(4, 8).view(1, 1, 2, 2).byte(), ids(4))
    ((x, y),) = learned
    assert x.shape == (3, 1, 2, 2) and x.dtype == torch.uint8 and y.dtype == torch.int64
    assert x.flatten().tolist() == [7] * 4 + list(range(8)) and y.tolist() == [4, 5, 4]
    assert len(waiting) == 0


def test_what_still_waits_is_learned_when_asked_for_and_nothing_is_learned_twice():
    waiting, learned = waiting_room(3)
    waiting.flush()
    assert not learned
    waiting.append(torch.zeros(1, 1, 2, 2).byte(), ids(1))
    waiting.flush()
    waiting.flush()
    assert [y.tolist() for _, y in learned] == [[1]] and len(waiting) == 0


def test_the_caller_may_reuse_its_buffers_while_samples_wait():
    waiting, learned = waiting_room(2)
    x, y = torch.zeros(1, 1, 2, 2, dtype=torch.uint8), ids(1)
    waiting.append(x, y)
    x.fill_(9), y.fill_(9)
    waiting.append(x, y)
    ((kept, numbers),) = learned
    assert not kept[0].any() and kept[1].all()
    assert numbers.tolist() == [1, 9]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_waiting_samples_survive_a_restart(n):
    old, new = waiting_room(3), waiting_room(3)
    for i in range(n):
        old[0].append(torch.full((1, 1, 2, 2), i).byte(), ids(i))
    new[0].load_state_dict(old[0].state_dict())
    for waiting, learned in (old, new):
        while not learned:
            waiting.append(torch.full((1, 1, 2, 2), 8).byte(), ids(8))
    for a, b in zip(old[1][0], new[1][0], strict=True):
        assert torch.equal(a, b)


def test_learning_from_one_leaves_what_waits_elsewhere():
    (old, _), (new, _) = waiting_room(2), waiting_room(2)
    old.append(raw(1), ids(3))
    new.load_state_dict(old.state_dict())
    new.flush()
    assert len(old) == 1 and len(new) == 0
