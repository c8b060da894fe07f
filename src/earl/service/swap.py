"""A state that was made anew takes the place of the old one, at once.

    state/.tmp-rebuild/    the new journal and snapshot while they are made; garbage after a kill
    state/rebuilt/         the same when they are complete: from then on the old state goes

Until the new directory has its name, the old state is as it was. A kill after that is no loss: the
next start finishes what was begun.
"""

from pathlib import Path

from earl.service.journal import NAME
from earl.storage.files import entries, fsync_dir, remove

DONE = "rebuilt"


def commit(folder: Path, new: Path) -> None:
    """Let a complete new state in a directory below take the place of the old one."""
    fsync_dir(new)
    new.rename(folder / DONE)
    fsync_dir(folder)
    finish(folder)


def finish(folder: Path) -> None:
    """Put a state that was rebuilt in the place of the old one; does nothing if there is none.

    As long as the new journal has not moved, all that lies outside is old; afterwards nothing is.
    """
    done = folder / DONE
    if not done.is_dir():
        return
    if (done / NAME).exists():
        for path in (*entries(folder, "snap-"), *entries(folder, "bad-"), *entries(folder, NAME)):
            remove(path)
        fsync_dir(folder)
        (done / NAME).rename(folder / NAME)
        fsync_dir(folder)
    for path in entries(done, "snap-"):
        path.rename(folder / path.name)
    fsync_dir(folder)
    remove(done)
