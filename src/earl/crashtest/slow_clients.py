"""C6: whoever sends or reads too slowly is cut off, and nobody else notices."""

import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

import numpy as np

from earl.crashtest.asking import ask_for
from earl.crashtest.harness import Found, Trial
from earl.crashtest.sabotage import put
from earl.crashtest.serving import Server, png, question
from earl.crashtest.small import ready, stream
from earl.service.limits import Deadlines, Limits

FULL = 200  # connections from which on deadlines and times are those of the bar
SHORT = Deadlines(idle=1.0, header=0.4, body=0.6, reading=0.8)
ARRIVING = 4  # new connections in each tenth of a second
LATE = 2.0  # seconds that a connection may be open after its deadline
PACE = 1 / 25  # seconds between two honest questions
RATIO = 3.0  # of the last percent of their times, to that without slow clients
SIDE = 1200  # pixels of an image that fits no buffer
ESTABLISHED = "01"  # in /proc/net/tcp
HEAD = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@dataclass
class Slow:
    """A client that takes its time."""

    kind: str
    port: int
    deadline: float
    opened: socket.socket = field(init=False)
    ended: float | None = None  # seconds after which the service had closed it

    def begin(self) -> "Slow":
        """Connect, and send what its kind sends at once."""
        self.opened = socket.socket()
        self.opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.opened.connect(("127.0.0.1", self.port))
        self.own = self.opened.getsockname()[1]
        self.opened.sendall(FIRST[self.kind])
        self.began = time.monotonic()
        return self

    def trickle(self) -> None:
        """Send one byte more, if it is of that kind."""
        if self.kind in ("header", "body") and self.ended is None:
            try:
                self.opened.send(b"x")
            except OSError:
                return  # it has been closed, which the table of the kernel tells


FIRST = {
    "header": HEAD + b"X-Slow: ",
    "body": HEAD + b"Content-Length: 5000\r\n\r\n{",
    "idle": b"",
    "asked": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",  # and idle then
    "deaf": b"GET /samples/1/image HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "leaving": b"GET /samples/1/image HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
}


def slow_clients(trial: Trial) -> Found:
    """Open slow connections and ask meanwhile; the sabotage knows no deadlines."""
    ready()
    full = trial.count >= FULL
    deadlines = Deadlines() if full else SHORT
    server = begun(trial, deadlines)
    body = question(png(stream(4).images[0]))
    found = trial.found(connections=trial.count, closed=0, latest=0.0)
    longest = max(vars(deadlines).values()) + LATE
    idle = ask_for(server.port, body, longest if full else 0.0, PACE)
    kinds = [*FIRST]
    slow = [
        Slow(kind, server.port, deadline_of(kind, deadlines))
        for kind in (kinds[n % len(kinds)] for n in range(trial.count))
    ]
    patience = LATE if full or trial.sabotage else 30.0  # a short trial measures no seconds
    watcher = threading.Thread(target=watch, args=(server.port, slow, patience))
    watcher.start()
    arriving = trial.count / ARRIVING / 10
    meanwhile = ask_for(server.port, body, arriving + longest if full else 0.5, PACE)
    watcher.join()
    note_closed(slow, patience, found)
    note_honest(idle, meanwhile, full, found)
    found.expect(server.stop() == 0, "it did not end in peace")
    return found


def begun(trial: Trial, deadlines: Deadlines) -> Server:
    """Return a service with an image that fits no buffer, and one that fits the model."""
    server = Server(
        Path(trial.place / "state"),
        limits=Limits(deadlines=deadlines),
        sabotage=patient if trial.sabotage else None,
    ).start()
    noise = np.random.default_rng(0).integers(256, size=(SIDE, SIDE, 3), dtype=np.uint8)
    for image in (noise, stream(4).images[0]):
        server.learn(image, "a")
    server.settle()
    return server


def deadline_of(kind: str, deadlines: Deadlines) -> float:
    names = {"asked": "idle", "deaf": "reading", "leaving": "reading"}
    found: float = getattr(deadlines, names.get(kind, kind))
    return found


def watch(port: int, slow: list[Slow], patience: float) -> None:
    """Begin all, trickle, and note when the service has closed each, until all should be."""
    coming, trickled = list(slow), 0.0
    last = time.monotonic()
    while coming or (time.monotonic() < last and any(one.ended is None for one in slow)):
        for one in coming[:ARRIVING]:
            last = max(last, time.monotonic() + one.begin().deadline + patience)
        del coming[:ARRIVING]
        if time.monotonic() - trickled >= 1.0:
            trickled = time.monotonic()
            for one in slow[: len(slow) - len(coming)]:
                one.trickle()
        there = established(port)
        for one in slow[: len(slow) - len(coming)]:
            if one.ended is None and one.own not in there:
                one.ended = time.monotonic() - one.began
        time.sleep(0.1)


def established(port: int) -> set[int]:
    """Return the ports of clients whose connection a service holds open, as the kernel tells.

    A client that reads nothing does not learn that its connection is closed.
    """
    rows = [row.split() for row in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    return {
        int(row[2].partition(":")[2], 16)
        for row in rows
        if int(row[1].partition(":")[2], 16) == port and row[3] == ESTABLISHED
    }


def note_closed(slow: list[Slow], patience: float, found: Found) -> None:
    for one in slow:
        one.opened.close()
        late = None if one.ended is None else one.ended - one.deadline
        found.figures["closed"] += late is not None
        found.figures["latest"] = max(found.figures["latest"], round(late or 0.0, 1))
        found.expect(
            late is not None and late <= patience,
            f"{one.kind}: closed after {one.ended}, its deadline is {one.deadline} s",
        )


def note_honest(
    idle: list[tuple[int, float]], meanwhile: list[tuple[int, float]], full: bool, found: Found
) -> None:
    """Note how the others were answered meanwhile."""
    right = sum(status == 200 for status, _ in meanwhile)
    found.figures |= {"honest": len(meanwhile), "answered": right}
    found.expect(right == len(meanwhile) > 0, f"{right} of {len(meanwhile)} were answered")
    if full:
        before, during = (
            quantiles([s for _, s in times], n=100)[-1] for times in (idle, meanwhile)
        )
        found.figures["p99"] = round(during / before, 2)
        found.expect(during <= RATIO * before, f"p99 is {during / before:.2f} times as long")


def patient() -> None:
    """The sabotage: no connection has a deadline."""
    from earl.service.http.deadlines import DeadlineProtocol

    def wait(self: DeadlineProtocol, *phase: Any) -> None:
        """Wait for ever."""

    put(DeadlineProtocol, "_enter", wait)
