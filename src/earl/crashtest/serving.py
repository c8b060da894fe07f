"""Services and clients, each a process of its own, that can be killed and started again."""

import base64
import http.client
import io
import json
import logging
import os
import random
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from PIL import Image

from earl.cli.serve import LOOPBACK, opened
from earl.crashtest.lives import LEARNED, Life, Tell, ended, fork, hush
from earl.crashtest.small import Samples, of_images
from earl.data.decode import formats
from earl.errors import EarlError
from earl.estimator import EARLClassifier
from earl.service import snapshots
from earl.service.images import decoded
from earl.service.journal import Journal
from earl.service.limits import Limits
from earl.service.operations import Operation, apply
from earl.service.published import image_size

PATIENCE = 60.0  # seconds until an answer must have come
Answer = tuple[int, Any]


class NotServing(EarlError):
    """A service has ended by itself, or does not come to rest."""


def parameters(**given: Any) -> dict[str, Any]:
    """Return the parameters of a small model, as a service takes them."""
    names = ("image_size", "memory_size", "device", "threads", "settings", "seed")
    small = of_images(**given).get_params()
    return {name: small[name] for name in names}


@dataclass
class Server:
    """One state folder on one port, served in as many lives as it takes."""

    folder: Path
    limits: Limits = field(default_factory=lambda: Limits(snapshot_seconds=0.5))
    sabotage: Callable[[], object] | None = None
    model: dict[str, Any] = field(default_factory=lambda: parameters())
    asks: bool = False  # for a token
    log: Path | None = None
    quiet: bool = False  # what it prints is lost
    headers: dict[str, str] = field(default_factory=dict)  # of every request, as a token
    port: int = field(default_factory=lambda: free_port())
    life: Life | None = None

    def begin(self) -> Life:
        """Start a life, which tells when it listens."""
        warm()
        self.life = Life.begin(self._live)
        return self.life

    def start(self) -> "Server":
        """Start a life and wait until it listens."""
        life = self.begin()
        life.hear(1)
        if life.silent:
            raise NotServing(f"the service in {self.folder} does not start any more")
        return self

    def _live(self, tell: Tell) -> None:
        from earl.service.http.app import create_app
        from earl.service.http.labelstudio import routes
        from earl.service.http.server import bound, serve
        from earl.service.logs import log_to

        if self.quiet:
            hush()
        if self.sabotage is not None:
            self.sabotage()
        log_to(logging.FileHandler(os.devnull if self.log is None else self.log))
        with bound("127.0.0.1", self.port) as listening:
            names = frozenset(LOOPBACK)
            service = opened(self.folder, self.model, self.limits, names, self.asks)
            app = create_app(service, [routes(service)])
            serve(app, service, listening, lambda: tell(LEARNED, 1))

    def kill(self) -> int:
        assert self.life is not None
        return self.life.kill()

    def stop(self) -> int:
        """End it as a user would; return its exit code."""
        assert self.life is not None
        os.kill(self.life.pid, 15)
        return self.life.wait()

    def ask(self, verb: str, path: str, **given: Any) -> Answer:
        given["headers"] = self.headers | given.get("headers", {})
        return ask(self.port, verb, path, **given)

    def learn(
        self, image: Any, label: str, key: str | None = None, source: str = "", **headers: str
    ) -> Answer:
        """Teach an image, which may have a key."""
        keyed = {} if key is None else {"Idempotency-Key": key}
        body = lesson(png(image), label, source)
        return self.ask("POST", "/learn", body=body, headers=JSON | keyed | headers)

    def predict(self, *images: Any, query: str = "", **given: Any) -> Answer:
        """Ask about images."""
        body = question(*map(png, images))
        return self.ask("POST", f"/predict{query}", body=body, headers=JSON, **given)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", "/status")[1]
        return found

    def settle(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """Wait until all that was acknowledged is learned and published; return the status."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            status = self.status()
            if status["model_seq"] == status["acknowledged"]:
                return status
            time.sleep(0.05)
        raise NotServing(f"it does not come to rest: {status}")


@cache
def warm() -> None:
    """Import what every life would: it takes a second, and lives are forks of this process."""
    for name in ("earl.service.http.app", "earl.service.http.server", "uvicorn.lifespan.on"):
        import_module(name)
    formats()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def ask(
    port: int,
    verb: str,
    path: str,
    *,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    timeout: float = PATIENCE,
    drops: bool = False,
) -> Answer:
    """Send one request; return the status and the JSON of the answer, or go before it comes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(verb, path, body, headers or {})
        if drops:
            return 0, None
        answer = connection.getresponse()
        data = answer.read()
        kind = answer.headers.get("content-type", "")
        return answer.status, json.loads(data) if "json" in kind else data
    finally:
        connection.close()


def png(image: Any) -> bytes:
    """Return an image as a file."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def lesson(image: bytes, label: str, source: str = "") -> bytes:
    """Return the JSON that teaches an image."""
    body = {"image": base64.b64encode(image).decode(), "label": label}
    return json.dumps(body | ({"source": source} if source else {})).encode()


def question(*images: bytes) -> bytes:
    """Return the JSON that asks about images."""
    return json.dumps({"images": [base64.b64encode(image).decode() for image in images]}).encode()


JSON = {"Content-Type": "application/json"}


@dataclass
class Poster:
    """A client that posts samples under keys, and again until each is acknowledged."""

    port: int
    name: str
    samples: Samples
    numbers: Sequence[int]
    log: Path
    seed: int
    dropped: float = 0.1  # of the answers, which it does not wait for

    def begin(self) -> int:
        """Start it as a process; it posts as many samples as it has been given tickets for."""
        self.ear, self.mouth = os.pipe()
        self.pid = fork(self._post_all)
        os.close(self.ear)
        return self.pid

    def allow(self, count: int) -> None:
        """Let it post so many more samples."""
        os.write(self.mouth, b"." * count)

    def wait(self) -> int:
        """Let it post all the rest; return its exit code."""
        with suppress(BrokenPipeError):  # it has posted all and is gone
            self.allow(len(self.numbers))  # closing alone is not enough: later processes listen
        os.close(self.mouth)
        return ended(self.pid)

    def _post_all(self) -> int:
        os.close(self.mouth)
        rng = random.Random(self.seed)
        for number in self.numbers:
            os.read(self.ear, 1)
            self._post(number, rng)
        return 0

    def _post(self, number: int, rng: random.Random) -> None:
        key = f"{self.name}-{number}"
        body = lesson(png(self.samples.images[number]), self.samples.labels[number])
        while True:
            drops = rng.random() < self.dropped
            try:
                headers = JSON | {"Idempotency-Key": key}
                status, found = ask(
                    self.port, "POST", "/learn", body=body, headers=headers, timeout=5, drops=drops
                )
            except (OSError, http.client.HTTPException, ValueError):
                status = -1
            if status == 202:
                with self.log.open("a", encoding="ascii") as log:
                    log.write(f"{key} {found['seq']}\n")
                return
            if status not in (-1, 0, 429, 503):
                raise AssertionError(f"{key}: {status} {found}")
            time.sleep(0.1)

    def acknowledged(self) -> dict[str, int]:
        """Return the keys that were acknowledged, and their places."""
        if not self.log.exists():
            return {}
        rows = (line.split() for line in self.log.read_text(encoding="ascii").splitlines())
        return {key: int(seq) for key, seq in rows}


def operations(folder: Path) -> list[Operation]:
    """Return all operations of a journal, whose seals are checked."""
    journal = Journal(folder, {}, read_only=True)
    found: list[Operation] = []
    while batch := list(journal.after(found[-1].seq if found else 0)):
        found += batch
    journal.close()
    return found


def replayed(folder: Path) -> str:
    """Return the digest of a model that does all operations of a journal, from nothing."""
    journal = Journal(folder, {}, read_only=True)
    clf = EARLClassifier(**journal.parameters)
    journal.close()
    for one in operations(folder):
        apply(
            clf, one, None if one.image is None else decoded(one.image, image_size(clf._current()))
        )
    return clf.digest()


def saved(folder: Path) -> tuple[str, int]:
    """Return the digest of the newest snapshot, and the operation it was made after."""
    journal = Journal(folder, {}, read_only=True)
    found = snapshots.load(folder, journal.id)
    journal.close()
    assert found is not None
    return found[0].digest(), found[1]
