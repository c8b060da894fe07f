"""Metrics on histories worked out by hand, and histories that survive being written down."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.errors import DamagedRun, EarlError
from earl.evaluation.history import Evaluation, from_line, lines_of, read_history, to_line
from earl.evaluation.metrics import a_auc, a_auc_all, a_last, a_last_all, aoa, forgetting
from earl.experiments.measuring import OVER_ALL_BUCKETS, measured

METRICS = [a_auc, a_auc_all, a_last, a_last_all, aoa, forgetting]


def evaluation(step=1, task=0, online=(0, 1), **classes):
    """Return a record; c3=(1, 4) says that 1 of 4 test samples of class 3 is right."""
    right = {int(name[1:]): pair[0] for name, pair in classes.items()}
    total = {int(name[1:]): pair[1] for name, pair in classes.items()}
    return Evaluation(step, task, right, total, *online)


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


@settings(max_examples=50, deadline=None)
@given(right=st.integers(0, 10), steps=st.integers(1, 9))
def test_a_model_of_constant_accuracy_has_it_as_a_auc_and_a_last(right, steps):
    history = [
        evaluation(step + 1, **{f"c{c}": (right, 10) for c in range(step + 1)})
        for step in range(steps)
    ]
    assert a_auc(history) == pytest.approx(right / 10)
    assert a_last(history) == pytest.approx(right / 10)


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


def test_classes_that_were_never_right_are_not_forgotten():
    history = [
        evaluation(100, task=0, c0=(5, 10), c1=(0, 10)),
        evaluation(200, task=1, c0=(0, 10), c1=(0, 10)),
        evaluation(300, task=2, c0=(2, 10), c1=(9, 10)),
    ]
    assert forgetting(history) == pytest.approx(0.3)  # class 0 alone
    assert forgetting([evaluation(1, 0, c1=(0, 9)), evaluation(2, 1, c1=(0, 9))]) == 0


def test_with_a_single_checkpoint_nothing_is_forgotten():
    history = [evaluation(100, task=0, c0=(9, 10)), evaluation(200, task=0, c0=(1, 10))]
    assert forgetting(history) == 0
    assert forgetting(history[:1]) == 0


@settings(max_examples=50, deadline=None)
@given(right=st.lists(st.integers(0, 10), min_size=1, max_size=8))
def test_a_frozen_classifier_forgets_nothing(right):
    classes = {f"c{c}": (count, 10) for c, count in enumerate(right)}
    history = [
        evaluation(task + 1, task, **dict(list(classes.items())[: task + 1]))
        for task in range(len(right))
    ]
    assert forgetting(history) == 0


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


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_an_empty_history_has_no_metrics(metric):
    with pytest.raises(EarlError, match="no evaluation"):
        metric([])


# ---- history

COUNTS = st.dictionaries(st.integers(0, 2000), st.integers(0, 10**6), max_size=5)
EVALUATIONS = st.builds(
    Evaluation,
    step=st.integers(0, 10**9),
    task=st.integers(0, 100),
    correct=COUNTS,
    total=COUNTS,
    online_correct=st.integers(0, 10**9),
    online_total=st.integers(0, 10**9),
    extra=st.dictionaries(
        st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False), max_size=3
    ),
)


@settings(max_examples=150, deadline=None)
@given(record=EVALUATIONS)
def test_a_record_survives_being_written_as_one_line(record):
    line = to_line(record)
    assert line.endswith("\n") and len(line.splitlines()) == 1
    assert from_line(line) == record


@st.composite
def histories(draw):
    """Return the evaluations of a run: all that is counted only grows, as it does in runs."""
    records, step, task, online, total = [], 0, 0, 0, {}
    for _ in range(draw(st.integers(0, 6))):
        samples = draw(st.integers(1, 1000))
        step, task = step + samples, task + draw(st.integers(0, 2))
        online += draw(st.integers(0, samples))
        total = total | draw(st.dictionaries(st.integers(0, 2000), st.integers(1, 99), max_size=3))
        total = {c: max(n, records[-1].total.get(c, 0) if records else 0) for c, n in total.items()}
        correct = {c: draw(st.integers(0, n)) for c, n in total.items()}
        records.append(Evaluation(step, task, correct, total, online, step))
    return records


@settings(max_examples=40, deadline=None)
@given(records=histories())
def test_a_history_survives_being_written_line_by_line(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("history") / "history.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(to_line(record))
    assert path.read_text(encoding="utf-8") == lines_of(records)
    assert read_history(path) == records


def test_class_ids_come_back_as_integers():
    record = from_line(to_line(evaluation(c0=(1, 2), c17=(3, 4))))
    assert record.correct == {0: 1, 17: 3} and record.total == {0: 2, 17: 4}
    assert all(type(c) is int for c in (*record.correct, *record.total))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_json_cannot_say_is_not_written(value):
    with pytest.raises(ValueError):
        to_line(Evaluation(1, 0, {}, {}, 0, 1, {"NC1": value}))


def test_a_file_that_does_not_exist_or_is_empty_holds_no_records(tmp_path):
    path = tmp_path / "history.jsonl"
    assert read_history(path) == []
    path.touch()
    assert read_history(path) == []


def test_a_line_torn_at_any_byte_is_not_a_record(tmp_path):
    path = tmp_path / "history.jsonl"
    records = [evaluation(1, c0=(1, 2)), evaluation(2, online=(1, 2), c0=(2, 2))]
    text = lines_of(records).encode()
    start = len(to_line(records[0]).encode())
    for end in range(start, len(text)):
        path.write_bytes(text[:end])
        assert read_history(path) == records[:1]
    path.write_bytes(text)
    assert read_history(path) == records


GOOD = to_line(evaluation(c0=(1, 2))).encode()
FIELDS = json.loads(GOOD)


@pytest.mark.parametrize(
    "damage",
    [
        b"\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b"3\n",
        b"not json\n",
        GOOD[: len(GOOD) // 2] + b"\n",
        json.dumps({**FIELDS, "correct": None}).encode() + b"\n",
        json.dumps({**FIELDS, "correct": {"cat": 1}}).encode() + b"\n",
        json.dumps({**FIELDS, "unheard-of": 1}).encode() + b"\n",
        json.dumps({k: v for k, v in FIELDS.items() if k != "step"}).encode() + b"\n",
        b"\xff\xfe\x00\n",
        b"\x00" * 40 + b"\n",
    ],
    ids=lambda damage: repr(damage)[:24],
)
def test_a_damaged_line_is_an_error_that_names_it(damage, tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_bytes(GOOD + damage + GOOD)
    with pytest.raises(EarlError, match=r"history\.jsonl.* line 2 "):
        read_history(path)


FIRST = {"step": 20, "task": 1, "correct": {"0": 3, "7": 1}, "total": {"0": 5, "7": 5}}
FIRST |= {"online_correct": 9, "online_total": 20, "extra": {"flops": 5.0, "map": [[1, 2.5]]}}
SECOND = FIRST | {"step": 40, "online_correct": 19, "online_total": 40}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": 20, "online_total": 20}, "step 20 of task 1 comes after step 20"),
        ({"step": 19, "online_total": 19}, "step 19 of task 1 comes after step 20"),
        ({"task": 0}, "step 40 of task 0 comes after step 20 of task 1"),
        ({"correct": {"0": 6, "7": 1}}, "more answers are right than questions"),
        ({"correct": {"0": 3}}, "not of the same classes"),
        ({"correct": {"0": 3}, "total": {"0": 5}}, "a class that was seen"),
        ({"total": {"0": 4, "7": 5}}, "a question about it, is gone"),
        ({"online_total": 41}, "19 of 41 samples were right after 40"),
        ({"online_correct": 41}, "41 of 40 samples were right after 40"),
        ({"online_correct": 8}, "8 samples were right, 9 at step 20"),
        ({"online_correct": 30}, "30 samples were right, 9 at step 20"),
        ({"online_correct": 19.0}, "not a whole number"),
        ({"correct": {"0": -3, "7": 1}}, "not a whole number"),
        ({"step": True, "online_total": 1}, "not a whole number"),
        ({"extra": {"flops": "5"}}, "a cost or a probe is not a number"),
        ({"extra": {"map": [[None]]}}, "a cost or a probe is not a number"),
    ],
    ids=str,
)
def test_what_cannot_follow_in_a_history_is_an_error_that_names_the_line(change, message, tmp_path):
    path = tmp_path / "history.jsonl"
    lines = [json.dumps(fields) + "\n" for fields in (FIRST, SECOND, SECOND | change)]
    path.write_text(lines[0] + lines[1])
    assert len(read_history(path)) == 2
    path.write_text(lines[0] + lines[2])
    with pytest.raises(DamagedRun, match=rf"history\.jsonl, line 2 cannot be: .*{message}"):
        read_history(path)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_not_a_number_is_not_read_as_one(value, tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps(FIRST).replace("5.0", value) + "\n")
    with pytest.raises(DamagedRun, match="line 1 "):
        read_history(path)
