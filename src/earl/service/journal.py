"""The journal: every operation in one table of SQLite, which is also the queue of the learner.

    operations   one row for each operation, in the order `seq` in which all are done
    samples      what the rows say of each sample by now, and what was answered about it
    labels       every label that was ever taught, since when, and how many samples it has by now
    meta         who this journal is, and the parameters of the model

A row is acknowledged when its transaction is on the disk (write-ahead log, synchronous=FULL). One
thread writes (`earl.service.writer`); others read with connections of their own.
"""

import json
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from earl.errors import SnapshotError
from earl.service.operations import Operation, Outcome
from earl.service.refusals import Refused
from earl.storage.files import fsync_dir, write_file

FORMAT = 1
NAME = "journal.db"
WAL_LIMIT = 4 << 20  # bytes of the log after which its pages move into the file
PAGES, CONNECTIONS = 2 << 20, 8  # bytes that SQLite keeps of each connection; how many there are
AT_ONCE = 8 << 20  # bytes of images that are read at once

SCHEMA = """
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE operations(
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, sample INTEGER, label TEXT, source TEXT NOT NULL,
    token TEXT NOT NULL, key TEXT UNIQUE, gone TEXT, payload BLOB NOT NULL, seal BLOB NOT NULL,
    image BLOB);
CREATE TABLE samples(
    id INTEGER PRIMARY KEY, label TEXT NOT NULL, taught TEXT NOT NULL, source TEXT NOT NULL,
    changed INTEGER NOT NULL, forgotten INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL,
    predicted TEXT, right INTEGER, error TEXT);
CREATE INDEX samples_by_label ON samples(label, id);
CREATE INDEX samples_by_source ON samples(source, id);
CREATE TABLE labels(
    label TEXT PRIMARY KEY, since INTEGER NOT NULL, live INTEGER NOT NULL) WITHOUT ROWID;
"""
COLUMNS = "seq, kind, sample, label, source, token, key, gone, seal, image"


class DamagedRow(Exception):
    """A row is not what was written."""


def connect(path: Path, *, read_only: bool = True) -> sqlite3.Connection:
    """Return a connection of the calling thread; what is written must reach the disk."""
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10, check_same_thread=False)
    if not read_only:
        mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":  # so SQLite tells that the disk has failed
            db.close()
            raise sqlite3.OperationalError("its log cannot be begun: disk I/O error")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA wal_autocheckpoint=0")  # done by hand: then no error goes unnoticed
        db.execute(f"PRAGMA journal_size_limit={WAL_LIMIT}")
    return db


