"""C1: questions are answered while it learns, and neither slows the other down too much."""

import threading
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from earl.bench.serving import PACE, SETTINGS, SIZE, ask, begun, drain, fill, images
from earl.crashtest.gates import Gate
from earl.crashtest.harness import Found, Trial
from earl.crashtest.sabotage import put
from earl.crashtest.serving import PATIENCE, Server
from earl.crashtest.small import ready, stream
from earl.service import learner
from earl.service.client import Client
from earl.service.limits import Limits
from earl.service.published import Published

MODEL: dict[str, Any] = {"image_size": SIZE, "device": "cpu", "threads": 1, "settings": SETTINGS}
SECONDS = 8.0  # of questions at the pace of the bar; the other phases are half as long
ASKED = 20  # questions while a step stands still
BARS = {"p50": 1.5, "p99": 3.0, "answers": 0.5, "learning": 0.5, "saturated": 0.5}
AT_MOST = ("p50", "p99")  # the others are shares that must be left


def predict_while_learning(trial: Trial) -> Found:
    """Compare turns of learning and of rest, then hold a step still and ask.

    The sabotage lets learning and answering share a lock.
    """
    ready()
    found = trial.found(turns=trial.count, held=0)
    if trial.count:
        take_turns(trial, found)
    hold_still(trial, found)
    return found


def take_turns(trial: Trial, found: Found) -> None:
    """Take turns of learning and of rest; the median of their ratios is held to the bar."""
    server = service(trial.place / "turns", shared_lock if trial.sabotage else None)
    pictures = images()
    with Client(f"http://127.0.0.1:{server.port}") as client:
        rate = warmed(client, pictures)
        rows = [turn(client, pictures, rate) for _ in range(trial.count)]
    for name in BARS:
        value = median(row[name] for row in rows)
        found.figures[name] = round(value, 2)
        expect_ratio(found, name, value)
    found.expect(server.stop() == 0, "it did not end in peace")


def expect_ratio(found: Found, name: str, value: float) -> None:
    """Note a ratio of learning to rest that is short of the bar."""
    bar, most = BARS[name], name in AT_MOST
    words = f"{name} while learning ÷ idle is {value:.2f}, and may be {bar} at "
    found.expect(value <= bar if most else value >= bar, words + ("most" if most else "least"))


def service(folder: Path, before: Any = None) -> Server:
    """Return a service whose steps take long beside all else, as the benchmark's."""
    limits = Limits(waiting=100_000)
    return Server(folder, limits=limits, sabotage=before, model=MODEL).start()


def warmed(client: Client, pictures: list[bytes]) -> float:
    """Teach a little, and return the samples that are learned in a second."""
    fill(client, pictures, 1)
    begun(client)
    rate, _ = learned_during(client, lambda: time.sleep(SECONDS / 4))
    drain(client)
    return rate


def learned_during(client: Client, act: Any) -> tuple[float, Any]:
    """Do something; return the samples learned in each second of it, and what it returned."""
    before, began = client.status()["applied"], time.monotonic()
    done = act()
    seconds = time.monotonic() - began
    return (client.status()["applied"] - before) / seconds, done


def turn(client: Client, pictures: list[bytes], rate: float) -> dict[str, float]:
    """Return the ratios of one turn: learning alone, asked at a pace, asked as fast as can be."""
    fill(client, pictures, int(3 * SECONDS * rate) + 1)
    alone, _ = learned_during(client, lambda: time.sleep(SECONDS / 2))
    paced, busy = learned_during(client, lambda: ask(client, pictures, SECONDS, PACE))
    both, many = learned_during(client, lambda: ask(client, pictures, SECONDS / 2, 0.0))
    if not client.status()["waiting"]:  # it has become faster: the turn tells nothing
        return turn(client, pictures, 2 * rate)
    drain(client)
    idle = ask(client, pictures, SECONDS, PACE)
    most = ask(client, pictures, SECONDS / 2, 0.0)
    return {
        "p50": median(busy) / median(idle),
        "p99": quantiles(busy, n=100)[-1] / quantiles(idle, n=100)[-1],
        "answers": len(many) / len(most),
        "learning": paced / alone,
        "saturated": both / alone,
    }


def hold_still(trial: Trial, found: Found) -> None:
    """Hold a step of learning still: questions are answered by the model of before."""
    gate, samples = Gate(), stream(8)

    def before() -> None:
        gate.shut()
        if trial.sabotage:
            shared_lock()

    server = Server(trial.place / "held", sabotage=before).start()
    gate.let(4)
    for place in range(8):
        server.learn(samples.images[place], samples.labels[place])
        if place == 3:
            server.settle()
    seconds = 2.0 if trial.sabotage else PATIENCE
    for place in range(ASKED):
        try:
            status, answer = server.predict(samples.images[place % 8], timeout=seconds)
        except OSError:
            status, answer = 0, {}
        right = (status, answer.get("model_seq")) == (200, 4)
        found.figures["held"] += right
        found.expect(right, f"while a step stands still a question gets {status} {answer}")
    gate.let(4)
    found.expect(server.settle()["model_seq"] == 8, "it does not go on")
    found.expect(server.stop() == 0, "it did not end in peace")


def shared_lock() -> None:
    """The sabotage: a model that learns cannot be asked meanwhile."""
    lock, apply, answer = threading.Lock(), vars(learner)["apply"], Published.answer

    def locked(act: Any) -> Any:
        def acted(*given: Any, **more: Any) -> Any:
            with lock:
                return act(*given, **more)

        return acted

    put(learner, "apply", locked(apply))
    put(Published, "answer", locked(answer))
