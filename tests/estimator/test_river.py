"""river's own checks of its conventions, and its evaluation around our estimator."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of river's own imports
    from river import base, checks, compose, evaluate, metrics, preprocessing

from earl import EARLClassifier
from estimators import LABELS, TRAIN, blobs, of_images, of_vectors


class Checked(EARLClassifier, base.Classifier):
    """EARLClassifier, with what river's checks ask of the estimators that are its own."""

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {
            "backbone": None,
            "memory_size": 30,
            "steps_per_sample": 0.02,
            "device": "cpu",
            "threads": 1,
            "settings": {"d": 15, "hidden": 16, "batch_size": 8},
        }


MODEL = Checked(**next(Checked._unit_test_params()))
DECLINED: dict[str, str] = {}  # none


def all_checks() -> list[Any]:
    """Return every check as a parameter; on the second and third data set it is slow."""
    seen: set[str] = set()
    found = []
    for check in checks.yield_checks(MODEL):
        name = check.__name__
        again = name in seen or name == "check_bounded_memory_growth"
        seen.add(name)
        found.append(pytest.param(check, id=name, marks=[pytest.mark.slow] if again else []))
    return found


@pytest.mark.parametrize("check", all_checks())
def test_rivers_checks(check: Any) -> None:
    assert check.__name__ not in DECLINED
    check(MODEL.clone())


def test_progressive_validation_takes_images_and_agrees_with_our_history() -> None:
    clf, metric = of_images(), metrics.Accuracy()
    evaluate.progressive_val_score(zip(TRAIN[:40], LABELS[:40], strict=True), clf, metric)
    right = clf.history.accuracy * 40
    assert metric.get() == pytest.approx(right / 39)  # river leaves the first answer, None, out


def test_it_ends_a_pipeline_of_rivers() -> None:
    rows, labels = blobs(40)
    stream = [
        ({f"x{i}": v for i, v in enumerate(row)}, y) for row, y in zip(rows, labels, strict=True)
    ]
    model = compose.Pipeline(preprocessing.StandardScaler(), of_vectors())
    metric = evaluate.progressive_val_score(stream, model, metrics.Accuracy())
    assert metric.get() > 0.5
    assert isinstance(of_vectors(), base.Classifier)