class Journal:
    """The journal of one state directory, for reading; made if it is missing.

    With `read_only` nothing is made or changed, and another process may write meanwhile.
    """

    def __init__(
        self, folder: Path, parameters: Mapping[str, Any], *, read_only: bool = False
    ) -> None:
        self.path = folder / NAME
        self._local = threading.local()
        self._open: set[sqlite3.Connection] = set()  # of all threads
        if not read_only:
            self._make(parameters)
        self.id = self.meta("id")
        self.parameters: dict[str, Any] = json.loads(self.meta("parameters"))

    def _make(self, parameters: Mapping[str, Any]) -> None:
        if not self.path.exists():
            write_file(self.path, b"")
            fsync_dir(self.path.parent)
        with closing(connect(self.path, read_only=False)) as db:
            try:
                self._prepare(db, parameters)
            finally:
                self._hold()

    def _hold(self) -> None:
        """Read a little: the last connection that is closed flushes, and tells no error of it."""
        with suppress(sqlite3.Error):
            self.db.execute("SELECT count(*) FROM sqlite_master").fetchall()

    def _prepare(self, db: sqlite3.Connection, parameters: Mapping[str, Any]) -> None:
        try:
            tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        except sqlite3.DatabaseError as error:
            raise SnapshotError(
                f"{self.path} is damaged ({error}); put it back from a copy"
            ) from error
        if tables:
            return
        facts = {"format": str(FORMAT), "id": secrets.token_hex(16), "trimmed": "0"}
        facts["parameters"] = json.dumps(dict(parameters), sort_keys=True)
        statements = [line for line in SCHEMA.split(";") if line.strip()]
        db.execute("BEGIN IMMEDIATE")
        for statement in statements:
            db.execute(statement)
        db.executemany("INSERT INTO meta VALUES (?, ?)", facts.items())
        db.execute("COMMIT")

    @property
    def db(self) -> sqlite3.Connection:
        """The connection of this thread, for reading."""
        if not hasattr(self._local, "db"):
            self._local.db = connect(self.path)
            self._local.db.row_factory = sqlite3.Row
            self._open.add(self._local.db)
        found: sqlite3.Connection = self._local.db
        return found

    def close(self) -> None:
        """Close the connections of all threads, which must not read any more."""
        while self._open:
            self._open.pop().close()
        self._local = threading.local()

    def meta(self, name: str) -> str:
        row = self.db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row["value"])

    def last(self) -> int:
        """Return the number of the last operation."""
        row = self.db.execute("SELECT coalesce(max(seq), 0) AS last FROM operations").fetchone()
        return max(int(row["last"]), self.trimmed())

    def trimmed(self) -> int:
        """Return the number of the last operation that is no longer kept; 0 if all are."""
        return int(self.meta("trimmed"))

    def after(self, seq: int, limit: int = 32) -> Iterator[Operation]:
        """Yield the operations after this one; DamagedRow if one is not what was written."""
        query = f"SELECT {COLUMNS} FROM operations WHERE seq > ? ORDER BY seq LIMIT ?"
        rows, size, expected = [], 0, seq + 1
        with closing(self.db.execute(query, (seq, limit))) as cursor:  # ends the read transaction
            for row in cursor:
                rows.append(row)
                size += len(row["image"] or b"")
                if size > AT_ONCE:
                    break
        for row in rows:
            if row["seq"] != expected:
                raise DamagedRow(f"operation {expected} is missing in {self.path}")
            expected += 1
            yield operation(row)

    def image(self, sample: int) -> bytes | None:
        """Return the image of a sample as it was posted, if it is kept."""
        query = "SELECT image FROM operations WHERE seq = ? AND kind = 'learn'"
        row = self.db.execute(query, (sample,)).fetchone()
        return None if row is None else row["image"]

    def labels(self) -> dict[str, int]:
        """Return every label that was ever taught, with the operation that brought it."""
        rows = self.db.execute("SELECT label, since FROM labels ORDER BY since")
        return {row["label"]: row["since"] for row in rows}

    def sources(self) -> dict[str, int]:
        """Return how many samples came from each source."""
        rows = self.db.execute("SELECT source, count(*) AS n FROM samples GROUP BY source")
        return {row["source"]: row["n"] for row in rows}

    def sample(self, sample: int) -> sqlite3.Row | None:
        """Return what is known of a sample."""
        row: sqlite3.Row | None = self.db.execute(
            "SELECT * FROM samples WHERE id = ?", (sample,)
        ).fetchone()
        return row

    def samples(self, where: Mapping[str, str | int], limit: int) -> list[sqlite3.Row]:
        """Return samples, the newest first; `where` may say after, before, label, source, key."""
        tests = {
            "after": "id > ?",
            "before": "id < ?",
            "label": "label = ?",
            "source": "source = ?",
            "key": "id IN (SELECT coalesce(sample, seq) FROM operations WHERE key = ?)",
        }
        chosen = " AND ".join(tests[name] for name in where) or "1"
        query = f"SELECT * FROM samples WHERE {chosen} ORDER BY id DESC LIMIT ?"
        return self.db.execute(query, (*where.values(), limit)).fetchall()

    def size(self) -> int:
        """Return the bytes of the journal, its log included."""
        logs = (self.path, self.path.with_name(NAME + "-wal"))
        return sum(path.stat().st_size for path in logs if path.exists())


def operation(row: sqlite3.Row) -> Operation:
    """Return a row as an operation; DamagedRow if its seal is broken."""
    fields = {name: row[name] for name in row.keys() if name != "seal"}  # noqa: SIM118
    found = Operation(**fields)
    if found.seal() != row["seal"]:
        raise DamagedRow(f"operation {found.seq} of the journal is damaged")
    return found


def sample_of(db: sqlite3.Connection, sample: int) -> sqlite3.Row:
    """Return what is known of a sample; Refused if there is none."""
    row: sqlite3.Row | None = db.execute("SELECT * FROM samples WHERE id = ?", (sample,)).fetchone()
    if row is None:
        raise Refused(404, "no_such_sample", f"there is no sample {sample}")
    return row


def image_of(db: sqlite3.Connection, sample: int) -> bytes:
    """Return the image of a sample; Refused if it is no longer kept."""
    row = db.execute("SELECT image FROM operations WHERE seq = ?", (sample,)).fetchone()
    if row is None:
        detail = f"the image of sample {sample} is no longer kept; teach it anew"
        raise Refused(410, "trimmed", detail)
    return bytes(row["image"])


def withdraw(db: sqlite3.Connection, label: str) -> str | None:
    """Count a sample of a label less; return the label if that was the last one."""
    db.execute("UPDATE labels SET live = live - 1 WHERE label = ?", (label,))
    row = db.execute("SELECT live FROM labels WHERE label = ?", (label,)).fetchone()
    return label if row["live"] == 0 else None


def trim(db: sqlite3.Connection, before: int, to: int) -> None:
    """Remove the operations after `before` up to `to`, inside a transaction, and remember that."""
    db.execute("DELETE FROM operations WHERE seq > ? AND seq <= ?", (before, to))
    db.execute("DELETE FROM samples WHERE id > ? AND id <= ?", (before, to))
    db.execute("UPDATE meta SET value = ? WHERE name = 'trimmed'", (str(to),))


def note_outcomes(db: sqlite3.Connection, outcomes: Mapping[int, Outcome]) -> None:
    """Write what became of samples, inside a transaction."""
    rows = [(o.predicted, o.right, o.error, sample) for sample, o in outcomes.items()]
    db.executemany("UPDATE samples SET predicted = ?, right = ?, error = ? WHERE id = ?", rows)
