"""A history comes back as it was written, and damage to it is named."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.errors import DamagedRun, EarlError
from earl.evaluation.history import Evaluation, from_line, lines_of, read_history, to_line
from histories import evaluation

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
