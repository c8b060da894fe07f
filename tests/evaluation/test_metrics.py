"""Metrics: what they say of histories whose numbers are known."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.errors import EarlError
from earl.evaluation.metrics import (
    a_auc,
    a_auc_all,
    a_last,
    a_last_all,
    a_new,
    aoa,
    forgetting,
    of_part,
)
from earl.experiments.measuring import OVER_ALL_BUCKETS, measured
from histories import evaluation

METRICS = [a_auc, a_auc_all, a_last, a_last_all, a_new, aoa, forgetting]


# ---- metrics


def test_accuracy_is_the_share_of_all_test_samples():
    assert evaluation(c0=(1, 2), c5=(6, 8)).accuracy == 7 / 10
    assert evaluation().accuracy == 0  # nothing was asked


def test_a_auc_is_the_mean_accuracy_over_all_evaluations():
    history = [
        evaluation(100, c0=(4, 4)),  # 1
        evaluation(200, c0=(2, 4), c1=(1, 4)),  # 3/8
        evaluation(300, c0=(0, 4), c1=(2, 4)),  # 1/4
    ]
    assert a_auc(history) == pytest.approx((1 + 3 / 8 + 1 / 4) / 3)
    assert a_auc(history[:1]) == 1


def test_over_all_time_buckets_it_is_the_mean_of_what_was_found_there():
    history = [evaluation(100, c0=(4, 4)), evaluation(200, c0=(2, 4), c1=(1, 4))]
    assert a_auc_all(history) == a_auc(history)  # no buckets: all samples of the classes were asked
    assert a_last_all(history) == a_last(history)
    found = [
        replace(e, extra={"accuracy_all_domains": share})
        for e, share in zip(history, (0.5, 0.125), strict=True)
    ]
    assert a_auc_all(found) == 0.3125 and a_last_all(found) == 0.125
    assert a_auc(found) == a_auc(history)
    assert measured(found).items() >= {"A_AUC_all": 0.3125, "A_last_all": 0.125}.items()
    assert {"A_AUC", "A_last", "AOA", "forgetting"} <= set(measured(history))
    assert set(OVER_ALL_BUCKETS) == set(measured(found)) - set(measured(history))


def test_a_last_is_the_accuracy_at_the_end():
    history = [evaluation(100, c0=(4, 4)), evaluation(200, c0=(1, 4), c1=(2, 4))]
    assert a_last(history) == 3 / 8


def test_aoa_is_the_share_of_the_stream_that_was_right_before_it_was_learned():
    history = [
        evaluation(100, online=(30, 100), c0=(1, 1)),
        evaluation(200, online=(90, 200), c0=(1, 1)),
    ]
    assert aoa(history) == 90 / 200


def test_forgetting_is_the_mean_drop_from_the_best_earlier_task():
    history = [
        evaluation(50, task=0, c0=(10, 10)),  # not the end of its task: no checkpoint
        evaluation(100, task=0, c0=(8, 10), c1=(6, 10)),
        evaluation(150, task=1, c0=(10, 10), c1=(10, 10), c2=(10, 10)),
        evaluation(200, task=1, c0=(5, 10), c1=(7, 10), c2=(9, 10)),
        evaluation(250, task=2, c0=(10, 10), c1=(10, 10), c2=(10, 10), c3=(10, 10)),
        evaluation(300, task=2, c0=(6, 10), c1=(9, 10), c2=(1, 10), c3=(10, 10)),
    ]
    # class 0: max(8, 5) - 6, class 1: max(6, 7) - 9, class 2: 9 - 1, class 3: not seen before
    assert forgetting(history) == pytest.approx((0.2 - 0.2 + 0.8) / 3)


def naive_forgetting(history):
    """Return mean over c with max_{j<J} a_jc > 0 of max_{j<J} a_jc - a_Jc."""
    tasks = sorted({e.task for e in history})
    ends = [[e for e in history if e.task == task][-1] for task in tasks]
    drops = []
    for c in ends[-1].total:
        earlier = [e.correct[c] / e.total[c] for e in ends[:-1] if c in e.total]
        if earlier and max(earlier) > 0:
            drops.append(max(earlier) - ends[-1].correct[c] / ends[-1].total[c])
    return sum(drops) / len(drops) if drops else 0.0


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 1), st.lists(st.integers(0, 4), min_size=1, max_size=4)),
        min_size=1,
        max_size=10,
    )
)
def test_forgetting_equals_its_definition(rows):
    history, task = [], 0
    for step, (ends, right) in enumerate(rows):
        history.append(
            evaluation(step, task, **{f"c{c}": (count, 4) for c, count in enumerate(right)})
        )
        task += ends
    assert forgetting(history) == pytest.approx(naive_forgetting(history))


def test_a_new_asks_about_the_classes_that_came_last_until_others_come():
    history = [
        evaluation(100, c0=(4, 4)),  # 1
        evaluation(200, c0=(0, 4), c7=(1, 4), c2=(3, 4)),  # of 7 and 2: 1/2
        evaluation(300, c0=(0, 4), c7=(4, 4), c2=(2, 4)),  # of 7 and 2: 3/4
        evaluation(400, c0=(4, 4), c7=(4, 4), c2=(4, 4), c1=(0, 4)),  # of 1: 0
    ]
    assert a_new(history) == pytest.approx((1 + 1 / 2 + 3 / 4 + 0) / 4)
    assert of_part(a_new, history, 2, 2) == pytest.approx((3 / 4 + 0) / 2)
    assert a_new([evaluation(100)]) == 0  # nothing was asked


@given(st.lists(st.integers(0, 8), min_size=1, max_size=24), st.data())
def test_the_parts_of_a_mean_are_means_of_their_own_evaluations(right, data):
    history = [evaluation(10 * i, c0=(found, 8)) for i, found in enumerate(right)]
    n = data.draw(st.integers(1, len(right)))
    parts = [of_part(a_auc, history, i, n) for i in range(1, n + 1)]
    cuts = [len(right) * i // n for i in range(n + 1)]
    for part, first, last in zip(parts, cuts, cuts[1:], strict=False):
        assert part == pytest.approx(sum(right[first:last]) / 8 / (last - first))


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_an_empty_history_has_no_metrics(metric):
    with pytest.raises(EarlError, match="no evaluation"):
        metric([])
