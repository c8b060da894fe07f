"""Setups beyond disjoint and gaussian: what each promises about who arrives when."""

import math
from collections import Counter
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from earl.data.setups import clear, disjoint, gaussian, iblurry, iid, longtail, periodic_gaussian
from earl.data.streams import classes_seen
from earl.errors import InvalidSetting
from earl.experiments.catalogue import STREAMS
from splits import balanced, split_of

SETUPS = [entry.name for entry in STREAMS]
DROP = {"longtail", "clear"}  # by definition


def bucketed(classes, buckets, each):
    """Every class in every bucket, the same number of times, in no particular order."""
    pairs = torch.cartesian_prod(torch.arange(classes), torch.arange(buckets))
    pairs = pairs.repeat_interleave(each, dim=0)
    pairs = pairs[torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))]
    return split_of(pairs[:, 0], pairs[:, 1])


def parts(schedule, values):
    """Return the values of the samples of every task."""
    ends = (0, *schedule.boundaries, len(schedule.order))
    arriving = values[schedule.order]
    return [arriving[a:b] for a, b in pairwise(ends)]


# ---- all setups


@pytest.mark.parametrize("name", SETUPS)
@given(
    labels=st.lists(st.sampled_from([0, 1, 4, 5, 17]), min_size=1, max_size=60),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_every_sample_arrives_at_most_once(name, labels, seed, data):
    buckets = data.draw(st.lists(st.integers(0, 3), min_size=len(labels), max_size=len(labels)))
    most = len(set(labels))
    options = {} if name == "clear" else {"tasks": data.draw(st.integers(1, most))}
    if name == "iblurry":
        options |= {
            "disjoint": data.draw(st.integers(0, 100)),
            "blur": data.draw(st.integers(0, 100)),
        }
    schedule = STREAMS[name](split_of(labels, buckets), seed=seed, **options)
    order, ends = schedule.order.tolist(), schedule.boundaries
    assert len(set(order)) == len(order) and set(order) <= set(range(len(labels)))
    assert name in DROP or len(order) == len(labels)
    assert list(ends) == sorted(set(ends)) and all(0 < end < len(order) for end in ends)
    if name != "clear":
        assert {labels[i] for i in order} == set(labels)
    if name in ("disjoint", "gaussian"):
        assert len(ends) == options["tasks"] - 1


@pytest.mark.parametrize("name", SETUPS)
def test_the_order_depends_on_the_seed_alone(name):
    split, setup = bucketed(6, 3, 10), STREAMS[name]
    before = torch.get_rng_state()
    one, same = setup(split, seed=1), setup(split, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.order, same.order) and one.boundaries == same.boundaries
    assert len({tuple(setup(split, seed=seed).order.tolist()) for seed in range(8)}) == 8


@pytest.mark.parametrize("name", [name for name in SETUPS if name != "clear"])
@pytest.mark.parametrize("tasks", [0, -1, 1000])
def test_an_impossible_number_of_tasks_is_refused(name, tasks):
    with pytest.raises(InvalidSetting, match=f"tasks = {tasks} must be from 1 to"):
        STREAMS[name](balanced(4, 5), seed=1, tasks=tasks)


@pytest.mark.parametrize(
    ("setup", "options", "said"),
    [
        (iblurry, {"disjoint": 101}, "disjoint = 101 must be a percentage"),
        (iblurry, {"blur": -1}, "blur = -1 must be a percentage"),
        (longtail, {"imbalance": 0.5}, "imbalance = 0.5 must be a finite number from 1 up"),
        (longtail, {"imbalance": math.inf}, "imbalance = inf"),
        (longtail, {"sigma": -1.0}, "sigma = -1.0"),
        (periodic_gaussian, {"periods": 0}, "periods = 0 must be at least 1"),
        (periodic_gaussian, {"sigma": math.nan}, "sigma = nan"),
        (clear, {}, "clear-10 and clear-100 have them"),
    ],
)
def test_impossible_options_are_refused(setup, options, said):
    with pytest.raises(InvalidSetting, match=said):
        setup(balanced(4, 5), seed=1, **options)


# ---- classes seen


@given(labels=st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_classes_seen_counts_the_distinct_classes_so_far(labels):
    seen = classes_seen(torch.tensor(labels))
    assert seen.tolist() == [len(set(labels[: step + 1])) for step in range(len(labels))]


@pytest.mark.parametrize(
    ("split", "figures"),
    [  # share of the stream -> classes seen, simulated independently
        (balanced(10, 5000), {0.1: (4, 6), 0.25: (6, 7.5), 0.5: (8.2, 9.5), 0.62: (9.5, 10)}),
        (balanced(100, 500), {0.1: (37, 43), 0.25: (52, 60), 0.5: (77, 85), 0.77: (99, 100)}),
    ],
    ids=["10 classes", "100 classes"],
)
def test_the_gaussian_stream_shows_classes_as_fast_as_it_should(split, figures):
    curves = [classes_seen(split.labels[gaussian(split, seed=s).order]).double() for s in range(8)]
    mean = torch.stack(curves).mean(dim=0)
    for share, (low, high) in figures.items():
        assert low <= mean[round(share * len(mean)) - 1] <= high


# ---- periodic Gaussian


def test_one_period_is_the_gaussian_stream():
    split = balanced(7, 30)
    one, plain = periodic_gaussian(split, seed=3, periods=1), gaussian(split, seed=3)
    assert torch.equal(one.order, plain.order) and one.boundaries == plain.boundaries


def test_classes_come_back_in_every_period_with_new_samples():
    split = balanced(5, 400)
    schedule = periodic_gaussian(split, seed=1, sigma=1e-6, periods=4)
    y = split.labels[schedule.order]
    starts = [0, *((y.diff() != 0).nonzero().flatten() + 1).tolist(), len(y)]
    runs = [int(y[start]) for start in starts[:-1]]
    assert runs == runs[:5] * 4 and len(set(runs[:5])) == 5
    lengths = torch.tensor(starts).diff()
    assert (lengths - 100).abs().max() < 40  # 400 samples choose among 4 periods
    assert len(schedule.order) == len(split) and schedule.artificial


# ---- i-Blurry


def test_iblurry_deals_out_exactly_the_published_shares():
    split = balanced(10, 5000)  # i-Blurry-50-10 on CIFAR-10
    schedule = iblurry(split, seed=1)
    counts = [Counter(part.tolist()) for part in parts(schedule, split.labels)]
    assert [sum(c.values()) for c in counts] == [10_000] * 5
    assert [sorted(c.values()) for c in counts] == [[125, 125, 125, 125, 4500, 5000]] * 5
    assert schedule.boundaries == (10_000, 20_000, 30_000, 40_000) and not schedule.artificial
    whole = [c for c in range(10) if max(count[c] for count in counts) == 5000]
    assert len(whole) == 5 and all(sum(c in count for count in counts) == 1 for c in whole)


def test_iblurry_with_all_classes_disjoint_has_nothing_in_two_tasks():
    split = balanced(10, 40)
    groups = [set(p.tolist()) for p in parts(iblurry(split, seed=1, disjoint=100), split.labels)]
    assert sum(map(len, groups)) == 10 and set().union(*groups) == set(range(10))
    reference = parts(disjoint(split, seed=1), split.labels)
    assert [len(group) for group in groups] == [len(part.unique()) for part in reference]


def test_iblurry_without_disjoint_classes_shows_all_of_them_in_every_task():
    split = balanced(10, 200)
    schedule = iblurry(split, seed=1, disjoint=0, blur=20)
    assert all(len(part.unique()) == 10 for part in parts(schedule, split.labels))


@pytest.mark.parametrize("classes", [5, 6, 7, 9])
def test_iblurry_leaves_no_task_without_a_class_of_its_own(classes):
    split = balanced(classes, 20)
    for part in parts(iblurry(split, seed=1), split.labels):
        assert max(Counter(part.tolist()).values()) >= 18


# ---- long tail


@pytest.mark.parametrize("imbalance", [1.0, 10.0, 100.0])
def test_longtail_sizes_follow_the_exponential_profile(imbalance):
    split = balanced(10, 500)
    schedule = longtail(split, seed=1, imbalance=imbalance)
    sizes = sorted(Counter(split.labels[schedule.order].tolist()).values(), reverse=True)
    assert sizes == [max(1, round(500 * imbalance ** (-j / 9))) for j in range(10)]
    assert len(schedule.order) == sum(sizes) and schedule.artificial


def test_longtail_is_the_gaussian_stream_with_gaps():
    split = balanced(10, 100)
    thin, whole = longtail(split, seed=2).order.tolist(), gaussian(split, seed=2).order.tolist()
    kept = set(thin)
    assert thin == [index for index in whole if index in kept]
    assert torch.equal(longtail(split, seed=2, imbalance=1.0).order, gaussian(split, seed=2).order)


def test_a_class_that_is_rare_already_is_not_asked_for_more_than_it_has():
    split = split_of([0] * 100 + [1] * 2 + [2] * 100)
    counts = Counter(split.labels[longtail(split, seed=1, imbalance=2.0).order].tolist())
    assert counts[1] <= 2 and sorted(counts)[0] == 0


# ---- CLEAR


def test_clear10_has_the_boundaries_of_the_benchmark():
    split = bucketed(10, 10, 300)
    schedule = clear(split, seed=1)
    assert schedule.boundaries == (300, 900, 1800, 3000, 4500, 6300, 8400, 10_800, 13_500)
    assert len(schedule.order) == 16_500 and not schedule.artificial


def test_clear100_reaches_all_classes_in_the_tenth_of_eleven_buckets():
    split = bucketed(100, 11, 9)
    schedule = clear(split, seed=1)
    assert schedule.boundaries == tuple(45 * t * (t + 1) for t in range(1, 11))
    assert [len(p.unique()) for p in parts(schedule, split.labels)] == [
        *range(10, 101, 10),
        100,
    ]


def test_clear_keeps_time_and_never_takes_a_class_away():
    split = bucketed(7, 5, 11)
    schedule = clear(split, seed=3)
    buckets = parts(schedule, split.domains)
    assert [part.unique().tolist() for part in buckets] == [[0], [1], [2], [3], [4]]
    groups = [set(part.tolist()) for part in parts(schedule, split.labels)]
    assert all(a <= b for a, b in pairwise(groups))
    assert len(groups[-1]) == 7  # two new classes per bucket
    for group, part in zip(groups, buckets, strict=True):
        assert len(part) == 11 * len(group)
    labels = split.labels[schedule.order]
    assert not torch.equal(labels[:22], labels[:22].sort().values)  # shuffled inside


def test_clear_lets_as_many_classes_join_as_it_is_told():
    split = bucketed(8, 3, 5)
    groups = parts(clear(split, seed=1, new_classes=2), split.labels)
    assert [len(part.unique()) for part in groups] == [2, 4, 6]
    with pytest.raises(InvalidSetting, match="new_classes = 9 must be from 0 to 8"):
        clear(split, seed=1, new_classes=9)


def test_a_bucket_without_any_class_that_has_joined_leaves_no_boundary():
    split = split_of([0, 0, 1, 1], [0, 0, 1, 1])
    for seed in range(4):
        schedule = clear(split, seed=seed)
        assert all(0 < end < len(schedule.order) for end in schedule.boundaries)


def test_an_iid_stream_is_a_uniform_shuffle():
    split = balanced(10, 500)
    y = split.labels[iid(split, seed=1).order]
    for stretch in y.split(1000):
        assert (stretch.bincount(minlength=10) - 100).abs().max() < 45
