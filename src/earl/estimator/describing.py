"""What there is to say about a model: its classes, its room, its bytes."""

from typing import Any

from earl.estimator.labels import encode
from earl.estimator.model import Model
from earl.learning.bytes_held import bytes_held


def describe(model: Model) -> dict[str, Any]:
    """Return facts about a model, fit for JSON; accuracies are of answers before learning."""
    curve, learner, p = model.curve(), model.learner, model.parameters
    memory = getattr(learner, "memory", ())
    return {
        "method": p.method,
        "backbone": p.backbone if isinstance(p.backbone, str | None) else type(p.backbone).__name__,
        "image_size": None if p.takes_vectors else p.image_size,
        "features": model.reader.features,
        "samples": curve.samples,
        "accuracy": curve.accuracy,
        "recent": curve.recent,
        "classes": [class_of(model, number) for number in range(len(model.labels))],
        "capacity": None if learner is None else learner.classes.capacity,
        "memory_size": p.memory_size,
        "remembered": len(memory),
        "bytes": {} if learner is None else bytes_held(learner),
        "skipped_steps": curve.skipped_steps,
        "threads": model.threads,
        "seed": p.seed,
    }


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
