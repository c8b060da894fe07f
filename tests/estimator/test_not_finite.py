"""Steps of an estimator that are not finite; and input that never comes so far."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from earl import EARLClassifier
from earl.errors import InvalidInput, NoProgress
from earl.estimator.samples import teach
from earl.storage.snapshot import read_newest, write_snapshot
from estimators import LABELS, TEST, TRAIN, blobs, of_vectors, taught


@contextmanager
def spoiling(clf: EARLClassifier) -> Iterator[None]:
    """Have infinite gradients of all weights."""
    assert clf._model is not None and clf._model.learner is not None
    parts = clf._model.learner.parts().values()
    networks = [part for part in parts if isinstance(part, nn.Module)]
    weights = [p for network in networks for p in network.parameters() if p.requires_grad]
    hooks = [p.register_hook(lambda g: g * torch.inf) for p in weights]
    yield
    for hook in hooks:
        hook.remove()


def test_skipped_steps_are_told_saved_and_counted_on(tmp_path: Path) -> None:
    clf = taught(12)
    assert clf.history.skipped_steps == clf.describe()["skipped_steps"] == 0
    with spoiling(clf):
        for image, label in zip(TRAIN[12:15], LABELS[12:15], strict=True):
            clf.learn_one(image, label)
    clf.save(tmp_path)
    clf = EARLClassifier.load(tmp_path)
    assert clf.history.samples == 15
    assert clf.history.skipped_steps == clf.describe()["skipped_steps"] == 3
    clf.learn_one(TRAIN[15], LABELS[15])
    assert clf.history.skipped_steps == 3


def test_a_model_that_was_saved_before_steps_were_counted_is_loaded(tmp_path: Path) -> None:
    clf = taught(12)
    clf.save(tmp_path)
    found = read_newest(tmp_path)
    assert found is not None
    for name in ("skipped_steps", "in_a_row"):
        del found.state["model"]["learner"]["work"][name]
    write_snapshot(tmp_path, found.step + 1, found.state, about=found.about)
    old = EARLClassifier.load(tmp_path)
    assert old.history.skipped_steps == 0 and old.digest() == clf.digest()


def test_where_no_step_is_taken_the_model_stays_answers_and_can_be_saved(tmp_path: Path) -> None:
    clf = taught(12)
    weights = clf.predict_proba(TEST[:8])
    with spoiling(clf), pytest.raises(NoProgress, match="choose a smaller lr"):
        for image, label in zip(TRAIN[12:], LABELS[12:], strict=False):
            before, known = clf.digest(), list(clf.classes_)
            clf.learn_one(image, label)
    assert clf.digest() == before
    with pytest.raises(NoProgress):
        clf.learn_one(TRAIN[0], "another class")
    with pytest.raises(NoProgress):
        clf.relabel(3, "another class")
    assert clf.digest() == before and list(clf.classes_) == known
    assert clf.predict_proba(TEST[:8]).shape == weights.shape
    clf.save(tmp_path)
    clf = EARLClassifier.load(tmp_path)
    clf.learn_one(TRAIN[0], LABELS[0])  # it may try again
    assert clf.history.skipped_steps >= 10


def test_a_batch_in_which_learning_ends_leaves_no_label_that_was_not_learned() -> None:
    clf = taught(12)
    labels = [f"new {n}" for n in range(40)]
    with spoiling(clf), pytest.raises(NoProgress):
        clf.learn_many(TRAIN[12:52], labels)
    assert clf._model is not None
    assert clf.history.samples == 12 + 10
    assert len(clf.classes_) == len(clf._model.taught())


def test_teaching_saves_where_no_step_is_taken(tmp_path: Path) -> None:
    files = []
    for n in range(30):
        files.append((tmp_path / f"{n}.png", LABELS[n]))
        Image.fromarray(TRAIN[n]).save(files[-1][0])
    clf = taught(12)
    clf.save(tmp_path / "model")
    with spoiling(clf), pytest.raises(NoProgress):
        list(teach(clf, files, tmp_path / "model", seconds=10**6))
    assert EARLClassifier.load(tmp_path / "model").history.samples == clf.history.samples == 22


BAD = (np.nan, np.inf, -np.inf, -1e-3, 1.001, 255.0, -1.0)


def spoilt_inputs(n: int) -> Iterator[Any]:
    """Yield images with one number that is none, or out of range."""
    generator = np.random.default_rng(0)
    for _ in range(n):
        image = generator.random((8, 8, 3))
        image[tuple(generator.integers(image.shape))] = BAD[generator.integers(len(BAD))]
        kinds = (image, image.astype(np.float32), torch.from_numpy(image), {"image": image})
        yield kinds[generator.integers(len(kinds))]


def refusals(clf: EARLClassifier, inputs: Iterator[Any]) -> int:
    """Return how many inputs were refused, to learn and to answer, with nothing changed."""
    before, refused = clf.digest(), 0
    for x in inputs:
        for use in (lambda x=x: clf.learn_one(x, "class 0"), lambda x=x: clf.predict_one(x)):
            try:
                use()
            except InvalidInput:
                refused += 1
    assert clf.digest() == before
    return refused


def test_a_thousand_of_a_thousand_images_that_are_none_are_refused() -> None:
    assert refusals(taught(12), spoilt_inputs(1000)) == 2000


def test_a_thousand_of_a_thousand_vectors_that_are_none_are_refused() -> None:
    X, y = blobs(12)
    clf = of_vectors()
    clf.learn_many(X, [f"class {label}" for label in y])
    generator = np.random.default_rng(0)
    bad = (np.nan, np.inf, -np.inf, 1e39, -1e300)

    def vectors() -> Iterator[Any]:
        for _ in range(1000):
            vector = generator.normal(size=5)
            vector[generator.integers(5)] = bad[generator.integers(len(bad))]
            yield vector if generator.random() < 0.5 else vector.tolist()

    assert refusals(clf, vectors()) == 2000
