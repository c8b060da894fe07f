"""Labels: whatever has a hash, in the order of arrival, for ever under the same number."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.errors import InvalidInput
from earl.estimator.labels import LabelMap, as_array, check_label, check_labels, decode, encode
from earl.storage.state import digest
from estimators import LABELS, TEST, TRAIN, of_images, taught

PLAIN = (
    st.text(max_size=5) | st.integers() | st.binary(max_size=3) | st.floats(allow_nan=False)
).filter(lambda c: not (isinstance(c, float) and math.isinf(c)))
LABEL = st.recursive(PLAIN, lambda inner: st.tuples(inner, inner), max_leaves=4)


@given(st.lists(LABEL))
def test_numbers_are_first_places_and_never_change(labels: list[Any]) -> None:
    known = LabelMap()
    for end in range(len(labels) + 1):
        foretold = known.preview(labels[:end])
        known.add(labels[:end])
        order = list(dict.fromkeys(labels[:end]))
        assert list(known) == order
        assert foretold == [order.index(label) for label in labels[:end]]


@given(st.lists(LABEL))
def test_a_stored_map_comes_back_with_the_same_types(labels: list[Any]) -> None:
    known, again = LabelMap(), LabelMap()
    known.add(labels)
    again.load_state_dict(known.state_dict())
    assert list(map(repr, again)) == list(map(repr, known))
    assert all(repr(decode(encode(label))) == repr(label) for label in labels)


@pytest.mark.parametrize(
    "label",
    [
        *(None, float("nan"), float("inf"), ["a"], {"a": 1}, {1}, np.zeros(2), torch.zeros(2)),
        *(np.float64("nan"), torch.tensor(math.nan), ("a", None), ("a", (1, float("nan")))),
        *(np.datetime64("NaT"), np.array(3)),
    ],
)
def test_what_is_missing_or_has_no_hash_is_no_label(label: Any) -> None:
    with pytest.raises(InvalidInput):
        check_label(label)


def test_scalars_of_numpy_and_torch_are_those_of_python() -> None:
    for given_one, plain in ((np.int64(3), 3), (np.str_("a"), "a"), (torch.tensor(True), True)):
        label = check_label(given_one)
        assert label == plain and type(label) is type(plain)


@pytest.mark.parametrize("y", [None, "abc", {"a": 1}, 3, np.zeros((2, 1)), ["a", "b", "c"]])
def test_labels_of_samples_are_one_each(y: Any) -> None:
    with pytest.raises(InvalidInput):
        check_labels(y, 2)


def test_arrays_keep_what_labels_are() -> None:
    assert as_array(["a", "bb"]).dtype.kind == "U" and as_array([1, 2]).dtype == np.int64
    for mixed in (["a", 1], [(1, 2), (3, 4)], [1, True], [2**70, 1], [b"a\0", b"b"]):
        array = as_array(mixed)
        assert array.dtype == object and array.shape == (2,) and array.tolist() == mixed


def test_a_label_that_only_code_could_restore_is_learned_and_not_saved(tmp_path: Any) -> None:
    clf = of_images()
    clf.learn_one(TRAIN[0], frozenset({1}))
    assert clf.predict_one(TRAIN[0]) == frozenset({1})
    with pytest.raises(InvalidInput, match="cannot be saved: a frozenset"):
        clf.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@settings(max_examples=12)
@given(st.lists(LABEL, min_size=4, max_size=4, unique=True))
def test_renamed_labels_give_renamed_answers_and_nothing_else(names: list[Any]) -> None:
    rename = dict(zip(sorted(set(LABELS)), names, strict=True))
    plain, renamed = taught(12), of_images()
    renamed.learn_many(TRAIN[:12], [rename[label] for label in LABELS[:12]], keys=range(12))
    states = [clf._model.state_dict() for clf in (plain, renamed)]  # type: ignore[union-attr]
    for state in states:
        del state["labels"]
    assert digest(states[0]) == digest(states[1])
    answers = plain.predict(TEST).tolist()
    assert renamed.predict(TEST).tolist() == [rename[answer] for answer in answers]
    one = plain.predict_proba_one(TEST[0])
    assert renamed.predict_proba_one(TEST[0]) == {rename[c]: p for c, p in one.items()}
