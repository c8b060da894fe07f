"""The digits come with earl and are those that scikit-learn distributes."""

from collections import Counter
from pathlib import Path

import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from children import Children
from earl.data.sets import digits


def test_the_digits_are_those_that_scikit_learn_loads() -> None:
    ink, labels = digits.read()
    theirs = load_digits()
    assert torch.equal(ink.double(), torch.from_numpy(theirs.images))
    assert torch.equal(labels, torch.from_numpy(theirs.target))


WITHOUT = """
import sys
for name in [*sys.modules, "sklearn"]:
    if name.split(".")[0] == "sklearn":
        sys.modules[name] = None
sys.modules.pop("earl.data.sets.digits", None)
import earl.data.sets.digits as digits
print(len(digits.load().train))
try:
    import sklearn
except ImportError:
    print("without")
"""


def test_scikit_learn_is_not_needed_for_them(children: Children, tmp_path: Path) -> None:
    done = children.run("-c", WITHOUT, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "1200\nwithout\n"), done.stderr


def test_every_digit_is_in_the_training_set_or_in_the_test_set_and_none_in_both() -> None:
    """The 1 797 digits are all different, so pictures tell which of them a set holds."""
    theirs = load_digits().images
    assert len({image.tobytes() for image in theirs}) == len(theirs) == 1797
    data = digits.load()
    train, test = (
        [image.numpy().tobytes() for image in split.images] for split in (data.train, data.test)
    )
    assert len(set(train) & set(test)) == 0
    assert len(set(train)) == len(train) == 1200 and len(set(test)) == len(test) == 597
    assert Counter(data.train.labels.tolist()) == dict.fromkeys(range(10), 120)


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=60), count=st.integers(0, 20))
def test_a_split_takes_so_many_of_every_class_and_leaves_all_others(
    labels: list[int], count: int
) -> None:
    y = torch.tensor(labels)
    train, test = digits.split_per_class(y, count)
    assert sorted(train.tolist() + test.tolist()) == list(range(len(labels)))  # each index once
    taken = Counter(y[train].tolist())
    assert all(taken[c] == min(count, n) for c, n in Counter(labels).items())
