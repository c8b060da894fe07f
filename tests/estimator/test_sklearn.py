"""scikit-learn's own checks of its conventions, and its tools around our estimator."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from earl import EARLClassifier
from earl.errors import UnknownName
from estimators import LABELS, TRAIN, blobs, of_images, of_vectors

CHECKED = EARLClassifier(
    backbone=None,
    memory_size=60,
    device="cpu",
    threads=1,
    settings={"d": 31, "hidden": 32, "lr": 3e-3},
)
FIRST_SEEN = "classes_ stands in the order of first appearance, not sorted: it only ever grows"
ROUNDING = "float32 products of batches of other sizes differ in their last bits, by some 1e-7"
DECLINED = {
    "check_classifiers_classes": FIRST_SEEN,
    "check_classifiers_train": FIRST_SEEN + "; the next test asks the same with classes_",
    "check_classifiers_regression_target": "numbers are labels like any other, also broken ones",
    "check_supervised_y_2d": "a row of labels could be a tuple, which is a label: it is refused",
    "check_methods_sample_order_invariance": ROUNDING,
    "check_methods_subset_invariance": ROUNDING,
}


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it inherits nothing: scikit-learn need not be installed
    every_check = parametrize_with_checks([CHECKED])


@every_check
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    name = check.func.__name__
    if name in DECLINED:
        pytest.skip(DECLINED[name])
    check(estimator)


def test_what_the_declined_checks_ask_holds_with_our_order_of_classes() -> None:
    X, y = make_blobs(n_samples=300, random_state=0)  # theirs
    X = StandardScaler().fit_transform(X)
    names = np.array(["one", "two", "three"])[y]
    clf = clone(CHECKED).fit(X, names)
    assert clf.score(X, names) > 0.83
    shares = clf.predict_proba(X)
    assert clf.classes_[shares.argmax(axis=1)].tolist() == clf.predict(X).tolist()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(clf.predict_proba(X[order]), shares[order], atol=1e-5)


def test_it_works_in_a_pipeline_and_in_cross_validation() -> None:
    X, y = blobs(90)
    pipeline = make_pipeline(StandardScaler(), clone(CHECKED))
    assert pipeline.fit(X, y).score(X, y) > 0.8
    assert (cross_val_score(pipeline, X, y, cv=2) > 0.7).all()


def test_a_clone_has_the_parameters_and_has_learned_nothing() -> None:
    clf = of_images(memory_size=7)
    clf.learn_one(TRAIN[0], LABELS[0])
    other = clone(clf)
    assert other.get_params() == clf.get_params() and other.predict_one(TRAIN[0]) is None
    assert is_classifier(other)
    with pytest.raises(NotFittedError):
        of_vectors().predict([[1.0]])
    with pytest.raises(UnknownName, match="did you mean 'memory_size'"):
        clf.set_params(memorysize=3)
