"""A disk that fails or is full: nothing is acknowledged that is not on it, and answers go on."""

import errno
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from earl.errors import SnapshotError
from earl.service import learner, writer
from earl.service.journal import connect
from earl.service.limits import Limits
from earl.service.operations import Wish
from earl.service.refusals import Refused, StorageFailed, StorageFull
from earl.service.session import Session
from earl.service.tokens import SCOPES
from serving import TINY, bearer, png, replayed, running, service_of, settle


def post(session: Session, number: int, label: str = "a", side: int = 20) -> int:
    wish = Wish(kind="learn", image=png(number, side), label=label)
    return session.learn([wish]).result()[0].id


class Failing(sqlite3.Connection):
    """A connection whose disk can fail."""

    broken: str | None = None
    tries = 0

    def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
        if Failing.broken is not None and sql == "COMMIT":
            Failing.tries += 1
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = Failing.broken
            raise error
        return super().execute(sql, *rest)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> type[Failing]:
    def broken(path: Path, *, read_only: bool = True) -> sqlite3.Connection:
        connect(path, read_only=read_only).close()
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Failing)

    monkeypatch.setattr(writer, "connect", broken)
    Failing.broken, Failing.tries = None, 0
    return Failing


def test_after_an_error_of_the_disk_nothing_is_tried_again_and_answers_go_on(
    folder: Path, failing: type[Failing]
) -> None:
    service = service_of(folder)
    assert service.tokens is not None
    headers = bearer(service.tokens.add("first", SCOPES))
    sent: dict[str, Any] = {"headers": headers, "files": {"image": png(1)}, "data": {"label": "a"}}
    with running(service) as url:
        assert httpx2.post(url + "/learn", **sent).status_code == 202
        settle(service.session)
        failing.broken = "SQLITE_IOERR_FSYNC"
        for _ in range(3):
            refused = httpx2.post(url + "/learn", **sent)
            assert refused.status_code == 503 and refused.json()["error"] == "storage_failed"
        assert failing.tries == 1
        del sent["data"]
        assert httpx2.post(url + "/predict", **sent).status_code == 200
        for path in ("/readyz", "/healthz"):
            health = httpx2.get(url + path)
            assert health.status_code == 503 and "storage" in health.json()["reasons"][0]
        failing.broken = None
    assert service.session.journal.last() == 1


def test_a_full_journal_refuses_and_takes_more_when_there_is_room(folder: Path) -> None:
    session = Session(folder, TINY, Limits(journal=400_000))
    session.start()
    taken = []
    with pytest.raises(StorageFull):
        for number in range(200):
            taken.append(post(session, number, side=80))
    settle(session)
    assert session.published.seq == len(taken) > 5
    session.writer.trim_to = 5  # as retention does
    time.sleep(1.5)
    taken.append(post(session, 1))
    assert taken == list(range(1, len(taken) + 1))
    assert (folder / "journal.db").stat().st_size <= 400_000
    settle(session)
    session.stop()


def test_a_disk_that_is_nearly_full_refuses_before_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(folder, TINY)
    session.start()
    usage = type("Usage", (), {"free": 1000, "total": 10**9})
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda folder: usage)
        with pytest.raises(StorageFull, match="make room"):
            post(session, 1)
        assert "make room" in session.reasons()[0]
    assert post(session, 1) == 1 and session.reasons() == []
    session.stop()


def test_too_many_that_wait_are_refused_with_a_time_to_try_again(folder: Path) -> None:
    session = Session(folder, TINY, Limits(waiting=5))
    session.writer.start()
    session.learner.is_alive = lambda: True  # type: ignore[method-assign]
    for number in range(5):
        post(session, number)
    with pytest.raises(Refused) as refused:
        post(session, 6)
    assert refused.value.status == 429 and refused.value.retry_after
    assert "too many samples wait" in session.reasons()
    session.writer.stop()
    session.journal.close()
    session._held.close()


def test_a_damaged_row_stops_learning_and_is_told(folder: Path) -> None:
    session = Session(folder, TINY)
    session.start()
    post(session, 1)
    settle(session)
    session.stop()
    with connect(folder / "journal.db", read_only=False) as db:
        db.execute("UPDATE operations SET label = 'b' WHERE seq = 1")
    db.close()
    for path in folder.glob("snap-*/*"):
        path.unlink()
    for path in folder.glob("snap-*"):
        path.rmdir()
    session = Session(folder, TINY)
    session.start()
    session.learner.join(timeout=30)
    assert "operation 1 of the journal is damaged" in session.reasons()[0]
    with pytest.raises(Refused, match="stopped"):
        post(session, 2)
    session.stop()
    assert not list(folder.glob("snap-*"))  # nothing is saved that nobody vouches for


def test_an_operation_that_cannot_be_done_is_skipped_here_and_in_every_replay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(folder, TINY)
    session.start()
    real = learner.decoded

    def poisoned(data: bytes, size: int) -> Any:
        return real(b"" if data == png(2) else data, size)

    monkeypatch.setattr(learner, "decoded", poisoned)
    for number in (1, 2, 3):
        post(session, number)
    settle(session)
    assert session.skipped == 1 and session.sample(2)["error"]  # type: ignore[index]
    clf = session.learner.clf
    session.stop()
    assert clf.history.samples == 2 and clf.digest() != replayed(session.journal).digest()
    session = Session(folder)
    assert session.applied == 3 and session.sample(2)["error"]  # type: ignore[index]
    session.start()
    session.stop()


def test_a_journal_that_lost_what_a_snapshot_knows_is_refused(folder: Path) -> None:
    session = Session(folder, TINY)
    session.start()
    post(session, 1)
    settle(session)
    session.stop()
    with connect(folder / "journal.db", read_only=False) as db:
        db.execute("DELETE FROM operations")
    db.close()
    with pytest.raises(SnapshotError, match="belongs together"):
        Session(folder)


def test_with_retention_the_journal_keeps_what_the_older_snapshot_needs(folder: Path) -> None:
    session = Session(folder, TINY, Limits(retention=3, snapshot_seconds=0.0))
    session.start()
    for number in range(12):
        post(session, number, "ab"[number % 2])
        settle(session)
    digest = session.learner.clf.digest()
    session.stop()
    trimmed = session.journal.trimmed()
    assert 0 < trimmed <= 9 and session.sample(1) is None
    session.journal.close()
    newest = max(folder.glob("snap-*"))
    (newest / "manifest.json").unlink()  # the older one and the journal still give the same
    session = Session(folder)
    session.start()
    settle(session)
    assert session.learner.clf.digest() == digest
    session.stop()


def test_a_snapshot_that_cannot_be_flushed_ends_teaching_and_none_is_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(folder, TINY)
    session.start()
    post(session, 1)
    settle(session)
    tries = []

    def fail(fd: int) -> None:
        tries.append(fd)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    session.learner.snapshot()
    session.snapshots.wait()
    with pytest.raises(StorageFailed, match="snapshot"):
        post(session, 2)
    assert "storage failed" in session.reasons()[0] and session.published.seq == 1
    session.stop()
    assert len(tries) == 1 and not list(folder.glob("*snap-*"))


def test_storage_failed_is_said_at_once(folder: Path) -> None:
    session = Session(folder, TINY)
    session.writer.failed = "SQLITE_IOERR"
    session.start()
    with pytest.raises(StorageFailed):
        post(session, 1)
    session.stop()
