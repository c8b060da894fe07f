"""B5 and B6: questions change nothing, and neither hashes nor saves are part of what is learned."""

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from earl.crashtest.harness import Found, Trial
from earl.crashtest.small import of_images, ready, stream
from earl.estimator import EARLClassifier
from earl.estimator.model import Model
from earl.randomness import Randomness

STEPS_PER_QUESTION = 0.3


def questions(trial: Trial) -> Found:
    """Ask at random between steps; the sabotage lets a question use up a step's randomness."""
    ready()
    if trial.sabotage:
        careless_questions()
    rng, steps = trial.rng, max(3, int(trial.count * STEPS_PER_QUESTION))
    samples = stream(steps)
    asked, plain = of_images(), of_images()
    found, answers = trial.found(questions=0, steps=steps, identical=0), {}
    for i in range(steps):
        for _ in range(rng.randint(0, round(2 / STEPS_PER_QUESTION))):
            place = rng.randrange(len(samples.probes))
            answer = ask(asked, samples.probes[place], rng)
            found.figures["questions"] += 1
            known = answers.setdefault((asked.history.samples, place, answer[0]), answer)
            found.expect(known == answer, f"after {i} samples: {known}, then {answer}")
        for clf in (asked, plain):
            clf.learn_one(samples.images[i], samples.labels[i])
    same = asked.digest() == plain.digest()
    found.figures["identical"] = int(same)
    found.expect(same, "who was asked has learned something else")
    return found


def ask(clf: EARLClassifier, x: Any, rng: random.Random) -> tuple[str, Any]:
    """Ask one question of a random kind; return the kind and the answer."""
    kind = rng.choice(["one", "shares", "unknown"] if clf.history.samples else ["one"])
    if kind == "one":
        return kind, clf.predict_one(x)
    if kind == "shares":
        return kind, tuple(clf.predict_proba_one(x).values())
    return kind, float(clf.unknown_score([x])[0])


def careless_questions() -> None:
    """The sabotage: a question trains a little, as a network left in training mode would."""
    scores = Model.scores

    def careless(self: Model, x: Any) -> Any:
        assert self.learner is not None
        self.learner.work.updates += 1
        return scores(self, x)

    Model.scores = careless  # type: ignore[method-assign]


VARIATIONS = [  # the hash seed of Python, samples between two saves (0: none), whether it is asked
    ("0", 0, False),
    ("1", 7, True),
    ("random", 1, False),
    ("random", 7, True),
    ("0", 1, True),
    ("1", 0, False),
]
SAMPLES = 120


def determinism(trial: Trial) -> Found:
    """Learn the same in new processes that differ; the sabotage draws by Python's hashes."""
    found, digests = trial.found(), set()
    variations = VARIATIONS[: trial.count]
    for number, (hashes, every, asks) in enumerate(variations):
        order = {"path": str(trial.place / f"{number}"), "every": every, "asks": asks}
        order |= {"sabotage": trial.sabotage, "samples": SAMPLES}
        code = f"from earl.crashtest.purity import child; child({json.dumps(order)!r})"
        environment = os.environ | {"PYTHONHASHSEED": hashes, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        found.expect(done.returncode == 0, f"{order}: {done.stderr[-200:]}")
        digests.add(done.stdout.strip())
    found.figures = {"processes": len(variations), "digests": len(digests)}
    found.expect(len(digests) == 1, f"{len(digests)} different states")
    return found


def child(text: str) -> None:
    """Learn as one of the variations says, and print the digest of what was learned."""
    order = json.loads(text)
    if order["sabotage"]:
        draw_by_hashes()
    samples, clf = stream(order["samples"]), of_images()
    for i in range(order["samples"]):
        if order["asks"]:
            clf.predict_one(samples.probes[i % len(samples.probes)])
        clf.learn_one(samples.images[i], samples.labels[i])
        if order["every"] and (i + 1) % order["every"] == 0:
            clf.save(Path(order["path"]))
    answers = clf.predict_proba(samples.probes).tobytes()
    sys.stdout.write(f"{clf.digest()} {hashlib.sha256(answers).hexdigest()}\n")


def draw_by_hashes() -> None:
    """The sabotage: seed the generators with what Python says is the hash of their purpose."""
    at = Randomness.at

    def hashed(self: Randomness, step: int, purpose: str) -> Any:
        return at(self, step + hash(purpose) % 1000, purpose)

    Randomness.at = hashed  # type: ignore[method-assign]
