"""C11: a service that is asked to end under load keeps every promise it has made."""

import time

from earl.crashtest.exactly_once import compare
from earl.crashtest.harness import Found, Trial
from earl.crashtest.serving import Poster, Server, operations, saved
from earl.crashtest.small import ready, stream
from earl.service.session import Session

LONGEST = 10.0  # seconds until it must have ended


def shutdown(trial: Trial) -> Found:
    """End it while clients post, so often; the sabotage ends without saving."""
    ready()
    found = trial.found(stops=0, slowest=0.0, replays=0)
    samples = stream(40)
    server = Server(trial.place / "state", sabotage=unsaved if trial.sabotage else None)
    posters: list[Poster] = []
    for number in range(trial.count):
        server.start()
        log = trial.place / f"{number}"
        poster = Poster(server.port, f"client{number}", samples, range(40), log, number, 0.0)
        poster.begin()
        poster.allow(40)
        while len(poster.acknowledged()) < 3 + number % 7:
            time.sleep(0.01)
        began = time.monotonic()
        code = server.stop()
        seconds = time.monotonic() - began
        told = len(poster.acknowledged())
        found.figures["stops"] += 1
        found.figures["slowest"] = max(found.figures["slowest"], round(seconds, 1))
        found.expect(code == 0, f"it ended with {code}")
        found.expect(seconds <= LONGEST, f"it took {seconds:.1f} s")
        posters.append(poster)
        replays = last_of(server) - saved_at(server)
        found.figures["replays"] += replays
        found.expect(replays == 0, f"the next start would do {replays} operations again")
        found.expect(told > 0, "nothing was acknowledged before it ended")
    server.start()
    found.expect(not any([poster.wait() for poster in posters]), "a client has failed")
    server.settle()
    found.expect(server.stop() == 0, "it did not end in peace")
    compare(server.folder, posters, 40 * trial.count, found)
    return found


def last_of(server: Server) -> int:
    return operations(server.folder)[-1].seq


def saved_at(server: Server) -> int:
    """Return the operation after which the newest snapshot was made; 0 if there is none."""
    if not list(server.folder.glob("snap-*")):
        return 0
    return saved(server.folder)[1]


def unsaved() -> None:
    """The sabotage: end without a snapshot."""

    def stop(session: Session) -> None:
        session.learner.end()
        session.journal.close()
        session.writer.stop()
        session._held.close()

    Session.stop = stop  # type: ignore[method-assign]
