"""Statistics against scipy and numpy, and where these have no answer."""

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


def test_one_value_has_a_mean_and_no_deviation():
    assert spread([78.31]).mean == 78.31
    assert spread([78.31]).std is None


def test_no_values_have_no_mean():
    with pytest.raises(EarlError, match="no values"):
        spread([])


@given(values=st.lists(NUMBERS, min_size=2, max_size=20))
def test_the_spread_is_numpys(values):
    found = spread(values)
    assert found.n == len(values)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert found.std == pytest.approx(np.std(values, ddof=1), abs=1e-9)


@given(value=NUMBERS, n=st.integers(2, 30))
def test_equal_values_do_not_deviate(value, n):
    assert spread([value] * n).std == 0


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
    assert found.n == len(pairs)
    assert found.mean == pytest.approx(np.mean(differences), abs=1e-9)
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
