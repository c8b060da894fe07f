"""A4: errors of the disk at every operation of a service: nothing is promised that is not kept."""

import http.client
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from earl.crashtest.faults import Faults, Point, Seen
from earl.crashtest.harness import Found, Trial
from earl.crashtest.sabotage import put
from earl.crashtest.serving import (
    JSON,
    Answer,
    NotServing,
    Server,
    lesson,
    operations,
    png,
    question,
    replayed,
    saved,
)
from earl.crashtest.small import ready, stream
from earl.crashtest.sqlite_disk import default_vfs
from earl.service import session
from earl.service.limits import Limits
from earl.service.operations import Operation
from earl.service.snapshots import Snapshots

SAMPLES = 3  # that are posted in a life
LOG = 30_000  # bytes of SQLite's log after which it is moved: within a life
MOMENT = 0.05  # seconds from an error of the disk until it must be noticed
LONGEST = 10.0  # seconds for a request
Case = tuple[Path, Point, str]  # from which state, where, and which error


def io_errors(trial: Trial) -> Found:
    """Let every call fail in every way; the sabotage tries a flush again that has failed."""
    ready()
    if default_vfs() is None:
        return trial.found(skipped="this-python-has-no-shared-sqlite")
    put(session, "WAL_LIMIT", LOG)
    put(Snapshots, "due", property(lambda self: self.newest < every(self)))
    found = trial.found(points=0, errors=0, acknowledged=0, refused=0, retries=0)
    cases = list(all_cases(trial, found))
    if trial.sabotage:
        cases = [case for case in cases if case[1].call == "fsync"]
    step = max(1.0, len(cases) / trial.count)
    for number in range(min(trial.count, len(cases))):
        start, point, error = cases[int(number * step)]
        shutil.rmtree(trial.place / "now", ignore_errors=True)
        shutil.copytree(start, trial.place / "now")
        meeting = Meeting(trial.place / "now" / "state", point, error, trial.sabotage, found)
        meeting.hold()
        found.figures["errors"] += 1
    return found


def every(snapshots: Snapshots) -> int:
    """Return the number of the last sample after which there is to be a snapshot: each second."""
    rows = operations(snapshots.folder)
    return (rows[-1].seq if rows else 0) // 2 * 2


def all_cases(trial: Trial, found: Found) -> Iterator[Case]:
    """Yield every error at every call of a first start, and of a later life."""
    empty, begun = trial.folder("empty"), trial.folder("begun")
    for start, then in ((empty, begun), (begun, trial.folder("later"))):
        shutil.copytree(start, then, dirs_exist_ok=True)
        meeting = Meeting(then / "state", None, "", False, found)
        meeting.hold()
        points = list(dict.fromkeys(meeting.seen.points))
        found.figures["points"] += len(points)
        yield from ((start, point, error) for point in points for error in point.errors)


