"""The digits are scikit-learn's, though it is not imported to read them."""

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


def test_scikit_learn_is_not_imported_for_them() -> None:
    script = "import sys, earl.datasets.digits as d; d.load(); print('sklearn' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
