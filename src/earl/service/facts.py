"""What there is to say about a running service: its status, its classes, its health."""

from typing import Any, Protocol

import earl
from earl.service.gauge import Reading
from earl.service.limits import Limits
from earl.service.published import Published


class Told(Protocol):
    """What the facts are about: a session, or a replica that follows one."""

    limits: Limits

    @property
    def published(self) -> Published: ...
    @property
    def acknowledged(self) -> int: ...
    @property
    def applied(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def catching_up(self) -> bool: ...
    @property
    def rate(self) -> float: ...
    @property
    def skipped(self) -> int: ...
    @property
    def capacity(self) -> int | None: ...
    @property
    def reading(self) -> Reading: ...
    def reasons(self) -> list[str]: ...
    def since(self) -> dict[str, int]: ...
    def journal_bytes(self) -> int: ...


def status(told: Told, *, curve: bool = True) -> dict[str, Any]:
    """Return the status of the service, fit for JSON; accuracies are of answers before learning."""
    published = told.published
    model, parameters = published.model, published.model.parameters
    history, reasons = model.history, told.reasons()
    found: dict[str, Any] = {
        "version": earl.__version__,
        "method": parameters.method,
        "backbone": str(parameters.backbone),
        "frozen": parameters.encodes,
        "model_seq": published.seq,
        "acknowledged": told.acknowledged,
        "applied": told.applied,
        "waiting": told.waiting,
        "limit_waiting": told.limits.waiting,
        "catching_up": told.catching_up,
        "samples": history.all.samples,
        "accuracy": history.all.accuracy,
        "recent": history.all.recent,
        "rate": told.rate,
        "classes": len(model.answered()),
        "capacity": told.capacity,
        "memory": {"size": parameters.memory_size, "used": sum(published.remembered.values())},
        "bytes": {
            "model": published.bytes,
            "journal": told.journal_bytes(),
            "journal_cap": told.limits.journal,
        },
        "collapse": told.reading.collapse,
        "skipped_steps": told.skipped,
        "health": "degraded" if reasons else "ok",
        "reasons": reasons,
    }
    if curve:
        found["curve"] = [[n, accuracy] for n, accuracy in history.curve()]
    return found


def classes(told: Told) -> list[dict[str, Any]]:
    """Return the classes in the order of their arrival."""
    published, learned, since = told.published, told.reading.learned, told.since()
    model, tallies = published.model, published.model.history.classes
    found = []
    for number in sorted(model.answered()):
        label = str(model.labels[number])
        tally = tallies[number] if number < len(tallies) else None
        found.append(
            {
                "label": label,
                "samples": tally.samples if tally else 0,
                "remembered": published.remembered.get(number, 0),
                "accuracy": tally.accuracy if tally else 0.0,
                "recent": tally.recent if tally else 0.0,
                "learned": learned.get(number),
                "since": since.get(label),
            }
        )
    return found
