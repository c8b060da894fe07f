"""What there is to say about a model: its classes, its room, its bytes."""

from typing import Any

from earl.estimator.build import Reader
from earl.estimator.eye import EyeReader
from earl.estimator.images import ImageReader
from earl.estimator.labels import encode
from earl.estimator.model import Model
from earl.learning.bytes_held import bytes_held


def describe(model: Model) -> dict[str, Any]:
    """Return facts about a model, fit for JSON; accuracies are of answers before learning."""
    curve, learner, p = model.curve(), model.learner, model.parameters
    memory, reader = getattr(learner, "memory", ()), model.reader
    eye = {"backbone": reader.encode.nbytes()} if isinstance(reader, EyeReader) else {}
    return {
        "method": p.method,
        "backbone": p.backbone if isinstance(p.backbone, str | None) else type(p.backbone).__name__,
        "frozen": p.freezes,
        "image_size": image_size(reader),
        "features": model.reader.features,
        "samples": curve.samples,
        "accuracy": curve.accuracy,
        "recent": curve.recent,
        "classes": [class_of(model, number) for number in range(len(model.labels))],
        "capacity": capacity(model),
        "memory_size": p.memory_size,
        "remembered": len(memory),
        "bytes": {**eye, **({} if learner is None else bytes_held(learner))},
        "skipped_steps": curve.skipped_steps,
        "threads": model.threads,
        "seed": p.seed,
    }


def image_size(reader: Reader) -> int | None:
    """Return the pixels of a side that images are resized to; None if samples are vectors."""
    images = reader.images if isinstance(reader, EyeReader) else reader
    return images.size if isinstance(images, ImageReader) else None


def capacity(model: Model) -> int | None:
    """Return how many classes there is room for; None if only the machine sets a limit."""
    of_method = None if model.learner is None else model.learner.classes.capacity
    limits = (model.parameters.max_classes, of_method)
    return min((limit for limit in limits if limit is not None), default=None)


def class_of(model: Model, number: int) -> dict[str, Any]:
    """Return facts about one class."""
    label = model.labels[number]
    record = model.curve().classes.get(label)
    return {
        "label": encode(label),
        "shown": str(label),
        "samples": record.samples if record else 0,
        "accuracy": record.accuracy if record else 0.0,
        "recent": record.recent if record else 0.0,
        "forgotten": number in model.forgotten,
    }
