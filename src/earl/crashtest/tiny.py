"""B4: next to nothing learned, and still an answer of each convention, finite and without error."""

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from earl.crashtest.harness import Found, Trial
from earl.crashtest.sabotage import put
from earl.crashtest.small import of_images, of_vectors, ready, stream
from earl.errors import NotFitted
from earl.estimator import EARLClassifier
from earl.estimator.parameters import IMAGES_ONLY, must_be_told
from earl.experiments.catalogue import METHODS
from earl.nn import finite

LENGTHS = (0, 1, 2, 3, 8)  # of streams
MEMORIES = (1, 2, 20)


def tiny_states(trial: Trial) -> Found:
    """Ask estimators that have learned next to nothing; the sabotage poisons their scores."""
    ready()
    if trial.sabotage:
        poison()
    found = trial.found(states=0, answers=0, exceptions=0, methods=0)
    cases = list(all_cases())
    if trial.count < len(cases):
        cases = random.Random(trial.seed).sample(cases, trial.count)
    found.figures["methods"] = len({method for method, *_ in cases})
    for case in cases:
        found.figures["states"] += 1
        try:
            found.figures["answers"] += examined(*case, found)
        except Exception as error:
            found.figures["exceptions"] += 1
            found.expect(False, f"{case}: {type(error).__name__}: {str(error)[:100]}")
    return found


def all_cases() -> Iterator[tuple[str, str, int, int, int]]:
    """Yield method, kind of samples, memory, length of the stream and number of classes."""
    for method in METHODS.names():
        if must_be_told(method):
            continue
        for kind in ("images", "vectors"):
            if kind == "images" or method not in IMAGES_ONLY:
                for memory, length, classes in product(MEMORIES, LENGTHS, (1, 2, 4)):
                    yield method, kind, memory, length, classes


def examined(method: str, kind: str, memory: int, length: int, classes: int, found: Found) -> int:
    """Learn so much, ask, and note what is no answer; return how many answers there were."""
    clf, X = made(method, kind, memory)
    case = f"{method}, {kind}, memory {memory}, {length} samples, {classes} classes"
    for i in range(length):
        clf.learn_one(X[i], f"class {min(i, classes - 1)}")  # all but the last are seen once
    if not length:
        found.expect(clf.predict_one(X[0]) is None, f"{case}: an answer before the first sample")
        found.expect(clf.predict_proba_one(X[0]) == {}, f"{case}: probabilities of nothing")
        try:
            clf.predict(X[:1])
        except NotFitted:
            return 3
        found.expect(False, f"{case}: `predict` answers before the first sample")
        return 2
    taught = {f"class {min(i, classes - 1)}" for i in range(length)}
    answers = set(clf.predict(X).tolist()) | {clf.predict_one(X[0])}
    found.expect(answers <= taught, f"{case}: it answers {answers - taught}")
    shares = clf.predict_proba(X)
    whole = bool(np.isfinite(shares).all()) and bool(np.allclose(shares.sum(axis=1), 1))
    found.expect(whole, f"{case}: probabilities that are none")
    strange = clf.unknown_score(X)
    found.expect(bool(np.isfinite(strange).all()), f"{case}: unknown scores that are none")
    return 3 * len(X) + 1


def made(method: str, kind: str, memory: int) -> tuple[EARLClassifier, Any]:
    """Return an estimator that has learned nothing, and samples for it."""
    if kind == "images":
        return of_images(method, memory_size=memory), stream(16).images
    X = np.random.default_rng(0).normal(size=(16, 5))
    return of_vectors(method, memory_size=memory), X


def poison() -> None:
    """The sabotage: let nothing look whether scores are finite, and make them NaN."""
    from earl.estimator import model

    scores = model.Model.scores

    def poisoned(self: Any, x: Any) -> Any:
        return scores(self, x) * float("nan")

    put(model.Model, "scores", poisoned)
    for module in (model, finite):
        put(module, "most_likely", lambda scores: scores.argmax(dim=1))
