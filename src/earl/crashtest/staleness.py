"""C3: what was acknowledged is soon in the model that answers, and one can wait for it."""

import http.client
import json
import queue
import threading
import time
from statistics import quantiles
from typing import Any

from earl.crashtest.gates import Gate
from earl.crashtest.harness import Found, Trial
from earl.crashtest.sabotage import put
from earl.crashtest.serving import JSON, PATIENCE, Server, lesson, png, question
from earl.crashtest.small import Samples, ready, stream
from earl.service.learner import LearnerThread

SECONDS, BEHIND = 2.0, 32  # one of them must hold for 99 of 100 samples
SHARE = 0.5  # of what it can learn is posted, so that learning keeps up
WARM = 8  # samples that tell how fast it learns


def staleness(trial: Trial) -> Found:
    """Post at half the rate of learning and wait for each sample to be in the model.

    The sabotage publishes no model after the first.
    """
    ready()
    found = trial.found(samples=trial.count, late=0)
    wait_or_412(trial, found)
    samples = stream(trial.count + WARM)
    server = Server(trial.place / "state", sabotage=once if trial.sabotage else None).start()
    waits = followed(server, samples, trial, found)
    found.figures |= {
        "p99_s": round(last_percent([seconds for seconds, _ in waits]), 2),
        "p99_samples": round(last_percent([behind for _, behind in waits])),
    }
    late = sum(seconds > SECONDS and behind > BEHIND for seconds, behind in waits)
    found.figures["late"] = late
    found.expect(late <= trial.count / 100, f"{late} samples of {trial.count} came late")
    found.expect(server.stop() == 0, "it did not end in peace")
    return found


def last_percent(values: list[Any]) -> float:
    """Return what 99 of 100 values do not exceed."""
    return float(quantiles(values, n=100, method="inclusive")[-1])


def followed(
    server: Server, samples: Samples, trial: Trial, found: Found
) -> list[tuple[float, int]]:
    """Post samples; return for each the seconds and the samples until a model knew of it."""
    bodies = [
        lesson(png(image), label)
        for image, label in zip(samples.images, samples.labels, strict=True)
    ]
    began = time.monotonic()
    for body in bodies[:WARM]:
        server.ask("POST", "/learn", body=body, headers=JSON)
    if not trial.sabotage:
        server.settle()
    pace = (time.monotonic() - began) / WARM / SHARE
    posted: queue.Queue[tuple[int, float] | None] = queue.Queue()
    newest = [0]

    def post() -> None:
        for body in bodies[WARM:]:
            began = time.monotonic()
            newest[0] = server.ask("POST", "/learn", body=body, headers=JSON)[1]["seq"]
            posted.put((newest[0], time.monotonic()))
            time.sleep(max(0.0, began + pace - time.monotonic()))
        posted.put(None)

    poster = threading.Thread(target=post, daemon=True)
    poster.start()
    waits, image = [], question(png(samples.probes[0]))
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    while (one := posted.get()) is not None:
        seq, acknowledged = one
        connection.request("POST", f"/predict?min_seq={seq}&wait=10", image, JSON)
        answer = connection.getresponse()
        known = json.loads(answer.read()).get("model_seq", 0)
        found.expect(known >= seq, f"after 10 s sample {seq} is not in the model: {answer.status}")
        waits.append((time.monotonic() - acknowledged, newest[0] - seq))
    connection.close()
    return waits


def wait_or_412(trial: Trial, found: Found) -> None:
    """Hold learning still: who waits for a sample is refused, or answered when it is learned."""
    gate, samples = Gate(), stream(4)
    server = Server(trial.place / "held", sabotage=gate.shut).start()
    image = samples.images[0]
    gate.let(1)
    for _ in range(2):
        server.learn(image, "a")
    known = server.predict(image, query="?min_seq=1&wait=10")
    found.expect(known[0] == 200, f"waiting for a sample that is learned: {known}")
    early = server.predict(image, query="?min_seq=2&wait=0.1")
    found.expect(early[0] == 412, f"waiting for a sample that is not learned: {early}")
    threading.Timer(0.1, gate.let, (1,)).start()
    late = server.predict(image, query="?min_seq=2&wait=10")
    found.expect(
        late[0] == 200 and late[1]["model_seq"] == 2, f"waiting while it is learned: {late}"
    )
    found.figures["waited"] = late[0]
    found.figures["refused"] = early[0]
    found.expect(server.stop() == 0, "it did not end in peace")


def once() -> None:
    """The sabotage: no model is published after the first that answers."""
    publish = LearnerThread._publish

    def published(self: LearnerThread) -> None:
        if not self.published.model.can_answer:
            publish(self)

    put(LearnerThread, "_publish", published)
