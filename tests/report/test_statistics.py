"""Statistics against numbers worked out by hand, against scipy and numpy, and against chance."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from earl.errors import EarlError
from earl.report.statistics import paired_difference, spread

NUMBERS = st.floats(-1e3, 1e3, allow_nan=False)
PAIRS = st.dictionaries(st.integers(1, 50), st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=12)


def split(pairs):
    """Return ours and theirs by seed."""
    return {s: a for s, (a, _) in pairs.items()}, {s: b for s, (_, b) in pairs.items()}


def test_the_spread_of_eight_numbers():
    found = spread([2, 4, 4, 4, 5, 5, 7, 9])  # squared distances from 5 add up to 32
    assert found.mean == 5 and found.n == 8
    assert found.std == pytest.approx(math.sqrt(32 / 7))


def test_one_value_has_a_mean_and_no_deviation():
    assert spread([78.31]).mean == 78.31
    assert spread([78.31]).std is None


def test_no_values_have_no_mean():
    with pytest.raises(EarlError, match="no values"):
        spread([])


@given(values=st.lists(NUMBERS, min_size=2, max_size=20))
def test_the_spread_is_numpys(values):
    found = spread(values)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert found.std == pytest.approx(np.std(values, ddof=1), abs=1e-9)


@given(value=NUMBERS, n=st.integers(2, 30))
def test_equal_values_do_not_deviate(value, n):
    assert spread([value] * n).std == 0


def test_three_differences_by_hand():
    found = paired_difference({1: 11, 2: 22, 3: 33}, {1: 10, 2: 20, 3: 30})
    # 1, 2, 3: their deviation is 1, and t of 2 degrees of freedom is 4.302653 (any printed table)
    assert found.mean == 2 and found.n == 3
    assert found.high - 2 == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert 2 - found.low == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)


def test_only_common_seeds_count():
    found = paired_difference({1: 5.0, 2: 100.0, 3: 7.0}, {1: 1.0, 3: 1.0, 4: -100.0})
    assert found.n == 2 and found.mean == 5


def test_one_common_seed_gives_a_difference_without_an_interval():
    found = paired_difference({1: 5.0}, {1: 2.0, 2: 9.0})
    assert (found.mean, found.low, found.high, found.n) == (3.0, None, None, 1)


def test_without_a_common_seed_there_is_no_difference():
    assert paired_difference({1: 5.0}, {2: 2.0}) is None


def test_equal_differences_have_an_interval_of_no_width():
    found = paired_difference({1: 3.0, 2: 4.0}, {1: 1.0, 2: 2.0})
    assert found.low == found.mean == found.high == 2


@given(pairs=PAIRS)
def test_the_interval_is_scipys(pairs):
    ours, theirs = split(pairs)
    differences = [a - b for a, b in pairs.values()]
    found = paired_difference(ours, theirs)
    if np.std(differences) < 1e-6:  # scipy warns of a division by almost nothing
        assert found.high - found.low < 1e-3
        return
    low, high = stats.ttest_rel(list(ours.values()), list(theirs.values())).confidence_interval()
    assert found.low == pytest.approx(low, abs=1e-6)
    assert found.high == pytest.approx(high, abs=1e-6)


@given(pairs=PAIRS, order=st.randoms(use_true_random=False))
def test_the_order_of_seeds_does_not_matter(pairs, order):
    shuffled = list(pairs)
    order.shuffle(shuffled)
    again = split({seed: pairs[seed] for seed in shuffled})
    assert paired_difference(*again) == paired_difference(*split(pairs))


@given(pairs=PAIRS, shift=NUMBERS)
def test_what_both_gain_changes_nothing_and_what_we_gain_shifts_the_interval(pairs, shift):
    ours, theirs = split(pairs)
    found = paired_difference(ours, theirs)
    ours = {seed: value + shift for seed, value in ours.items()}
    shifted = paired_difference(ours, theirs)
    both = paired_difference(ours, {seed: value + shift for seed, value in theirs.items()})
    for name in ("mean", "low", "high"):
        assert getattr(both, name) == pytest.approx(getattr(found, name), abs=1e-6)
        assert getattr(shifted, name) == pytest.approx(getattr(found, name) + shift, abs=1e-6)


@given(pairs=PAIRS)
def test_the_other_way_round_the_interval_is_mirrored(pairs):
    ours, theirs = split(pairs)
    found, other = paired_difference(ours, theirs), paired_difference(theirs, ours)
    assert other.mean == -found.mean
    assert (other.low, other.high) == pytest.approx((-found.high, -found.low))


def test_the_interval_covers_the_truth_nineteen_times_in_twenty():
    draws = np.random.default_rng(0).normal(loc=3.0, scale=2.0, size=(4000, 3))
    zero = {1: 0.0, 2: 0.0, 3: 0.0}
    found = [paired_difference(dict(enumerate(row, start=1)), zero) for row in draws.tolist()]
    covered = np.mean([interval.low <= 3.0 <= interval.high for interval in found])
    assert abs(covered - 0.95) < 0.014  # four standard errors of 4 000 draws
