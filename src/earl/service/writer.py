"""The one thread that writes to the journal: many wishes in one transaction, then their receipts.

An error of the disk is never tried again: the kernel may have dropped the data, so that a second
success would prove nothing. From then on every wish is refused, and the journal stays as it is.
"""

import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from earl.service.journal import (
    Journal,
    connect,
    image_of,
    note_outcomes,
    sample_of,
    trim,
    withdraw,
)
from earl.service.operations import Operation, Outcome, Receipt, Wish
from earl.service.refusals import Refused, StorageFailed, StorageFull

WAITING = 256  # wishes that wait for the disk, at most
TOGETHER = 64  # wishes of one transaction
TRIMMED_AT_ONCE = 256  # operations that one transaction removes more than it adds
PAGE = 4096  # bytes of a page of SQLite

Admit = Callable[[Sequence[str]], None]
"""Told the labels that wishes would add; raises Refused if they may not come."""


@dataclass
class Letter:
    """Wishes that are granted all or none, and the promise of their receipts."""

    wishes: Sequence[Wish]
    admit: Admit
    answer: "Future[list[Receipt]]" = field(default_factory=Future)


class Writer:
    """Grants wishes in the order in which they come; `committed` operations are on the disk."""

    def __init__(
        self, journal: Journal, *, cap: int, log: int, room: Callable[[], str | None]
    ) -> None:
        self.journal, self.cap, self.log, self.room = journal, cap, log, room
        self.last = self.committed = journal.last()
        self.labels = set(journal.labels())
        self.failed: str | None = None
        self.trim_to = self.trimmed = journal.trimmed()  # operations up to here may go; are gone
        self.written = threading.Condition()  # notified after every transaction
        self._letters: queue.Queue[Letter | None] = queue.Queue(WAITING)
        self._new: list[str] = []  # labels of the transaction
        self._outcomes: dict[int, Outcome] = {}
        self._lock = threading.Lock()  # of the outcomes
        self._thread = threading.Thread()  # until it starts

    def start(self) -> None:
        """Open the journal and begin; raises sqlite3.Error."""
        path = self.journal.path
        db = connect(path, read_only=False)
        db.row_factory = sqlite3.Row
        db.execute(f"PRAGMA max_page_count={max(64, self.cap // PAGE)}")
        self._second = connect(path)
        self._second.execute("SELECT count(*) FROM meta").fetchall()  # it is open only now
        self._thread = threading.Thread(
            target=self._run, args=(db,), name="earl-writer", daemon=True
        )
        self._thread.start()

    def fail(self, why: str) -> None:
        """Refuse everything from now on: the disk can be trusted no more."""
        self.failed = self.failed or why
        with self.written:
            self.written.notify_all()

    def submit(self, wishes: Sequence[Wish], admit: Admit) -> "Future[list[Receipt]]":
        """Have wishes written, all or none; the receipts come when they are on the disk."""
        if self.failed is not None:
            raise StorageFailed(self.failed)
        letter = Letter(wishes, admit)
        try:
            self._letters.put_nowait(letter)
        except queue.Full:
            detail = "too many requests wait for the disk; try again"
            raise Refused(429, "busy", detail, retry_after=1) from None
        return letter.answer

    def note(self, sample: int, outcome: Outcome) -> None:
        """Have the outcome of a sample written with the next transaction, or soon."""
        with self._lock:
            self._outcomes[sample] = outcome

    def noted(self, sample: int) -> Outcome | None:
        """Return the outcome of a sample if it is not on the disk yet."""
        with self._lock:
            return self._outcomes.get(sample)

    def flush(self) -> None:
        """Have all outcomes written by now; returns when they are on the disk, or cannot be."""
        if self.failed is None and self._thread.is_alive():
            letter = Letter((), lambda new: None)
            self._letters.put(letter)
            letter.answer.exception()

    def stop(self) -> None:
        """Grant what waits, then end."""
        if self._thread.is_alive():
            self._letters.put(None)
            self._thread.join()

    # ---- in the thread

    def _run(self, db: sqlite3.Connection) -> None:
        while True:
            try:
                first = self._letters.get(timeout=1.0)
            except queue.Empty:
                if (self._outcomes or self.trim_to > self.trimmed) and self.failed is None:
                    self._write(db, [])
                continue
            letters, ended = self._gather(first)
            if letters:
                self._write(db, letters)
            if ended:
                self._end(db)
                return

    def _end(self, db: sqlite3.Connection) -> None:
        self._write(db, [])
        if self.failed is None:
            self._second.close()
        db.close()  # which moves the log into the file, unless another connection is open
        self._second.close()

    def _gather(self, first: Letter | None) -> tuple[list[Letter], bool]:
        letters: list[Letter] = []
        letter: Letter | None = first
        while letter is not None:
            letters.append(letter)
            if len(letters) == TOGETHER:
                return letters, False
            try:
                letter = self._letters.get_nowait()
            except queue.Empty:
                return letters, False
        return letters, True

    def _write(self, db: sqlite3.Connection, letters: list[Letter]) -> None:
        """Write letters in one transaction, then answer them."""
        if self.failed is not None:
            self._answer_all(letters, StorageFailed(self.failed))
            return
        with self._lock:
            outcomes, self._outcomes = self._outcomes, {}
        before, self._new = self.last, []
        try:
            db.execute("BEGIN IMMEDIATE")
            answers = [self._grant(db, letter) for letter in letters]
            note_outcomes(db, outcomes)
            trimmed = min(self.trim_to, self.trimmed + TRIMMED_AT_ONCE + self.last - before)
            if trimmed > self.trimmed:
                trim(db, self.trimmed, trimmed)
            db.execute("COMMIT")
        except Exception as error:  # also of the folder: this thread must not end unheard
            self._back_to(before, 0)
            with self._lock:
                self._outcomes = outcomes | self._outcomes
            self._answer_all(letters, self._explained(db, error))
            return
        self.committed, self.trimmed = self.last, trimmed
        for letter, answer in zip(letters, answers, strict=True):
            if isinstance(answer, Refused):
                letter.answer.set_exception(answer)
            else:
                letter.answer.set_result(answer)
        with self.written:
            self.written.notify_all()
        self._checkpoint(db)

    def _explained(self, db: sqlite3.Connection, error: Exception) -> Refused:
        """Undo the transaction, and return what to tell those who wait."""
        name = getattr(error, "sqlite_errorname", "") or type(error).__name__
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except sqlite3.Error as second:
            name = getattr(second, "sqlite_errorname", "") or name
            self.fail(f"{name}: {second}")
        if name.startswith("SQLITE_FULL") and self.failed is None:
            return StorageFull("the journal is full; see its cap and the room on its disk")
        self.fail(f"{name}: {error}")
        return StorageFailed(self.failed or name)

    def _answer_all(self, letters: Sequence[Letter], refusal: Refused) -> None:
        for letter in letters:
            letter.answer.set_exception(refusal)

    def _checkpoint(self, db: sqlite3.Connection) -> None:
        """Move the log into the file when it has become long."""
        log = self.journal.path.with_name(self.journal.path.name + "-wal")
        try:
            if log.stat().st_size > self.log:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            self._explained(db, error)
        except OSError:  # gone: there is nothing to move
            return

    def _grant(self, db: sqlite3.Connection, letter: Letter) -> list[Receipt] | Refused:
        """Write the wishes of one letter, or none of them."""
        before, labels = self.last, len(self._new)
        db.execute("SAVEPOINT letter")
        try:
            if letter.wishes and (why := self.room()) is not None:
                raise StorageFull(why)
            known = [self._known(db, wish) for wish in letter.wishes]
            if not all(known):
                wanted = dict.fromkeys(wish.label for wish in letter.wishes if wish.label)
                letter.admit([label for label in wanted if label not in self.labels])
            pairs = zip(letter.wishes, known, strict=True)
            receipts = [receipt or self._enter(db, wish) for wish, receipt in pairs]
            db.execute("RELEASE letter")
            return receipts
        except Refused as refusal:
            db.execute("ROLLBACK TO letter")
            db.execute("RELEASE letter")
            self._back_to(before, labels)
            return refusal

    def _back_to(self, last: int, labels: int) -> None:
        """Take back what was counted since there were so many operations and new labels."""
        self.last = last
        self.labels.difference_update(self._new[labels:])
        del self._new[labels:]

    def _known(self, db: sqlite3.Connection, wish: Wish) -> Receipt | None:
        """Return the receipt of a wish that was granted before under its key."""
        if wish.key is None:
            return None
        query = "SELECT seq, sample, label, source, payload FROM operations WHERE key = ?"
        row = db.execute(query, (wish.key,)).fetchone()
        if row is None:
            return None
        if row["payload"] != wish.sha():
            detail = "this key was used before for something else; take a new one"
            raise Refused(422, "key_reused", detail)
        sample = row["seq"] if row["sample"] is None else row["sample"]
        return Receipt(sample, row["seq"], row["label"], row["source"], duplicate=True)

    def _enter(self, db: sqlite3.Connection, wish: Wish) -> Receipt:
        """Write one wish as an operation, and what follows for its sample."""
        gone, payload = None, wish.sha()
        if wish.sample is not None:
            row = sample_of(db, wish.sample)
            if row["forgotten"] and wish.kind == "relabel":
                raise Refused(
                    409, "forgotten", f"sample {wish.sample} was withdrawn; teach it anew"
                )
            if row["forgotten"] or row["label"] == wish.label:
                return Receipt(row["id"], row["changed"], row["label"], row["source"], True)
            gone = withdraw(db, row["label"])
            image = image_of(db, row["id"]) if wish.kind == "relabel" else None
            wish = replace(wish, source=row["source"], image=image)
        self.last += 1
        entry = Operation(**vars(wish), seq=self.last, gone=gone)
        db.execute(
            "INSERT INTO operations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(entry.seq, entry.kind, entry.sample, entry.label, entry.source, entry.token),
                *(entry.key, entry.gone, payload, entry.seal(), entry.image),
            ),
        )
        self._tell_sample(db, entry)
        return Receipt(entry.id, entry.seq, entry.label, entry.source)

    def _tell_sample(self, db: sqlite3.Connection, entry: Operation) -> None:
        if entry.kind == "learn":
            size = len(entry.image or b"")
            row = (entry.seq, entry.label, entry.label, entry.source, entry.seq, size)
            columns = "id, label, taught, source, changed, bytes"
            db.execute(f"INSERT INTO samples({columns}) VALUES (?, ?, ?, ?, ?, ?)", row)
        elif entry.kind == "relabel":
            change = "UPDATE samples SET label = ?, changed = ? WHERE id = ?"
            db.execute(change, (entry.label, entry.seq, entry.sample))
        else:
            change = "UPDATE samples SET forgotten = 1, changed = ? WHERE id = ?"
            db.execute(change, (entry.seq, entry.sample))
        if entry.label is not None:
            db.execute("INSERT OR IGNORE INTO labels VALUES (?, ?, 0)", (entry.label, entry.seq))
            db.execute("UPDATE labels SET live = live + 1 WHERE label = ?", (entry.label,))
            if entry.label not in self.labels:
                self.labels.add(entry.label)
                self._new.append(entry.label)