@dataclass
class Meeting:
    """One life of a service that meets an error, and one that does not."""

    folder: Path
    point: Point | None
    error: str
    retries: bool
    found: Found

    @property
    def log(self) -> Path:
        return self.folder.parent / "calls"

    @property
    def seen(self) -> Seen:
        return Seen.of(self.log)

    def expect(self, holds: bool, otherwise: str) -> None:
        where = "nowhere" if self.point is None else " ".join(map(str, self.point))
        self.found.expect(holds, f"{where}, {self.error}: {otherwise}")

    def hold(self) -> None:
        self.log.unlink(missing_ok=True)
        faults = Faults(self.folder, self.log, self.point, self.error, self.retries)
        server = Server(self.folder, Limits(snapshot_seconds=0), sabotage=faults.arm, quiet=True)
        begun = len(operations(self.folder)) if self.folder.exists() else 0
        acknowledged: dict[str, int] = {}
        try:
            server.start()
        except NotServing:
            self.expect(self.seen.failed, "it did not start")
        else:
            acknowledged = self.teach(server, begun)
            code = server.stop()
            self.expect(code == 0, f"it ended with {code}")
            self.check_flushes()
        self.expect(self.point is None or self.seen.failed, "the error did not come about")
        self.check_kept(acknowledged, begun)

    def check_flushes(self) -> None:
        """Look for a flush after one had failed; where SQLite was begun it only takes back."""
        retries = 0 if self.point is None else self.seen.flushes_after(self.point)
        self.found.figures["retries"] += retries
        self.expect(retries == 0, f"{retries} flushes after one had failed")

    def teach(self, server: Server, begun: int) -> dict[str, int]:
        """Post samples and ask questions; return the keys that were acknowledged."""
        samples, told = stream(SAMPLES), {}
        for number, image in enumerate(map(png, samples.images)):
            failed = self.seen.flush_failed
            if self.seen.failed:
                time.sleep(MOMENT)
            key = f"{begun}-{number}"
            body = lesson(image, samples.labels[number])
            status, answer = self.ask(server, "/learn", body, {"Idempotency-Key": key})
            self.found.figures["acknowledged" if status == 202 else "refused"] += 1
            self.check_answer(status, answer, failed)
            if status == 202:
                told[key] = answer["seq"]
                self.wait(server, answer["seq"])
            status, answer = self.ask(server, "/predict", question(image), {})
            nothing = not begun and not told and status == 409
            self.expect(status == 200 or nothing, f"a question: {status} {answer}")
        return told

    def check_answer(self, status: int, answer: object, failed: bool) -> None:
        code = answer.get("error") if isinstance(answer, dict) else None
        allowed = status == 202 or (status, code) in (
            (503, "storage_failed"),
            (503, "learner_stopped"),
            (507, "storage_full"),
        )
        self.expect(allowed, f"a sample: {status} {answer}")
        if failed:
            self.expect(code == "storage_failed", f"after a flush that failed: {status} {answer}")

    def ask(self, server: Server, path: str, body: bytes, more: dict[str, str]) -> Answer:
        try:
            return server.ask("POST", path, body=body, headers=JSON | more, timeout=LONGEST)
        except (OSError, http.client.HTTPException) as error:
            return 0, f"{type(error).__name__}: {error}"

    def wait(self, server: Server, seq: int) -> None:
        """Wait until a sample is learned, so that all lives do the same; and look at its health."""
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            status = server.status()
            if status["model_seq"] >= seq or "learning" in str(status["reasons"]):
                break
            time.sleep(0.01)
        if self.seen.flush_failed:
            time.sleep(MOMENT)
            code, answer = server.ask("GET", "/readyz")
            told = code == 503 and answer["status"] == "degraded"
            self.expect(told, f"/readyz after a flush that failed: {code} {answer}")

    def check_kept(self, acknowledged: dict[str, int], begun: int) -> None:
        """Start again on a sound disk: all that was promised is there, and learned once."""
        server = Server(self.folder, Limits(snapshot_seconds=0), quiet=True)
        try:
            server.start()
            server.settle(LONGEST)
        except NotServing as error:
            self.expect(False, f"on a sound disk: {error}")
            return
        self.expect(server.stop() == 0, "on a sound disk it did not end in peace")
        rows = operations(self.folder)
        places = {one.key: one.seq for one in rows}
        lost = [key for key, seq in acknowledged.items() if places.get(key) != seq]
        self.expect(not lost, f"acknowledged and not there: {lost}")
        self.expect(len(places) == len(rows), "a key stands twice")
        most = begun + SAMPLES
        self.expect(len(rows) <= most, f"{len(rows)} rows of {most} samples")
        there = saved(self.folder) if list(self.folder.glob("snap-*")) else None
        again = known_replay(self.folder, rows), len(rows)
        same = there == again or (there is None and not rows)
        self.expect(same, f"the state {there} is not that of its journal, {again}")


def known_replay(folder: Path, rows: Sequence[Operation]) -> str:
    """Return the digest that follows from a journal; most lives end with the same rows."""
    seals = b"".join(one.seal() for one in rows)
    if seals not in _replays:
        _replays[seals] = replayed(folder)
    return _replays[seals]


_replays: dict[bytes, str] = {}
