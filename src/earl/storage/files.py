"""Files that are complete or missing, never partly written, also after a kill or a power cut.

A function that writes returns when its work is on the disk. An error of `fsync` is raised and never
tried again: the kernel may have dropped the data, so that a second success would prove nothing.
"""

import functools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from earl.errors import DirectoryInUse, EarlError
from earl.storage.reading import BINARY, NOFOLLOW

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_DIRECTORY = getattr(os, "O_DIRECTORY", 0)  # some platforms lack it

Content = bytes | Callable[[], Iterable[bytes | memoryview]]
"""What a file is to hold: bytes, or what makes them piece by piece when it is their turn."""

_held: set[int] = set()  # descriptors of the locks of this process


class FlushFailed(OSError):
    """The disk did not take what was written; whether it holds any of it, nobody can tell."""


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Put this path into an OSError that has none, as those of operations on open files."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def fsync_dir(path: Path) -> None:
    """Make the names in a directory durable: what was created, renamed or removed in it."""
    if os.name == "nt":  # Windows cannot open a directory to flush it
        return
    fd = os.open(path, os.O_RDONLY | _DIRECTORY)
    with naming(path), closing(fd):
        flush(fd)


def make_directory(path: Path) -> None:
    """Make a directory and its missing parents, durably; fine if it is there already."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        fsync_dir(path.parent)


def remove(path: Path) -> None:
    """Remove a file, a link (not its target) or a whole directory; fine if nothing is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def entries(path: Path, prefix: str) -> list[Path]:
    """Return what is in a directory under a name with this prefix; a missing one is empty."""
    try:  # not `glob`, which takes a directory that it may not list for an empty one
        return [entry for entry in path.iterdir() if entry.name.startswith(prefix)]
    except FileNotFoundError:
        return []


def set_aside(path: Path) -> Path:
    """Rename something damaged to `bad-…` beside it, overwriting nothing; return the new path."""
    taken = entries(path.parent, "bad-")
    bad, n = path.with_name(f"bad-{path.name}"), 1
    while bad in taken:
        bad, n = path.with_name(f"bad-{path.name}-{n + 1}"), n + 1
    path.rename(bad)
    fsync_dir(path.parent)
    return bad


def write_file(path: Path, data: Content, mode: int = 0o600) -> None:
    """Write a new file and flush it; a file that exists is an error and stays as it is."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, mode)
    with naming(path), closing(fd):
        _write_all(fd, data)


def _write_all(fd: int, data: Content) -> None:
    for piece in data() if callable(data) else (data,):
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(fd, rest) :]  # a write may take only a part
    flush(fd)


def flush(fd: int) -> None:
    """Have the disk take what was written to a file; FlushFailed if it does not."""
    try:
        os.fsync(fd)
    except OSError as error:
        raise FlushFailed(error.errno, error.strerror) from error


@contextmanager
def closing(fd: int) -> Iterator[None]:
    """Close a descriptor at the end."""
    try:
        yield
    finally:
        os.close(fd)


def append(path: Path, data: bytes, size: int) -> None:
    """Add to a file of this size, and flush it; ValueError if others write to it, too."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | NOFOLLOW | BINARY)
    with naming(path), closing(fd):
        check_size(fd, size)
        _write_all(fd, data)
        check_size(fd, size + len(data))


def check_size(fd: int, size: int) -> None:
    if (found := os.fstat(fd).st_size) != size:
        raise ValueError(f"{found} bytes instead of {size}")


def replace_text(path: Path, text: str) -> None:
    """Give a file a new text at once, as `replace_bytes` does."""
    replace_bytes(path, text.encode())


def replace_bytes(path: Path, data: bytes) -> None:
    """Give a file a new content at once: a reader finds the whole old or the whole new one."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)  # left by a kill
    try:
        write_file(new, data, mode=0o666)  # less the umask, as any other text file
        new.replace(path)
        fsync_dir(path.parent)
    finally:
        new.unlink(missing_ok=True)


def write_dir_atomically(final: Path, files: Mapping[str, Content]) -> None:
    """Write a new directory of files that appears under its name only when it is complete.

    They are written in their order; what is made piece by piece may hang on those before it.

    Until then it is called `.tmp-…`, which is garbage after a kill. A directory that exists is an
    error and stays as it is. Only the owner can read the new one: it may hold private images.
    """
    if os.path.lexists(final):
        raise FileExistsError(f"{final} exists already and is never overwritten")
    if wrong := [name for name in files if name in ("", "..") or Path(name).name != name]:
        raise ValueError(f"{wrong[0]!r} is not a plain file name")
    tmp = final.with_name(f".tmp-{final.name}")
    remove(tmp)  # left by a kill
    tmp.mkdir(mode=0o700)
    try:
        for name, data in files.items():
            write_file(tmp / name, data)
        fsync_dir(tmp)  # the names must be durable before the directory gets its own
        tmp.rename(final)
        fsync_dir(final.parent)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)  # after an error: a full disk needs the room


def refuse_link(path: Path) -> None:
    """Raise EarlError if a directory of ours is a link: what is written would go elsewhere."""
    if path.is_symlink():
        raise EarlError(f"{path} is a link, and we write through none; put the directory there")


@contextmanager
def lock_directory(path: Path) -> Iterator[None]:
    """Keep every other process out of a directory, which is made if it is missing.

    The lock is the kernel's (`flock` on `LOCK`) and ends with this process, however that ends; the
    file stays and means nothing by itself. Windows has no `flock`, and some network file systems
    only pretend to: there nobody is kept out, and whoever writes must notice others by themselves.
    """
    make_directory(path)
    fd = os.open(path / "LOCK", os.O_RDWR | os.O_CREAT | NOFOLLOW, 0o600)
    _held.add(fd)
    try:
        _take(fd, path)
        yield
    finally:
        if fd in _held:  # not in a forked child, which has closed it already
            _held.remove(fd)
            os.close(fd)


def _take(fd: int, path: Path) -> None:
    if fcntl is None:
        return
    _free_children()
    try:
        with naming(path / "LOCK"):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DirectoryInUse(
            f"{path} is in use by another run; wait until it ends, or choose another directory"
        ) from None


@functools.cache  # once per process: such a hook cannot be removed
def _free_children() -> None:
    os.register_at_fork(after_in_child=_give_up_locks)


def _give_up_locks() -> None:
    """Close inherited locks: a child that lives longer than this process would keep them."""
    while _held:
        os.close(_held.pop())
