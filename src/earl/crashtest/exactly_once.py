"""A1 and C5 of the service: killed at random while clients post; every sample counts once."""

import random
from pathlib import Path
from typing import Any

from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import ask_child, pause
from earl.crashtest.sabotage import put
from earl.crashtest.serving import Poster, Server, operations, replayed, saved
from earl.crashtest.small import ready, stream
from earl.service.operations import Receipt
from earl.service.writer import Letter, Writer

LONGEST = 0.6  # seconds of a life after it listens
FULL = 100  # kills from which on the number of samples is that of the bar


def kills_service(trial: Trial) -> Found:
    """One client posts in a fixed order; the sabotage answers before the transaction."""
    return killed(trial, clients=1, samples=1500 if trial.count >= FULL else 6 * trial.count)


def exactly_once(trial: Trial) -> Found:
    """Four clients post, retry and leave; the sabotage answers before the transaction."""
    return killed(trial, clients=4, samples=10 * trial.count)


def killed(trial: Trial, clients: int, samples: int) -> Found:
    """Kill a service so often while clients post to it; compare it with its own journal."""
    ready()
    rng, given = trial.rng, stream(samples)
    server = Server(trial.place / "state", sabotage=early_answers if trial.sabotage else None)
    posters = [
        Poster(
            server.port, f"client{n}", given, range(n, samples, clients), trial.place / f"{n}", n
        )
        for n in range(clients)
    ]
    found = trial.found(kills=0, samples=samples, clients=clients)
    for poster in posters:
        poster.begin()
    for n in range(trial.count):
        kill_once(server, posters, max(1, samples // trial.count // clients), rng)
        found.figures["kills"] = n + 1
    server.start()
    codes = [poster.wait() for poster in posters]
    found.expect(not any(codes), f"clients ended with {codes}")
    check_reuse(server, found)
    server.settle()
    code = server.stop()
    found.expect(code == 0, f"the service ended with {code}")
    compare(server.folder, posters, samples, found)
    return found


def kill_once(server: Server, posters: list[Poster], tickets: int, rng: random.Random) -> None:
    """Live once, for a while after it listens or while it starts."""
    life = server.begin()
    if rng.random() < 0.2:
        pause(rng.random() * 0.3)
    else:
        life.hear(1)
        for poster in posters:
            poster.allow(tickets)
        pause(rng.random() * LONGEST)
    life.kill()


def check_reuse(server: Server, found: Found) -> None:
    """Post another sample under a key that was used: it is refused."""
    samples = stream(4)
    status, answer = server.learn(samples.images[0] ^ 255, "another label", "client0-0")
    found.expect(status == 422, f"another sample under the same key: {status} {answer}")


def compare(folder: Path, posters: list[Poster], samples: int, found: Found) -> None:
    """Compare the journal with what was acknowledged, and the state with the journal."""
    rows = operations(folder)
    places = {one.key: one.seq for one in rows}
    told = {key: seq for poster in posters for key, seq in poster.acknowledged().items()}
    lost = [key for key, seq in told.items() if places.get(key) != seq]
    twice = len(rows) - len(places)
    order = [one.seq for one in rows] == list(range(1, len(rows) + 1))
    found.figures |= {"rows": len(rows), "lost": len(lost), "dup": twice}
    found.expect(not lost, f"acknowledged and not there: {lost[:5]}")
    found.expect(twice == 0, f"{twice} keys stand twice")
    found.expect(order, "the places are not 1, 2, 3, …")
    found.expect(len(rows) == samples, f"{len(rows)} rows of {samples} samples")
    again, there = ask_child(lambda: replayed(folder)), ask_child(lambda: saved(folder))
    same = there is not None and there == [again, len(rows)]
    found.figures["identical"] = int(same)
    found.expect(same, f"the state {there} is not that of its journal, {again}")


def early_answers() -> None:
    """The sabotage: answer before anything is on the disk."""
    write = Writer._write

    def early(self: Writer, db: Any, letters: list[Letter]) -> None:
        for letter in letters:
            if letter.wishes:
                receipts = [
                    Receipt(self.last + 1 + n, self.last + 1 + n, wish.label, wish.source)
                    for n, wish in enumerate(letter.wishes)
                ]
                letter.answer.set_result(receipts)
        pause(0.1)
        again = [Letter(one.wishes, one.admit) if one.wishes else one for one in letters]
        write(self, db, again)

    put(Writer, "_write", early)
