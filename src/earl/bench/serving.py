"""A row about the service: learning through it beside the bare learner, and asking meanwhile."""

import io
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
from PIL import Image

from earl.bench.measured import Measured
from earl.bench.timing import Effort, Thing, take_turns
from earl.estimator import EARLClassifier
from earl.experiments.machine import thread_count
from earl.service.operations import Wish
from earl.service.session import Session

SIZE = 32  # pixels
SETTINGS = {"depth": 8, "width": 32}  # a step takes long beside all else, and a turn is short
LABELS = 4
PACE = 1 / 25  # seconds between two questions
IMAGES = 64  # that come again and again
TOGETHER = 32  # samples of a turn


def images() -> list[bytes]:
    """Return pictures of noise as the bytes of PNG files."""
    found = []
    for pixels in np.random.default_rng(0).integers(256, size=(IMAGES, SIZE, SIZE, 3)):
        file = io.BytesIO()
        Image.fromarray(pixels.astype(np.uint8)).save(file, "PNG")
        found.append(file.getvalue())
    return found


@contextmanager
def served(folder: Path) -> Iterator[Any]:
    """Start a service in a process of its own, and yield a client of it."""
    from earl.service.client import Client

    words = ["serve", "--state", str(folder / "state"), "--port", "0", "--without-token"]
    words += ["--image-size", str(SIZE), "--waiting", "100000"]
    words += [word for pair in SETTINGS.items() for word in ("--set", "{}={}".format(*pair))]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "earl", *words], stdout=subprocess.PIPE, stderr=log, text=True
        )
        assert process.stdout is not None
        try:
            url = next(
                found[1] for line in process.stdout if (found := re.match(r"Serving (\S+)", line))
            )
            with Client(url) as client:
                yield client
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def serve(effort: Effort) -> Iterator[Measured]:
    """Measure learning through a session beside the bare learner, then asking while it learns.

    Learning is measured by the time of the processor, all threads of the session included. Answers
    are measured by the clock on the wall, at a process of its own: on a busy machine take the
    ratios for what they are.
    """
    pictures = images()
    clf = EARLClassifier(image_size=SIZE, device="cpu", threads=1, settings=SETTINGS)
    with tempfile.TemporaryDirectory() as place, thread_count(1):
        session = Session(Path(place) / "session", {"image_size": SIZE, "settings": SETTINGS})
        session.start()
        things = {"service": posting(session, pictures), "bare": learning(clf, pictures)}
        times = take_turns(things, effort)
        session.stop()
        ratio = times.ratio("bare", "service")
        yield Measured(
            case=f"ResNet-8, {SIZE} px: samples learned ÷ those of the bare learner",
            value=ratio.value,
            target=0.85,
            at_least=True,
            spread=(ratio.low, ratio.high),
            times={name: 1e3 * times.median(name) for name in things},
        )
        with served(Path(place)) as client:
            turns, seconds = (1, 4.0) if effort.quick else (3, 12.0)
            rate = 1 / times.median("bare")
            found = [turn(client, pictures, seconds, rate) for _ in range(turns)]
    yield from answered(found)


def answered(found: list[dict[str, float]]) -> Iterator[Measured]:
    for name, about, target in (
        ("p50", "median time of an answer while learning ÷ idle", 1.5),
        ("p99", "99th of 100 ÷ idle", 3.0),
        ("answers", "answers a second while learning, one after the other", None),
        ("idle", "the same while idle", None),
    ):
        values = [each[name] for each in found]
        yield Measured(
            case=f"ResNet-8, {SIZE} px: {about}",
            value=median(values),
            unit="" if target is None else "×",
            target=target,
            spread=(min(values), max(values)) if len(values) > 1 else None,
        )


def turn(client: Any, pictures: list[bytes], seconds: float, rate: float) -> dict[str, float]:
    """Return the figures of one turn: asked while it learns, then idle."""
    fill(client, pictures, int(2 * seconds * rate))
    begun(client)
    busy = ask(client, pictures, seconds, PACE)
    answers = len(ask(client, pictures, seconds / 2, 0.0)) / (seconds / 2)
    assert client.status()["waiting"], "the service ran out of samples; post more"
    drain(client)
    idle = ask(client, pictures, seconds, PACE)
    return {
        "p50": median(busy) / median(idle),
        "p99": quantiles(busy, n=100)[-1] / quantiles(idle, n=100)[-1],
        "answers": answers,
        "idle": len(ask(client, pictures, seconds / 2, 0.0)) / (seconds / 2),
    }


def posting(session: Session, pictures: list[bytes]) -> Thing:
    """Return what posts samples to a session and waits until they are learned."""

    def post() -> float:
        pairs = enumerate(pictures[:TOGETHER])
        wishes = [Wish(kind="learn", image=image, label=str(i % LABELS)) for i, image in pairs]
        for answer in [session.learn([wish]) for wish in wishes]:
            answer.result()
        while session.waiting or session.published.seq < session.acknowledged:
            time.sleep(0.005)
        return TOGETHER

    return post


def learning(clf: EARLClassifier, pictures: list[bytes]) -> Thing:
    """Return what teaches a classifier the same samples."""

    def learn() -> float:
        for place, image in enumerate(pictures[:TOGETHER]):
            clf.learn_one(image, str(place % LABELS), key=place)
        return TOGETHER

    return learn


def fill(client: Any, pictures: list[bytes], count: int) -> None:
    """Post at least so many samples."""
    for start in range(0, count, IMAGES):
        labels = [str((start + place) % LABELS) for place in range(IMAGES)]
        client.learn_many(pictures, labels)


def begun(client: Any) -> None:
    """Wait until the service can answer."""
    while not client.status()["classes"]:
        time.sleep(0.2)


def drain(client: Any) -> None:
    """Wait until the service has learned all that it was sent."""
    while client.status()["waiting"]:
        time.sleep(0.2)
    time.sleep(1.0)


def ask(client: Any, pictures: list[bytes], seconds: float, pace: float) -> list[float]:
    """Ask for so long, at this pace; return the seconds of each answer."""
    times: list[float] = []
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        client.predict(pictures[len(times) % IMAGES])
        times.append(time.monotonic() - began)
        time.sleep(max(0.0, pace - times[-1]))
    return times
