"""For tests of the service: tiny parameters, images, and a classifier fed the same operations."""

import asyncio
import io
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
from fastapi import APIRouter
from PIL import Image

from earl import EARLClassifier
from earl.service.events import Broker
from earl.service.http.app import create_app
from earl.service.http.server import Server, bound
from earl.service.images import decoded
from earl.service.journal import Journal
from earl.service.limits import Limits
from earl.service.operations import Wish, apply
from earl.service.service import Service
from earl.service.session import Session
from earl.service.tokens import SCOPES, Tokens

SETTINGS = {"depth": 4, "width": 16, "d": 15, "hidden": 16, "batch_size": 8}
TINY: dict[str, Any] = {"image_size": 16, "memory_size": 20, "settings": SETTINGS}


@cache
def png(seed: int, side: int = 20) -> bytes:
    """Return a PNG of noise."""
    pixels = np.random.default_rng(seed).integers(256, size=(side, side, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def settle(session: Session, seconds: float = 60.0) -> None:
    """Wait until all that was acknowledged is learned and published."""
    end = time.monotonic() + seconds
    while session.published.seq < session.acknowledged:
        assert time.monotonic() < end, session.reasons()
        time.sleep(0.01)


@contextmanager
def started(
    folder: Path, given: dict[str, Any] | None = None, limits: Limits | None = None
) -> Iterator[Session]:
    """Start a session, and stop it in the end."""
    session = Session(folder, given, limits)
    session.start()
    try:
        yield session
    finally:
        session.stop()


def lessons(samples: Iterable[tuple[bytes, str]]) -> list[Wish]:
    """Return images with labels as wishes."""
    return [Wish(kind="learn", image=image, label=label) for image, label in samples]


def learn(session: Session, *wishes: Wish) -> list[int]:
    """Have wishes learned together; return the ids of their samples when all of them are."""
    receipts = session.learn(wishes).result()
    settle(session)
    return [receipt.id for receipt in receipts]


def replayed(journal: Journal) -> EARLClassifier:
    """Return a classifier fed the operations of a journal, from the first one on."""
    clf, seq = EARLClassifier(**journal.parameters), 0
    while batch := list(journal.after(seq)):
        for operation in batch:
            image = None if operation.image is None else decoded(operation.image, clf.image_size)
            apply(clf, operation, image)
            seq = operation.seq
    return clf


def taught(samples: Iterable[tuple[bytes, str]]) -> EARLClassifier:
    """Return a classifier that has learned images with labels, by its own means alone."""
    clf = EARLClassifier(**TINY, threads=1)
    for number, (image, label) in enumerate(samples, 1):
        clf.learn_one(image, label, key=number)
    return clf


def service_of(folder: Path, limits: Limits | None = None, **given: Any) -> Service:
    """Return a service of a folder, not started yet."""
    limits = limits or Limits()
    broker = Broker(limits.listeners)
    session = Session(folder, TINY | given, limits, broker.tell)
    return Service(session, Tokens(folder), broker, limits, frozenset({"testserver", "127.0.0.1"}))


@contextmanager
def running(service: Service, more: Sequence[APIRouter] = ()) -> Iterator[str]:
    """Serve on a free port, in a thread, perhaps with more routes; yields the URL."""
    service.told.start()
    with bound("127.0.0.1", 0) as listening:
        server = Server(create_app(service, more), service)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.end()
            thread.join()
            service.end()


def admin(service: Service) -> dict[str, str]:
    """Return the header of a client that may do everything."""
    assert service.tokens is not None
    return bearer(service.tokens.add("first", SCOPES))


@contextmanager
def connected(service: Service, more: Sequence[APIRouter] = ()) -> Iterator[httpx2.Client]:
    """Serve, and yield a client that may do everything."""
    headers = admin(service)
    with (
        running(service, more) as url,
        httpx2.Client(base_url=url, headers=headers, timeout=30) as client,
    ):
        yield client


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}
