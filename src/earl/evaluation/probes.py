"""Probes: what can be measured on a learner at an evaluation, beyond what it gets right.

A probe changes nothing in the learner and draws nothing at random. Classes are named by the number
they have in order of first arrival, as the paper does: class i owns w_i. Some probes return lists
for a figure; they keep few samples of few classes, for every list becomes part of the history.
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F

from earl.data.dataset import Images, Split, batches
from earl.errors import EarlError
from earl.evaluation.history import Reading
from earl.evaluation.loop import ProbeInput
from earl.learning import Learner, ask
from earl.learning.encoded import Encoded
from earl.nn import Classifier
from earl.nn.collapse import nc1, nc2, nc3

MOST_PER_CLASS = 100  # test images per class that a probe looks at
MOST_COMING = 200  # samples that arrive next which a probe looks at
MOST_TRAINING = 200  # training images per class whose error is measured
MOST_SHOWN = 50  # test images per class whose features or cosines are kept
FIRST_CLASSES = 4  # classes whose features are kept
MOST_CLASSES = 10  # classes that can be the newest one whose cosines are kept
MOST_DIMENSIONS = 30  # of features that are kept
LONGEST = 10_000  # samples after a class's arrival for which lists are kept


@runtime_checkable
class Embeds(Protocol):
    """A learner that says what its features (B, d) and the vectors of its classes (n, d) are."""

    def features(self, x: Tensor) -> Tensor: ...
    def vectors(self) -> Tensor: ...


@runtime_checkable
class Corrects(Protocol):
    """A learner that moves its features (B, d) before it compares them with the vectors."""

    def corrected(self, f_hat: Tensor) -> Tensor: ...


@runtime_checkable
class CorrectsInWays(Protocol):
    """A learner that could correct its features (B, d) in several ways; it names each of them."""

    def corrected_in_every_way(self, f_hat: Tensor) -> dict[str, Tensor]: ...


@dataclass(frozen=True)
class OfClassifier:
    """The features and vectors of a learner that answers with one `Classifier`.

    They are the features of its backbone and the rows of its head for the seen classes.
    """

    learner: Learner
    network: Classifier

    def features(self, x: Tensor) -> Tensor:
        return ask(self.network.backbone, self.learner.setting, x)

    def vectors(self) -> Tensor:
        return self.network.head.weight[: len(self.learner.classes)].detach()


@dataclass(frozen=True)
class Behind:
    """The features and vectors of a learner behind a frozen backbone."""

    front: Encoded
    inner: Embeds

    def features(self, x: Tensor) -> Tensor:
        return self.inner.features(self.front.encode(x))

    def vectors(self) -> Tensor:
        return self.inner.vectors()


def collapse(given: ProbeInput) -> dict[str, Reading]:
    """Return NC1, NC2 and NC3 on test samples of the seen classes, where they are defined."""
    learner, numbers = embedding(given, "collapse"), numbers_asked(given)
    held = numbers.unique()
    if len(held) < 2:
        return {}  # one class has no geometry
    keep = torch.cat([first_of(c, numbers, MOST_PER_CLASS) for c in held.tolist()])
    h = features_of(learner, given.test.images, given.asked[keep])
    labels, W = torch.searchsorted(held, numbers[keep]), learner.vectors().cpu()[held]
    found = {"NC1": nc1(h, labels), "NC2": nc2(h, labels), "NC3": nc3(h, labels, W)}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def training_error(given: ProbeInput) -> dict[str, Reading]:
    """Return the share of wrong answers on the first 200 images of each class that arrived.

    The images are seen as in a test: raw, without augmentation, by the learner as it is now.
    """
    labels = given.train.labels[given.seen]
    keep = torch.cat([first_of(c, labels, MOST_TRAINING) for c in labels.unique().tolist()])
    parts = given.seen[keep].split(500)
    answers = [given.learner.predict(x) for x in batches(given.train.images, parts)]
    wrong = torch.cat(answers) != labels[keep]
    return {"training_error": digits(float(wrong.double().mean()))}


def bias(given: ProbeInput) -> dict[str, Reading]:
    """Return how near the features of the newest class are to the vectors of older ones.

    It is the mean over test samples of the newest class of max over old classes c of the cosine of
    f(x), before any correction, with w_c.
    """
    learner, newest = embedding(given, "bias"), len(given.learner.classes) - 1
    shown = given.asked[first_of(newest, numbers_asked(given), MOST_PER_CLASS)]
    if newest < 1 or not len(shown):
        return {}  # there is no older class, or no test image of this one
    f_hat = F.normalize(features_of(learner, given.test.images, shown), dim=1)
    W = F.normalize(learner.vectors().cpu(), dim=1)
    nearest = (f_hat @ W[:newest].T).amax(dim=1)
    return {"bias": digits(float(nearest.mean()))}


def cosines(given: ProbeInput) -> dict[str, Reading]:
    """Return the cosines of single test samples with the vectors of all seen classes.

    Kept are those of the first class and, of the first ten, the newest one, until 10 000 samples
    after its arrival: `cosines` (classes, samples, seen classes), with the `cosine_classes` and
    their `cosine_ages`, the samples that have arrived since their first.
    """
    embedding(given, "cosines")
    numbers = numbers_asked(given)
    kept: list[list[list[float]]] = []
    classes, ages = [], []
    for c in sorted({0, len(given.learner.classes) - 1}):
        shown, since = first_of(c, numbers, MOST_SHOWN), age(given, c)
        if len(shown) and c < MOST_CLASSES and since <= LONGEST:
            kept.append(rows(class_cosines(given, given.asked[shown])))
            classes.append(c)
            ages.append(since)
    if not kept:
        return {}
    return {"cosines": kept, "cosine_classes": classes, "cosine_ages": ages}


def features(given: ProbeInput) -> dict[str, Reading]:
    """Return features of test samples of the first four classes, before any correction.

    Centred, and reduced by principal components to at most 30 numbers each: `features` (samples,
    30), with the `feature_classes` (samples) and `feature_age`, the samples that have arrived since
    the first one of the newest of these classes. Kept until 10 000 of them.
    """
    learner, numbers = embedding(given, "features"), numbers_asked(given)
    held = [c for c in numbers.unique().tolist() if c < FIRST_CLASSES]
    if len(held) < 2 or age(given, held[-1]) > LONGEST:
        return {}
    keep = torch.cat([first_of(c, numbers, MOST_SHOWN) for c in held])
    h = features_of(learner, given.test.images, given.asked[keep]).double()
    U, S, _ = torch.linalg.svd(h - h.mean(dim=0), full_matrices=False)
    return {
        "features": rows((U * S)[:, :MOST_DIMENSIONS]),
        "feature_classes": numbers[keep].tolist(),
        "feature_age": age(given, held[-1]),
    }


def rotations(given: ProbeInput) -> dict[str, Reading]:
    """Return the accuracy on the test images as they are, and turned by 90, 180 and 270 degrees."""
    found: dict[str, Reading] = {}
    labels, parts = given.test.labels[given.asked], given.asked.split(500)
    for quarters in range(4):
        turned = (x.rot90(quarters, (2, 3)) for x in batches(given.test.images, parts))
        answers = torch.cat([given.learner.predict(x) for x in turned])
        found[f"accuracy_turned_{90 * quarters}"] = digits(
            float((answers == labels).double().mean())
        )
    return found


def corrections(given: ProbeInput) -> dict[str, Reading]:
    """Return the accuracy that each way to correct features would have, on the same questions.

    `accuracy_uncorrected`, `accuracy_stored` by the features stored in training, if there are any,
    `accuracy_refreshed` by remembered images encoded anew. Learning is the same with all of them.
    `online_uncorrected` and so on are about the samples that arrive next, as AOA is about each one.
    """
    learner = embedding(given, "corrections")
    exam = right_in_every_way(given.learner, learner, given.test, given.asked)
    read: dict[str, Reading] = {f"accuracy_{way}": share for way, share in exam.items()}
    if len(given.coming):
        online = right_in_every_way(given.learner, learner, given.train, given.coming[:MOST_COMING])
        read |= {f"online_{way}": share for way, share in online.items()}
    return read


def right_in_every_way(
    learner: Learner, embedded: Embeds, split: Split, asked: Tensor
) -> dict[str, float]:
    """Return the share of these images that is right, by way to correct; new classes are wrong."""
    inner = embedded.inner if isinstance(embedded, Behind) else embedded
    if not isinstance(inner, CorrectsInWays):
        name = type(learner).__name__
        raise EarlError(f"{name} has no residual correction: leave out --probe corrections")
    W, right = embedded.vectors(), dict[str, int]()
    for part in asked.split(500):
        f_hat = embedded.features(split.images[part])
        for way, moved in inner.corrected_in_every_way(f_hat).items():
            answers = learner.classes.ids((moved @ W.T).argmax(dim=1))
            right[way] = right.get(way, 0) + int((answers == split.labels[part]).sum())
    return {way: digits(n / len(asked)) for way, n in right.items()}


def embedding(given: ProbeInput, probe: str) -> Embeds:
    """Return what gives the features and vectors of the learner; EarlError if it has none."""
    found = embedding_of(given.learner)
    if found is None:
        name = type(given.learner).__name__
        raise EarlError(f"{name} has no features and class vectors: leave out --probe {probe}")
    return found


def embedding_of(learner: Learner) -> Embeds | None:
    """Return the learner itself if it is such, or what its `network`, a Classifier, gives."""
    if isinstance(learner, Embeds):
        return learner
    if isinstance(learner, Encoded):
        inner = embedding_of(learner.inner)
        return None if inner is None else Behind(learner, inner)
    network = getattr(learner, "network", None)
    return OfClassifier(learner, network) if isinstance(network, Classifier) else None


def numbers_asked(given: ProbeInput) -> Tensor:
    """Return the class numbers of the test images that are asked about, (len(asked),)."""
    return given.learner.classes.numbers(given.test.labels[given.asked])


def first_of(c: int, classes: Tensor, most: int) -> Tensor:
    """Return the places of the first samples of a class, at most so many."""
    return (classes == c).nonzero()[:most, 0]


def features_of(learner: Embeds, images: Images, indices: Tensor) -> Tensor:
    """Return the features of the images with these indices, float (n, d) on the CPU."""
    parts = [learner.features(x).float().cpu() for x in batches(images, indices.split(500))]
    return torch.cat(parts)


def class_cosines(given: ProbeInput, indices: Tensor) -> Tensor:
    """Return the cosines of test images with the vectors of all seen classes, (n, classes).

    A learner that corrects its features compares them afterwards, and so does this function.
    """
    learner = embedding(given, "cosines")
    h = learner.features(given.test.images[indices])
    if isinstance(learner, Corrects):
        h = learner.corrected(h)
    W = F.normalize(learner.vectors().float().cpu(), dim=1)
    return F.normalize(h.float().cpu(), dim=1) @ W.T


def age(given: ProbeInput, c: int) -> int:
    """Return how many samples have arrived since the first of the c-th class."""
    labels = given.train.labels[given.seen]
    return given.step - 1 - int((labels == given.learner.classes.ids(torch.tensor(c))).nonzero()[0])


def digits(value: float) -> float:
    """Return a number with five digits: more would only make histories long."""
    return float(f"{value:.5g}")


def rows(matrix: Tensor) -> list[list[float]]:
    return [[digits(value) for value in row] for row in matrix.tolist()]
