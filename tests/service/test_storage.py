"""A disk that fails or is full: nothing is acknowledged that is not on it, and answers go on."""

import errno
import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from earl.errors import SnapshotError
from earl.service import learner, writer
from earl.service.journal import connect
from earl.service.limits import Limits
from earl.service.refusals import Refused, StorageFailed, StorageFull
from earl.service.session import Session
from serving import TINY, connected, lessons, png, replayed, service_of, settle, started


def post(session: Session, number: int, label: str = "a", side: int = 20) -> int:
    return session.learn(lessons([(png(number, side), label)])).result()[0].id


def served(folder: Path) -> None:
    """Serve one sample."""
    with started(folder, TINY) as session:
        post(session, 1)
        settle(session)


def change(folder: Path, statement: str) -> None:
    """Change a journal behind the back of its service."""
    with closing(connect(folder / "journal.db", read_only=False)) as db:
        db.execute(statement)


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
    service, files, data = service_of(folder), {"image": png(1)}, {"label": "a"}
    with connected(service) as client:
        assert client.post("/learn", files=files, data=data).status_code == 202
        settle(service.session)
        failing.broken = "SQLITE_IOERR_FSYNC"
        for _ in range(3):
            refused = client.post("/learn", files=files, data=data)
            assert refused.status_code == 503 and refused.json()["error"] == "storage_failed"
        assert failing.tries == 1
        assert client.post("/predict", files=files).status_code == 200
        for path in ("/readyz", "/healthz"):
            health = client.get(path)
            assert health.status_code == 503 and "storage" in health.json()["reasons"][0]
        failing.broken = None
    assert service.session.journal.last() == 1


def test_a_full_journal_refuses_and_takes_more_when_there_is_room(folder: Path) -> None:
    with started(folder, TINY, Limits(journal=400_000)) as session:
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


def test_a_disk_that_is_nearly_full_refuses_before_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000, "total": 10**9})
    with started(folder, TINY) as session:
        with monkeypatch.context() as patch:
            patch.setattr("shutil.disk_usage", lambda folder: usage)
            with pytest.raises(StorageFull, match="make room"):
                post(session, 1)
            assert "make room" in session.reasons()[0]
        assert post(session, 1) == 1 and session.reasons() == []


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
    served(folder)
    change(folder, "UPDATE operations SET label = 'b' WHERE seq = 1")
    for path in folder.glob("snap-*"):
        shutil.rmtree(path)
    with started(folder, TINY) as session:
        session.learner.join(timeout=30)
        assert "operation 1 of the journal is damaged" in session.reasons()[0]
        with pytest.raises(Refused, match="stopped"):
            post(session, 2)
    assert not list(folder.glob("snap-*"))  # nothing is saved that nobody vouches for


def test_an_operation_that_cannot_be_done_is_skipped_here_and_in_every_replay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = learner.decoded

    def poisoned(data: bytes, size: int) -> Any:
        return real(b"" if data == png(2) else data, size)

    monkeypatch.setattr(learner, "decoded", poisoned)
    with started(folder, TINY) as session:
        for number in (1, 2, 3):
            post(session, number)
        settle(session)
        assert session.skipped == 1 and session.sample(2)["error"]  # type: ignore[index]
    clf = session.learner.clf
    assert clf.history.samples == 2 and clf.digest() != replayed(session.journal).digest()
    with started(folder) as session:
        assert session.applied == 3 and session.sample(2)["error"]  # type: ignore[index]


def test_a_journal_that_lost_what_a_snapshot_knows_is_refused(folder: Path) -> None:
    served(folder)
    change(folder, "DELETE FROM operations")
    with pytest.raises(SnapshotError, match="belongs together"):
        Session(folder)


def test_with_retention_the_journal_keeps_what_the_older_snapshot_needs(folder: Path) -> None:
    with started(folder, TINY, Limits(retention=3, snapshot_seconds=0.0)) as session:
        for number in range(12):
            post(session, number, "ab"[number % 2])
            settle(session)
    digest = session.learner.clf.digest()
    trimmed = session.journal.trimmed()
    assert 0 < trimmed <= 9 and session.sample(1) is None
    session.journal.close()
    newest = max(folder.glob("snap-*"))
    (newest / "manifest.json").unlink()  # the older one and the journal still give the same
    with started(folder) as session:
        settle(session)
        assert session.learner.clf.digest() == digest


def test_a_snapshot_that_cannot_be_flushed_ends_teaching_and_none_is_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def fail(fd: int) -> None:
        tries.append(fd)
        raise OSError(errno.EIO, "Input/output error")

    with started(folder, TINY) as session:
        post(session, 1)
        settle(session)
        monkeypatch.setattr(os, "fsync", fail)
        session.learner.snapshot()
        session.snapshots.wait()
        with pytest.raises(StorageFailed, match="snapshot"):
            post(session, 2)
        assert "storage failed" in session.reasons()[0] and session.published.seq == 1
    assert len(tries) == 1 and not list(folder.glob("*snap-*"))


def test_storage_failed_is_said_at_once(folder: Path) -> None:
    session = Session(folder, TINY)
    session.writer.failed = "SQLITE_IOERR"
    session.start()
    with pytest.raises(StorageFailed):
        post(session, 1)
    session.stop()
