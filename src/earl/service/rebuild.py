"""Rebuilding a state as if some samples had never been posted."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from earl.errors import InvalidInput, SnapshotError
from earl.service.journal import NAME, Journal
from earl.service.limits import Limits
from earl.service.operations import Operation, Wish
from earl.service.session import Session
from earl.service.swap import commit, finish
from earl.storage.files import lock_directory, remove

NEW = ".tmp-rebuild"
TOGETHER = 64  # operations of one transaction


@dataclass
class Rebuilt:
    """How far a rebuild has come, in operations."""

    total: int
    done: int = 0
    left_out: int = 0  # samples


def rebuild(folder: Path, leaves_out: Callable[[Operation], bool]) -> Iterator[Rebuilt]:
    """Make the state anew from its journal without some samples; yield how far it has come.

    The result is, bit for bit, that of a service which those samples never reached. Samples that
    stay get the ids that they would have had there; their keys stay.
    """
    if not (folder / NAME).exists():
        raise SnapshotError(f"{folder} holds no service: there is no {NAME}")
    with lock_directory(folder):
        finish(folder)
        old = Journal(folder, {})
        if old.trimmed():
            raise SnapshotError(
                f"{folder} was served with --retention: its first {old.trimmed()} operations are "
                "gone, so nothing can be rebuilt without some of them"
            )
        remove(folder / NEW)
        session = Session(folder / NEW, old.parameters, Limits(journal=1 << 50, free=0))
        session.start()
        try:
            yield from taught_again(old, session, leaves_out)
        finally:
            session.stop()
            old.close()
        if (why := session.learner.failed or session.writer.failed) is not None:
            raise SnapshotError(f"the state could not be rebuilt ({why}); it is as it was")
        commit(folder, folder / NEW)


def taught_again(
    old: Journal, session: Session, leaves_out: Callable[[Operation], bool]
) -> Iterator[Rebuilt]:
    """Teach the operations of a journal to a new session, all but those that are left out."""
    ids: dict[int, int] = {}  # of samples: there and here
    so_far, seq = Rebuilt(old.last()), 0
    while batch := list(old.after(seq, TOGETHER)):
        for one in batch:
            seq = one.seq
            if one.kind == "learn" and leaves_out(one):
                so_far.left_out += 1
            elif one.sample is None or one.sample in ids:
                (receipt,) = session.learn([again(one, ids)]).result()
                ids[one.id] = receipt.id
        while session.waiting > TOGETHER and session.learner.is_alive():
            time.sleep(0.05)
        so_far.done = seq
        yield so_far
    while session.waiting and session.learner.is_alive():
        time.sleep(0.05)
    yield so_far


def again(one: Operation, ids: dict[int, int]) -> Wish:
    """Return the wish that an operation came from, with ids as they are now."""
    fields = {name: getattr(one, name) for name in ("kind", "label", "token", "key")}
    if one.kind == "learn":
        return Wish(**fields, image=one.image, source=one.source)
    return Wish(**fields, sample=ids[one.id])


def without_source(journal_sources: dict[str, int], source: str) -> Callable[[Operation], bool]:
    """Return what leaves out the samples of a source; InvalidInput if there are none."""
    if source not in journal_sources:
        known = ", ".join(repr(name) for name in list(journal_sources)[:20]) or "none"
        raise InvalidInput(f"no sample came from {source!r}; the sources are: {known}")
    return lambda one: one.source == source
