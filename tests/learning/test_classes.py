"""Classes are numbered in the order of their first appearance, and never again."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from earl.errors import ClassCapacityError, EarlError
from earl.learning.classes import Classes
from plain_setting import ids

IDS = st.lists(st.integers(0, 50), min_size=1, max_size=12)


# ---- classes


@settings(max_examples=100, deadline=None)
@given(batches=st.lists(IDS, max_size=8))
def test_classes_are_numbered_in_the_order_of_their_first_appearance(batches):
    classes, seen = Classes(), []
    for batch in batches:
        seen += [c for c in dict.fromkeys(batch) if c not in seen]
        numbers = classes.index(ids(*batch))
        assert numbers.dtype == torch.int64
        assert numbers.tolist() == [seen.index(c) for c in batch]
        assert len(classes) == len(seen)
        assert classes.ids(torch.arange(len(seen))).tolist() == seen  # nothing is renumbered
        assert torch.equal(classes.numbers(ids(*batch)), numbers)
        assert classes.ids(numbers).tolist() == batch


def test_numbers_of_known_classes_add_none():
    classes = Classes()
    classes.index(ids(9, 4))
    assert classes.numbers(ids(4, 4, 9)).tolist() == [1, 1, 0]
    with pytest.raises(KeyError):
        classes.numbers(ids(4, 5))
    assert len(classes) == 2


@pytest.mark.parametrize(
    ("batch", "culprit"), [([5, 6], 6), ([7, 1, 8, 8, 9], 8), ([1, 2, 5, 1, 6, 5], 6)]
)
def test_one_class_too_many_is_refused_and_changes_nothing(batch, culprit):
    classes = Classes(capacity=3)
    classes.index(ids(1, 2))
    with pytest.raises(ClassCapacityError, match=rf"class {culprit} .* 3 ") as error:
        classes.check(ids(*batch))
    assert "d" in str(error.value) and isinstance(error.value, EarlError)
    assert len(classes) == 2 and classes.ids(torch.arange(2)).tolist() == [1, 2]


def test_the_last_free_place_can_be_taken_and_known_classes_always_come():
    classes = Classes(capacity=3)
    classes.check(ids(1, 2, 1, 3))
    assert len(classes) == 0  # checking adds nothing
    classes.index(ids(1, 2, 3))
    classes.check(ids(3, 1, 2, 2))
    with pytest.raises(ClassCapacityError):
        classes.check(ids(3, 4))


def test_without_a_capacity_there_is_always_room():
    classes = Classes()
    classes.check(torch.arange(5000))


@settings(max_examples=40, deadline=None)
@given(before=st.lists(st.integers(0, 50), max_size=12), after=IDS)
def test_loaded_classes_continue_identically(before, after):
    old, new = Classes(), Classes()
    if before:
        old.index(ids(*before))
    new.load_state_dict(old.state_dict())
    assert torch.equal(old.index(ids(*after)), new.index(ids(*after)))
    assert len(old) == len(new)
