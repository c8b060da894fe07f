"""C4: ten times more samples than can be learned are refused politely, and nothing grows."""

import http.client
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from earl.bench.serving import LABELS, PACE, images
from earl.crashtest.anytime import MODEL
from earl.crashtest.asking import ask_for
from earl.crashtest.bombs import memory_of
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import ended, fork
from earl.crashtest.sabotage import put
from earl.crashtest.serving import JSON, PATIENCE, Server, lesson, operations, question
from earl.crashtest.small import ready
from earl.service.limits import Limits
from earl.service.session import Session

TIMES = 10  # what can be learned is offered
CLIENTS = 16
FULL = 20  # seconds from which on times are held to the bar
MB, ACK = 100, 1.0  # more memory, and seconds of 99 of 100 answers to samples
RATIOS = {"p50": 1.5, "p99": 3.0}  # of questions, to those while it rests
WARM = 6  # samples that tell how fast it learns


def overload(trial: Trial) -> Found:
    """Post far too much for so many seconds, and ask; the sabotage takes whatever comes."""
    ready()
    limits = Limits(waiting=3 * trial.count + 4, snapshot_seconds=1.0)
    hook = without_bound if trial.sabotage else None
    server = Server(trial.place / "state", limits=limits, sabotage=hook, model=MODEL).start()
    pictures = images()
    rate = TIMES * measured_rate(server, pictures)
    found = trial.found(seconds=trial.count, offered=0, accepted=0, refused=0, errors_5xx=0)
    full, body = trial.count >= FULL, question(pictures[0])
    assert server.life is not None
    idle = ask_for(server.port, body, trial.count, PACE) if full else []
    held = memory_of(server.life.pid)
    log = trial.place / "flood"
    child = fork(lambda: flood(server.port, pictures, rate, trial.count, log))
    meanwhile = ask_for(server.port, body, trial.count, PACE)
    waiting = server.status()["waiting"]
    found.expect(waiting <= limits.waiting, f"{waiting} samples wait; {limits.waiting} may")
    found.expect(ended(child) == 0, "the clients have failed")
    rows = json.loads(log.read_text("ascii"))
    note_rows(rows, full, found)
    note_questions(idle, meanwhile, full, found)
    server.settle(10 * PATIENCE)
    more = round(memory_of(server.life.pid) - held, 1)
    found.figures["mb"] = more
    found.expect(more < MB, f"{more} MB more were held")
    found.expect(server.stop() == 0, "it did not end in peace")
    note_applied(server.folder, rows, found)
    return found


def measured_rate(server: Server, pictures: list[bytes]) -> float:
    """Teach a few samples; return how many are learned in a second."""
    server.ask("POST", "/learn", body=lesson(pictures[0], "0"), headers=JSON)
    server.settle()
    began = time.monotonic()
    for place in range(1, WARM):
        body = lesson(pictures[place], str(place % LABELS))
        server.ask("POST", "/learn", body=body, headers=JSON)
    server.settle()
    return (WARM - 1) / (time.monotonic() - began)


def flood(port: int, pictures: list[bytes], rate: float, seconds: float, log: Path) -> int:
    """Post at this rate for so long from many connections; write down all answers."""
    end = time.monotonic() + seconds

    def post(client: int) -> list[Any]:
        rng, rows = random.Random(client), []
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        while (began := time.monotonic()) < end:
            body = lesson(rng.choice(pictures), str(rng.randrange(LABELS)))
            connection.request("POST", "/learn", body, JSON)
            answer = connection.getresponse()
            told = json.loads(answer.read())
            took = time.monotonic() - began
            retry = answer.headers.get("Retry-After") is not None
            rows.append([answer.status, took, retry, told.get("seq", 0)])
            time.sleep(max(0.0, began + CLIENTS / rate - time.monotonic()))
        connection.close()
        return rows

    with ThreadPoolExecutor(CLIENTS) as clients:
        rows = [row for found in clients.map(post, range(CLIENTS)) for row in found]
    log.write_text(json.dumps(rows), "ascii")
    return 0


def note_rows(rows: list[Any], full: bool, found: Found) -> None:
    """Note how samples were answered."""
    count = {status: sum(row[0] == status for row in rows) for status in {row[0] for row in rows}}
    found.figures |= {"offered": len(rows), "accepted": count.get(202, 0)}
    found.figures |= {"refused": count.get(429, 0)}
    found.figures["errors_5xx"] = sum(n for status, n in count.items() if status >= 500)
    found.expect(set(count) == {202, 429}, f"answers other than 202 and 429, or only one: {count}")
    mute = sum(row[0] == 429 and not row[2] for row in rows)
    found.expect(mute == 0, f"{mute} refusals do not say when to try again")
    if full:
        ack = quantiles([row[1] for row in rows], n=100)[-1]
        found.figures["ack_p99"] = round(ack, 3)
        found.expect(ack < ACK, f"99 of 100 answers took up to {ack:.2f} s")


def note_questions(
    idle: list[tuple[int, float]], meanwhile: list[tuple[int, float]], full: bool, found: Found
) -> None:
    """Note how questions were answered beside."""
    wrong = [status for status, _ in meanwhile if status != 200]
    found.expect(not wrong, f"questions were answered with {wrong[:5]}")
    if full:
        before, during = ([seconds for _, seconds in rows] for rows in (idle, meanwhile))
        ratios = {
            "p50": median(during) / median(before),
            "p99": quantiles(during, n=100)[-1] / quantiles(before, n=100)[-1],
        }
        for name, value in ratios.items():
            found.figures[name] = round(value, 2)
            found.expect(value <= RATIOS[name], f"{name} of questions is {value:.2f} times as long")


def note_applied(folder: Path, rows: list[Any], found: Found) -> None:
    """Note what was acknowledged and is not in the journal, or more than that."""
    there = {one.seq for one in operations(folder)}
    acknowledged = {row[3] for row in rows if row[0] == 202}
    lost = acknowledged - there
    found.figures["lost"] = len(lost)
    found.expect(not lost, f"acknowledged and not there: {sorted(lost)[:5]}")
    count = WARM + len(acknowledged)
    found.expect(len(there) == count, f"{len(there)} rows of {count} samples")


def without_bound() -> None:
    """The sabotage: any number of samples may wait."""
    put(Session, "check_can_learn", lambda self, count=1: None)
