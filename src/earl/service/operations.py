"""What can be done to a model, as rows of the journal, and how each is done to a classifier."""

import hashlib
from dataclasses import dataclass
from typing import Literal

from earl.errors import InvalidInput
from earl.estimator import EARLClassifier
from earl.service.images import Image

Kind = Literal["learn", "relabel", "forget"]


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a client asks for, before it has a place in the journal."""

    kind: Kind
    label: str | None = None  # of `learn` and `relabel`
    sample: int | None = None  # the id of an earlier sample, of `relabel` and `forget`
    image: bytes | None = None  # as it was posted, of `learn`
    source: str = ""
    token: str = ""  # the name of the token that it came with
    key: str | None = None  # the same wish under the same key is granted once

    def sha(self) -> bytes:
        """Return the SHA-256 of what is asked for, by whomever and under whatever key."""
        return sha_of(self.kind, self.label, self.sample, self.source, self.image)


@dataclass(frozen=True, kw_only=True)
class Operation(Wish):
    """A row of the journal: a wish, its number, and what follows from all rows before it.

    A row of `relabel` holds the image, too, so that no row depends on another one being kept.
    """

    seq: int
    gone: str | None = None  # the label of which this withdraws the last sample

    @property
    def id(self) -> int:
        """The id of the sample that this is about: the number of the row that brought it."""
        return self.seq if self.sample is None else self.sample

    def seal(self) -> bytes:
        """Return the SHA-256 of the row."""
        return sha_of(self.sha(), self.seq, self.gone, self.key, self.token)


@dataclass(frozen=True)
class Receipt:
    """What a client is told once its wish is on the disk."""

    id: int
    seq: int
    label: str | None
    source: str
    duplicate: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of an operation: the answer about a sample just before it was learned."""

    predicted: str | None = None
    right: bool | None = None
    error: str | None = None  # why it could not be done


def sha_of(*parts: object) -> bytes:
    """Return the SHA-256 of a list of values, each with its length."""
    sha = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        sha.update(len(data).to_bytes(8, "big") + data)
    return sha.digest()


def apply(clf: EARLClassifier, operation: Operation, image: Image | None) -> Outcome:
    """Do one operation to a classifier; the state of the service is all that follows from that.

    `image` is the decoded image of the row. A sample that memory has dropped is learned again
    where it is relabelled. A label whose last sample is withdrawn is answered no more.
    """
    key, label, outcome = operation.id, operation.label, Outcome()
    if operation.kind == "learn":
        predicted = clf.predict_one(image)
        clf.learn_one(image, label, key=key)
        outcome = Outcome(None if predicted is None else str(predicted), predicted == label)
    elif operation.kind == "relabel":
        try:
            clf.relabel(key, label)
        except InvalidInput:
            clf.learn_one(image, label, key=key)
    else:
        clf.forget(key=key)
    if operation.gone is not None:
        clf.forget(label=operation.gone)
    return outcome
