"""The digits come with earl and are those that scikit-learn distributes."""

import subprocess
import sys

import torch
from sklearn.datasets import load_digits

from earl.datasets import digits


def test_the_digits_are_those_that_scikit_learn_loads() -> None:
    ink, labels = digits.read()
    theirs = load_digits()
    assert torch.equal(ink.double(), torch.from_numpy(theirs.images))
    assert torch.equal(labels, torch.from_numpy(theirs.target))


def test_scikit_learn_is_not_needed_for_them() -> None:
    script = "import sys; sys.modules['sklearn'] = None; import earl.datasets.digits as d; d.load()"
    subprocess.run([sys.executable, "-c", script], check=True)
