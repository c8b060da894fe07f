"""B1: numbers that are none do not get in, and a step that leads to them is undone."""

import math
import random
from typing import Any

import numpy as np

from earl.crashtest.harness import Found, Trial
from earl.crashtest.small import of_images, of_vectors, ready, stream
from earl.errors import ContractBroken, EarlError, NoProgress
from earl.estimator import EARLClassifier
from earl.experiments.contract.guards import finite
from earl.experiments.contract.steps import Spoiler
from earl.learning.learner import Learner
from earl.nn import steps

WORST = (math.nan, math.inf, -math.inf, 1e300, -1.0, 1.5, 255.0)
STEPS = 50  # of every 1,000 refusals, that are spoilt


def nonfinite(trial: Trial) -> Found:
    """Refuse bad samples, undo bad steps, stop after many; the sabotage takes every step."""
    ready()
    if trial.sabotage:
        steps.take_step = lambda loss, optimizer: bool([optimizer.step()])
    found = trial.found(inputs=trial.count, refused=0, spoilt=0, undone=0)
    refuse(trial, found)
    undo(trial, found)
    stop(found)
    return found


def refuse(trial: Trial, found: Found) -> None:
    """Give samples with numbers that are none, or out of range: nothing changes."""
    rng, samples = trial.rng, stream(16)
    images, vectors = of_images(), of_vectors()
    for i in range(8):
        images.learn_one(samples.images[i], samples.labels[i])
        vectors.learn_one(np.arange(5.0) * i, samples.labels[i])
    before = {id(clf): clf.digest() for clf in (images, vectors)}
    for _ in range(trial.count):
        clf = rng.choice([images, vectors])
        x = bad_image(rng) if clf is images else bad_vector(rng)
        try:
            clf.learn_one(x, rng.choice(samples.labels))
        except ValueError as refusal:
            found.figures["refused"] += isinstance(refusal, EarlError)
        if not found.expect(clf.digest() == before[id(clf)], f"{x.ravel()[:3]}… changed the state"):
            before[id(clf)] = clf.digest()
    refused = found.figures["refused"]
    found.expect(refused == trial.count, f"only {refused} of {trial.count} samples were refused")


def bad_image(rng: random.Random) -> Any:
    x = np.full((8, 8, 3), 0.5, rng.choice([np.float32, np.float64]))
    with np.errstate(over="ignore"):
        x[rng.randrange(8), rng.randrange(8), rng.randrange(3)] = rng.choice(WORST)
    return x


def bad_vector(rng: random.Random) -> Any:
    x = np.zeros(5)
    x[rng.randrange(5)] = rng.choice([math.nan, math.inf, -math.inf, 1e300])
    return x


def undo(trial: Trial, found: Found) -> None:
    """Spoil steps at random; each leaves weights, moments and statistics as they were."""
    rng, wanted = trial.rng, max(2, trial.count * STEPS // 1000)
    samples = stream(4 * wanted)
    for kind in ("loss", "gradient"):
        clf, spoiler = of_images(), Spoiler(kind)
        clf.learn_one(samples.images[0], samples.labels[0])
        learner = watched(clf, spoiler)
        spoilt = set(rng.sample(range(2, len(samples)), wanted // 2))
        for i in range(1, len(samples)):
            if i in spoilt:
                with spoiler.spoiling(learner):
                    clf.learn_one(samples.images[i], samples.labels[i])
                note_undone(spoiler, learner, found)
            else:
                clf.learn_one(samples.images[i], samples.labels[i])
        skipped = clf.history.skipped_steps
        found.expect(skipped > 0, f"{skipped} steps are counted as skipped")
        found.expect(finite(learner), f"{kind}: the state holds numbers that are none")
        answers = clf.predict_proba(samples.probes)
        found.expect(bool(np.isfinite(answers).all()), f"{kind}: answers that are none")


def watched(clf: EARLClassifier, spoiler: Spoiler) -> Learner:
    """Let a spoiler stand where processes that train together would."""
    assert clf._model is not None and clf._model.learner is not None
    object.__setattr__(clf._model.learner.setting, "ranks", spoiler)
    return clf._model.learner


def note_undone(spoiler: Spoiler, learner: Learner, found: Found) -> None:
    found.figures["spoilt"] += 1
    try:
        spoiler.compare(learner)
        found.figures["undone"] += 1
    except ContractBroken as broken:
        found.expect(False, str(broken))


def stop(found: Found) -> None:
    """Spoil every step: after ten in a row learning stops, and answers go on."""
    samples, spoiler, stopped = stream(40), Spoiler("gradient"), 0
    clf = of_images()
    for i in range(8):
        clf.learn_one(samples.images[i], samples.labels[i])
    learner = watched(clf, spoiler)
    with spoiler.spoiling(learner):
        for i in range(8, 40):
            try:
                clf.learn_one(samples.images[i], samples.labels[i])
            except NoProgress:
                stopped = i - 8
                break
    found.figures["stopped_after"] = stopped
    found.expect(stopped == 10, f"learning went on for {stopped or 32} spoilt samples")
    found.expect(clf.predict_one(samples.probes[0]) is not None, "it cannot answer any more")
