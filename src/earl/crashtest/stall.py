"""B7: nothing comes for a while: no work is done meanwhile, and a signal ends it in peace."""

import os
import signal
import socket
import time
from contextlib import closing
from pathlib import Path

from earl.cli.app import app
from earl.cli.end import outcome
from earl.crashtest.bombs import cpu_of
from earl.crashtest.exactly_once import compare
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import ended, fork, hush
from earl.crashtest.sabotage import put
from earl.crashtest.serving import Server, png
from earl.crashtest.shutdown import saved_at
from earl.crashtest.small import ready, stream
from earl.service.learner import LearnerThread
from earl.service.limits import Limits

BUSY = 0.05  # of a core, at most
LONGEST = 5.0  # seconds from a signal to the end
SAMPLES = 4  # of each life
TERMINATED = 128 + signal.SIGTERM  # the exit code of a client


def stall(trial: Trial) -> Found:
    """Wait for samples and for answers; the sabotage waits without resting."""
    ready()
    found = trial.found(seconds=trial.count, samples=0)
    service = Server(trial.place / "state", Limits(snapshot_seconds=3600))
    service.sabotage = restless if trial.sabotage else None
    stalled_service(service, trial, found)
    stalled_client(trial, found)
    return found


def stalled_service(server: Server, trial: Trial, found: Found) -> None:
    """Let samples stop coming, then end it by a signal, and another time by a kill."""
    for kills in (False, True):
        server.start()
        teach(server, found)
        assert server.life is not None
        with closing(half_a_request(server.port)):
            share = busy(server.life.pid, trial.count)
            name = "cpu_before_kill" if kills else "cpu"
            found.figures[name] = round(share, 3)
            found.expect(share < BUSY, f"{100 * share:.1f} % of a core while nothing came")
            if kills:
                server.kill()
                continue
            began = time.monotonic()
            code = server.stop()
        seconds = time.monotonic() - began
        found.figures["stopped_s"] = round(seconds, 1)
        found.expect(code == 0, f"it ended with {code}")
        found.expect(seconds <= LONGEST, f"it took {seconds:.1f} s to end")
        there = saved_at(server)
        found.expect(there == SAMPLES, f"the snapshot is of operation {there}, not {SAMPLES}")
    server.start()
    server.settle()
    found.expect(server.stop() == 0, "after the kill it did not end in peace")
    compare(server.folder, [], found.figures["samples"], found)


def teach(server: Server, found: Found) -> None:
    """Post some samples, and wait until they are learned."""
    samples = stream(SAMPLES)
    for image, label in zip(samples.images, samples.labels, strict=True):
        status, answer = server.learn(image, label, f"sample-{found.figures['samples']}")
        found.figures["samples"] += found.expect(status == 202, f"{status} {answer}")
    server.settle()


def half_a_request(port: int) -> socket.socket:
    """Return a connection on which a sample has begun to come, and comes no further."""
    made = socket.create_connection(("127.0.0.1", port))
    made.sendall(b"POST /learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
    return made


def busy(pid: int, seconds: float) -> float:
    """Return the share of a core that a process takes in so many seconds."""
    before, began = cpu_of(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_of(pid) - before) / (time.monotonic() - began)


def stalled_client(trial: Trial, found: Found) -> None:
    """Have `earl client learn` wait for answers of a service that says nothing."""
    folder = trial.folder("images") / "class"
    folder.mkdir()
    (folder / "image.png").write_bytes(png(stream(1).images[0]))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        child = fork(lambda: client(folder.parent, url))
        silent.accept()  # it has asked
        time.sleep(1)
        share = busy(child, trial.count)
        began = time.monotonic()
        os.kill(child, signal.SIGTERM)
        code = ended(child)
        seconds = time.monotonic() - began
    found.figures |= {"client_cpu": round(share, 3), "client_stopped_s": round(seconds, 1)}
    found.expect(share < BUSY, f"the client takes {100 * share:.1f} % of a core")
    found.expect(code == TERMINATED, f"the client ended with {code}")
    found.expect(seconds <= LONGEST, f"the client took {seconds:.1f} s to end")


def client(images: Path, url: str) -> int:
    hush()
    return outcome(app, ["client", "learn", str(images), "--url", url])


def restless() -> None:
    """The sabotage: look for operations again and again."""
    put(LearnerThread, "_rest", lambda learner: None)
