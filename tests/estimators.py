"""Small estimators for tests: four separable classes of 8-pixel images, and blobs of vectors."""

import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from earl import EARLClassifier
from earl.crashtest.small import NETWORK, TRAINING, of_images, of_vectors  # noqa: F401
from earl.data.sets import shapes
from earl.estimator.parameters import must_be_told
from earl.experiments.catalogue import METHODS
from kin import every_method

TOLD = [name for name in METHODS.names() if must_be_told(name)]
FREE = every_method(but=TOLD)  # that know no tasks; for `parametrize`
DATA = shapes.load()
ORDER = torch.randperm(len(DATA.train), generator=torch.Generator().manual_seed(0))
TRAIN: NDArray[np.uint8] = DATA.train.images[ORDER].permute(0, 2, 3, 1).numpy()  # (N, H, W, C)
LABELS = [f"class {c}" for c in DATA.train.labels[ORDER].tolist()]
TEST: NDArray[np.uint8] = DATA.test.images[torch.arange(80)].permute(0, 2, 3, 1).numpy()
TEST_LABELS = [f"class {c}" for c in DATA.test.labels[:80].tolist()]


def blobs(n: int, classes: int = 3, length: int = 5) -> tuple[NDArray[np.float64], list[int]]:
    """Return n vectors around as many centres as there are classes, and their labels."""
    generator = np.random.default_rng(0)
    centres = 3 * generator.normal(size=(classes, length))
    labels = generator.integers(classes, size=n)
    return centres[labels] + generator.normal(size=(n, length)), labels.tolist()


def taught(n: int = 60, **given: Any) -> EARLClassifier:
    """Return a small estimator that has learned n images, each under its number as a key."""
    if any(not isinstance(value, str | int | float) for value in given.values()):
        return learned(n, **given)
    return copy.deepcopy(learned_once(n, **given))


def learned(n: int, **given: Any) -> EARLClassifier:
    clf = of_images(**given)
    clf.learn_many(TRAIN[:n], LABELS[:n], keys=range(n))
    return clf


def goes_on(clf: EARLClassifier, path: Path, n: int, more: int, **given: Any) -> EARLClassifier:
    """Save a model that has learned n images; return it loaded, after both have learned more."""
    clf.save(path)
    again = EARLClassifier.load(path, **given)
    assert again.digest() == clf.digest()
    for each in (clf, again):
        each.learn_many(TRAIN[n : n + more], LABELS[n : n + more])
    assert again.digest() == clf.digest()
    return again


learned_once = cache(learned)  # by many tests
