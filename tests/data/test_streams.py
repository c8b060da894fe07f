"""The disjoint and the Gaussian stream and their laws; what all setups promise: test_setups."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.data.setups import disjoint, gaussian
from earl.data.streams import Schedule, Stream
from earl.errors import InvalidSetting
from splits import balanced, split_of

SEEDS = range(1, 7)


CIFAR10, CIFAR100 = balanced(10, 5000), balanced(100, 500)


# ---- what both streams are


@pytest.mark.parametrize("setup", [disjoint, gaussian])
def test_every_class_may_come_first(setup):
    split = balanced(4, 3)
    first = {int(split.labels[setup(split, seed=seed, tasks=4).order[0]]) for seed in range(60)}
    assert first == {0, 1, 2, 3}


# ---- disjoint


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.sampled_from([0, 1, 4, 5, 17]), min_size=1, max_size=60),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_tasks_have_classes_of_their_own(labels, seed, data):
    split = split_of(labels)
    tasks = data.draw(st.integers(1, len(set(labels))))
    schedule = disjoint(split, seed=seed, tasks=tasks)
    ends = [0, *schedule.boundaries, len(labels)]
    arrived = split.labels[schedule.order].tolist()
    groups = [set(arrived[a:b]) for a, b in itertools.pairwise(ends)]
    assert len(groups) == tasks and all(groups)
    assert sum(len(group) for group in groups) == len(set(labels))  # no class in two of them
    sizes = [len(group) for group in groups]
    assert max(sizes) - min(sizes) <= 1
    assert not schedule.artificial


def test_disjoint_tasks_of_cifar10_are_five_pairs_of_10000_samples():
    schedule = disjoint(CIFAR10, seed=1)
    assert schedule.boundaries == (10_000, 20_000, 30_000, 40_000)
    for part in CIFAR10.labels[schedule.order].split(10_000):
        assert part.unique(return_counts=True)[1].tolist() == [5000, 5000]


def test_samples_are_shuffled_inside_a_disjoint_task():
    order = disjoint(CIFAR10, seed=2).order
    first = CIFAR10.labels[order][:10_000]
    counts = np.array([int((part == first[0]).sum()) for part in first.split(100)])
    assert abs(counts - 50).max() < 25  # half of every hundred, five s.d.
    assert (order[:10_000].diff() > 0).float().mean() == pytest.approx(0.5, abs=0.03)


def test_more_tasks_than_classes_are_refused():
    with pytest.raises(InvalidSetting, match="from 1 to 10"):
        disjoint(balanced(10, 5), seed=1, tasks=11)


# ---- Gaussian


def arrival_times(split, schedule, classes, sigma=0.1):
    """Return each class's times of arrival, recovered from ranks by inverting the mixture's law."""
    grid = np.linspace(-0.6, 1.6, 4001)
    mu = np.arange(classes) / classes
    z = torch.from_numpy((grid[:, None] - mu) / (sigma * math.sqrt(2)))
    law = ((1 + torch.erf(z)) / 2).mean(dim=1).numpy()  # P(time <= grid)
    ranks = (np.arange(len(split)) + 0.5) / len(split)
    times = np.interp(ranks, law, grid)
    arrived = split.labels[schedule.order].numpy()
    return [times[arrived == c] for c in range(classes)]


@pytest.mark.parametrize(
    ("split", "classes", "tolerance"), [(CIFAR10, 10, 0.006), (CIFAR100, 100, 0.018)]
)
def test_gaussian_times_have_the_mean_and_spread_of_their_class(split, classes, tolerance):
    # s.e. of a mean is 0.1 / sqrt(samples): 0.0014 and 0.0045
    times = arrival_times(split, gaussian(split, seed=3), classes)
    means = sorted(float(t.mean()) for t in times)
    np.testing.assert_allclose(means, np.arange(classes) / classes, atol=tolerance)
    spreads = [float(t.std()) for t in times]
    np.testing.assert_allclose(spreads, 0.1, atol=tolerance)


def test_the_order_of_the_classes_in_time_is_drawn():
    orders = set()
    for seed in SEEDS:
        times = arrival_times(CIFAR10, gaussian(CIFAR10, seed=seed), 10)
        orders.add(tuple(np.argsort([t.mean() for t in times])))
    assert len(orders) == len(SEEDS)


def seen_counts(split, seed):
    """Return the classes seen after 100 samples, 10, 25, 50 %, and when the last one appears."""
    arrived = split.labels[gaussian(split, seed=seed).order].numpy()
    T = len(arrived)
    first = np.unique(arrived, return_index=True)[1]
    return [int((first < t).sum()) for t in (100, T // 10, T // 4, T // 2)], first.max() / T


def test_classes_of_cifar10_appear_as_published():
    counts, last = zip(*(seen_counts(CIFAR10, seed) for seed in SEEDS), strict=True)
    start, tenth, quarter, half = np.mean(counts, axis=0)
    assert 2 <= start <= 3
    assert tenth == pytest.approx(5, abs=1)
    assert 6 <= quarter <= 7
    assert half == pytest.approx(9, abs=0.5)
    assert np.mean(last) == pytest.approx(0.6, abs=0.07)


def test_100_classes_appear_as_published():
    counts, last = zip(*(seen_counts(CIFAR100, seed) for seed in SEEDS), strict=True)
    start, tenth, quarter, half = np.mean(counts, axis=0)
    assert start == pytest.approx(15, abs=2)
    assert tenth == pytest.approx(40, abs=2)
    assert quarter == pytest.approx(56, abs=2)
    assert half == pytest.approx(81, abs=2)
    assert np.mean(last) == pytest.approx(0.75, abs=0.07)


@pytest.mark.parametrize("sigma", [0.0, 1e-6])
def test_without_spread_the_classes_come_one_after_the_other(sigma):
    split = balanced(5, 8)
    arrived = split.labels[gaussian(split, seed=1, sigma=sigma).order]
    assert all(len(part.unique()) == 1 for part in arrived.split(8))


def test_with_a_wide_spread_the_classes_come_mixed():
    arrived = CIFAR10.labels[gaussian(CIFAR10, seed=1, sigma=1000.0).order]
    assert all(abs(part.bincount() - 500).max() < 120 for part in arrived.split(5000))


def test_gaussian_boundaries_are_artificial_and_at_the_disjoint_places():
    schedule = gaussian(CIFAR10, seed=1)
    assert schedule.artificial
    assert schedule.boundaries == disjoint(CIFAR10, seed=1).boundaries
    assert gaussian(balanced(10, 5), seed=1, tasks=1).boundaries == ()


def test_artificial_boundaries_do_not_change_the_order():
    split = balanced(10, 5)
    orders = [gaussian(split, seed=1, tasks=tasks).order for tasks in (1, 4, 7)]
    assert all(torch.equal(order, orders[0]) for order in orders)
    ends = [0, *gaussian(split, seed=1, tasks=7).boundaries, 50]
    assert set(np.diff(ends)) <= {7, 8}


@pytest.mark.parametrize("sigma", [-0.1, math.nan, math.inf])
def test_an_impossible_spread_is_refused(sigma):
    with pytest.raises(InvalidSetting, match="sigma"):
        gaussian(balanced(10, 5), seed=1, sigma=sigma)


# ---- schedule and stream


@settings(max_examples=50, deadline=None)
@given(ends=st.sets(st.integers(1, 29)).map(sorted))
def test_the_task_of_a_step_is_the_number_of_boundaries_before_it(ends):
    schedule = Schedule(torch.arange(30), boundaries=tuple(ends))
    task = 0
    for step in range(1, 31):
        assert schedule.task(step) == task
        task += step in ends  # announced after this step
    assert Schedule(torch.arange(3)).task(3) == 0


def pixels(samples):
    return [int(x) for x, _ in samples]


def test_a_stream_yields_raw_samples_one_by_one():
    split = split_of([3, 1, 3, 1, 2])
    stream = Stream(split, Schedule(torch.tensor([4, 0, 3, 1])))
    assert len(stream) == 4
    samples = list(stream)
    assert pixels(samples) == [4, 0, 3, 1]
    assert [int(y) for _, y in samples] == [2, 3, 1, 1]
    for x, y in samples:
        assert x.shape == (1, 1, 1, 1) and x.dtype == torch.uint8
        assert y.shape == (1,) and y.dtype == torch.int64
    assert pixels(stream) == [4, 0, 3, 1]  # again from the start


@pytest.mark.parametrize("step", range(6))
def test_a_stream_goes_on_after_any_step(step):
    order = [4, 0, 3, 1, 2]
    stream = Stream(split_of([0] * 5), Schedule(torch.tensor(order)))
    assert pixels(stream.since(step)) == order[step:]


def test_an_empty_stream_yields_nothing():
    stream = Stream(split_of([0] * 5), Schedule(torch.empty(0, dtype=torch.int64)))
    assert len(stream) == 0 and list(stream) == []
