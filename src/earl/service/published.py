"""A published model: it never changes, so whoever holds it may ask it without waiting for anybody.

The thread that learns makes one after a step and puts it in the place of the last one. A request
takes the reference once; all that it answers is then of one moment, `seq`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from earl.errors import InvalidInput
from earl.estimator.answering import answering_copy, answers
from earl.estimator.build import make_learner
from earl.estimator.explaining import neighbours
from earl.estimator.eye import EyeReader
from earl.estimator.model import Model
from earl.learning import Memory
from earl.learning.bytes_held import bytes_held
from earl.service.images import Image
from earl.service.refusals import Refused


@dataclass(frozen=True)
class Published:
    """A model as it was after operation `seq`."""

    seq: int
    model: Model
    remembered: dict[int, int] = field(default_factory=dict)  # samples in memory by class number
    bytes: int = 0  # of all that the model holds

    @classmethod
    def of(cls, model: Model, seq: int) -> "Published":
        """Return the model as it is now; only what learning changes is copied."""
        return cls(seq, answering_copy(model), remembered(model), size(model))

    def answer(
        self, images: Sequence[Image], *, top: int, explain: bool, unknown_below: float = 0.0
    ) -> list[dict[str, Any]]:
        """Return for each image its label, probabilities, and how unknown it is.

        The label is None where 1 - unknown is below `unknown_below`.
        """
        if not self.model.can_answer:
            raise Refused(409, "no_classes", "nothing has been taught yet; post to /learn first")
        x = self.model.read(images)
        found = answers(self.model, x)
        rows = zip(found.probabilities.tolist(), found.unknown.tolist(), strict=True)
        shown = [self._shown(row, unknown, top) for row, unknown in rows]
        for place, one in enumerate(shown):
            if 1 - one["unknown"] < unknown_below:
                one["label"] = None
            one["neighbours"] = self._neighbours(x[place : place + 1]) if explain else []
        return shown

    def _shown(self, row: list[float], unknown: float, top: int) -> dict[str, Any]:
        numbers = sorted(self.model.answered(), key=lambda c: -row[c])
        best = [{"label": str(self.model.labels[c]), "p": row[c]} for c in numbers[:top]]
        label = str(self.model.labels[numbers[0]])
        return {"label": label, "unknown": unknown, "probabilities": best}

    def _neighbours(self, x: Tensor) -> list[dict[str, Any]]:
        """Return the remembered samples that corrected an answer; none where nothing corrects."""
        try:
            found = neighbours(self.model, x)
        except InvalidInput:
            return []
        weights: dict[tuple[int, str], float] = {}
        for one in found:
            if one.key is not None:
                name = int(one.key), str(one.label)
                weights[name] = weights.get(name, 0.0) + one.weight
        heavy = sorted(weights.items(), key=lambda item: -item[1])
        return [{"id": i, "label": label, "weight": weight} for (i, label), weight in heavy]


def remembered(model: Model) -> dict[int, int]:
    """Return how many samples of each class number are in memory."""
    memory = getattr(model.learner, "memory", None)
    if model.learner is None or not isinstance(memory, Memory):
        return {}
    counts = torch.from_numpy(memory.counts)
    return dict(zip(model.taught().tolist(), counts.tolist(), strict=False))


def size(model: Model) -> int:
    """Return the bytes that a model holds in order to answer and to go on."""
    return 0 if model.learner is None else sum(bytes_held(model.learner).values())


def image_size(model: Model) -> int:
    """Return the pixels of a side of the images that a model takes."""
    reader = model.reader
    return (reader.images if isinstance(reader, EyeReader) else reader).shape[1]


def capacity(model: Model) -> int | None:
    """Return how many classes a model takes at most; None if there is no bound."""
    learner = model.learner or make_learner(model.parameters, model.reader.shape)
    bounds = (learner.classes.capacity, model.parameters.max_classes)
    return min((bound for bound in bounds if bound is not None), default=None)
