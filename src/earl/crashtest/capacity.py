"""B3: where classes have a bound, one more is refused and nothing changes; else there is none."""

import torch

from earl.crashtest.harness import Found, Trial
from earl.crashtest.small import Samples, of_images, ready, stream
from earl.errors import ClassCapacityError
from earl.estimator import EARLClassifier
from earl.learning.classes import Classes
from earl.methods.earl.negatives import NEGATIVES
from earl.methods.earl.preparatory import PreparatoryData
from earl.randomness import Randomness

D, LABELS = 8, 30  # dimensions of a frame of 9 vectors, and labels of the stream
BOUNDS = (  # what bounds the classes, and how many there may be
    ("growth=False", {"settings": {"d": D, "growth": False}}, D + 1),
    ("growth", {"settings": {"d": D}}, LABELS),
)


def capacity(trial: Trial) -> Found:
    """Teach more labels than there is room for; the sabotage looks at no room."""
    ready()
    if trial.sabotage:
        Classes.check = lambda classes, y: None  # type: ignore[method-assign]
        from earl.estimator.model import Model

        Model.check_room = lambda model, labels, learner: None  # type: ignore[method-assign]
    found = trial.found(labels=0, learned=0, refused=0, arrivals=0)
    samples = stream(4 * LABELS)
    for name, given, bound in BOUNDS:
        teach(name, of_images(**given), bound, samples, found)
    arrive(trial, found)
    return found


def teach(name: str, clf: EARLClassifier, bound: int, samples: Samples, found: Found) -> None:
    """Teach every label twice; those beyond the bound are refused and change nothing."""
    for i in range(2 * LABELS):
        label, before = f"label {i % LABELS}", clf.digest()
        found.figures["labels"] += i < LABELS
        try:
            clf.learn_one(samples.images[i], label)
        except ClassCapacityError as refusal:
            found.figures["refused"] += i < LABELS
            found.expect(i % LABELS >= bound, f"{name}: {label} was refused")
            found.expect(str(bound) in str(refusal), f"{name}: {refusal} does not say {bound}")
            found.expect(
                clf.digest() == before, f"{name}: {label} was refused and changed the state"
            )
        else:
            found.figures["learned"] += i < LABELS
            found.expect(i % LABELS < bound, f"{name}: {label} is one more than {bound}")
    known = {f"label {c}" for c in range(bound)}
    answers = set(clf.predict(samples.probes).tolist())
    found.expect(answers <= known, f"{name}: it answers {answers - known}")
    found.expect(len(clf.classes_) == bound, f"{name}: {len(clf.classes_)} classes, not {bound}")


def arrive(trial: Trial, found: Found) -> None:
    """Let classes arrive in frames of any size: no preparatory vector is a seen class's."""
    rng = trial.rng
    while found.figures["arrivals"] < trial.count:
        K = rng.randint(2, 60)
        prepare = PreparatoryData(K, NEGATIVES["rotation"], Randomness(rng.randrange(10**6)))
        seen = 0
        while seen < K and found.figures["arrivals"] < trial.count:
            seen = min(K, seen + rng.randint(1, 4))
            prepare.assign(seen)
            found.figures["arrivals"] += 1
            note_targets(prepare, seen, K, found)


def note_targets(prepare: PreparatoryData, seen: int, K: int, found: Found) -> None:
    targets = prepare.m.flatten()
    case = f"{seen} classes of {K} vectors"
    found.expect(prepare.active == (seen < K), f"{case}: preparing although no vector is left")
    if seen < K:
        apart = bool((targets >= seen).all()) and bool((targets < K).all())
        found.expect(apart, f"{case}: a preparatory target is the vector of a class")
    if 4 * seen <= K:
        found.expect(len(torch.unique(targets)) == len(targets), f"{case}: a target stands twice")
