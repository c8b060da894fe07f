"""C13: a service that is not well never says that it is."""

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from earl.crashtest.gates import Gate
from earl.crashtest.harness import Found, Trial
from earl.crashtest.sabotage import put
from earl.crashtest.serving import Server
from earl.crashtest.small import Samples, ready, stream
from earl.nn import steps
from earl.service import learner, writer
from earl.service.limits import Limits
from earl.service.operations import Operation
from earl.service.session import Session

LATEST = 5.0  # seconds until it must be told
PATHS = ("/healthz", "/readyz")
TAUGHT = 4  # samples before the illness
WAITING = 8  # samples that may wait


@dataclass(frozen=True)
class Illness:
    """What befalls a service after its first samples, and how that must be told."""

    name: str
    befall: Callable[[], object]
    words: str  # of the reasons
    lessons: int = 1  # samples that bring it about


def honest_health(trial: Trial) -> Found:
    """Make services ill, in every way that is known; the sabotage gives no reasons."""
    ready()
    found = trial.found(states=0, told=0, slowest=0.0)
    for illness in ILLNESSES[: trial.count]:
        found.figures["states"] += 1
        examine(illness, trial, found)
    return found


def examine(illness: Illness, trial: Trial, found: Found) -> None:
    """Let one service fall ill, and listen to what it says of itself."""

    def before() -> None:
        illness.befall()
        if trial.sabotage:
            put(Session, "reasons", lambda session: [])

    place = trial.place / illness.name.replace(" ", "-")
    server = Server(place, limits=Limits(waiting=WAITING), sabotage=before).start()
    samples = stream(TAUGHT + 32)
    teach(server, samples, range(TAUGHT))
    server.settle()
    for path in PATHS:
        found.expect(server.ask("GET", path)[1]["status"] == "ok", f"{path}: ill from the start")
    teach(server, samples, range(TAUGHT, TAUGHT + illness.lessons))
    began = time.monotonic()
    longest = LATEST if trial.sabotage else 12 * LATEST  # to tell late from never
    while not (said := told(server, illness)) and time.monotonic() - began < longest:
        time.sleep(0.05)
    seconds = time.monotonic() - began
    found.figures["slowest"] = max(found.figures["slowest"], round(seconds, 1))
    found.figures["told"] += said
    found.expect(
        said and seconds <= LATEST,
        f"{illness.name}: {seconds:.1f} s later it says {[server.ask('GET', p) for p in PATHS]}",
    )
    status, answer = server.predict(samples.images[0])
    found.expect(status == 200, f"{illness.name}: it does not answer any more: {status} {answer}")
    server.kill()


def teach(server: Server, samples: Samples, places: range) -> None:
    """Post samples, which may be refused."""
    for place in places:
        server.learn(samples.images[place], samples.labels[place])


def told(server: Server, illness: Illness) -> bool:
    """Tell whether no path claims that all is well, and both say what is wrong."""
    answers = [server.ask("GET", path) for path in PATHS]
    ready_, health = answers[1][0], [answer["status"] for _, answer in answers]
    right = all(illness.words in " ".join(answer["reasons"]) for _, answer in answers)
    return ready_ == 503 and "ok" not in health and right and not_ok(server)


def not_ok(server: Server) -> bool:
    return bool(server.status()["health"] != "ok")


def after_lessons(act: Callable[[], object]) -> Callable[[], None]:
    """Return what lets something happen in the learner's thread with the next sample."""

    def befall() -> None:
        apply = vars(learner)["apply"]

        def ill(clf: Any, operation: Operation, image: Any) -> Any:
            if operation.seq > TAUGHT:
                act()
            return apply(clf, operation, image)

        put(learner, "apply", ill)

    return befall


def fail() -> None:
    raise RuntimeError("something went wrong")


def vanish() -> None:
    raise SystemExit  # ends a thread without a word


def spoil_steps() -> None:
    """Let every gradient be infinite from now on."""
    put(steps, "take_step", lambda loss, optimizer: False)


def broken_disk() -> None:
    """Let the disk fail when the next sample is written."""

    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            if sql == "COMMIT" and self.execute("SELECT max(seq) FROM operations").fetchone()[0] > (
                TAUGHT
            ):
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
                raise error
            return super().execute(sql, *given)

    connect = vars(writer)["connect"]

    def opened(path: Any, **given: Any) -> sqlite3.Connection:
        connect(path, **given).close()
        return sqlite3.connect(path, isolation_level=None, factory=Failing)

    put(writer, "connect", opened)


def lost_folder() -> None:
    """Let the folder be gone when the next sample is written."""
    grant = writer.Writer._grant

    def granted(self: writer.Writer, db: Any, letter: writer.Letter) -> Any:
        if self.last >= TAUGHT and letter.wishes:
            raise FileNotFoundError("the folder")
        return grant(self, db, letter)

    put(writer.Writer, "_grant", granted)


def stand_still() -> None:
    """Hold every step behind the first ones, for ever."""
    gate = Gate()
    gate.shut()
    gate.let(TAUGHT)


ILLNESSES = (
    Illness("the learner fails", after_lessons(fail), "learning has stopped"),
    Illness("learning stands still", stand_still, "too many samples wait", WAITING),
    Illness("the disk fails", broken_disk, "storage failed"),
    Illness("no step is taken", after_lessons(spoil_steps), "learning pauses", 16),
    Illness("the learner is gone", after_lessons(vanish), "learning has stopped"),
    Illness("the folder is gone", lost_folder, "storage failed"),
)
