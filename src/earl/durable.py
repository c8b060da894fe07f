"""Files that are wholly there or not there at all, also after a kill or a power cut.

A function that writes returns when its work is on the disk. An error of `fsync` is raised and never
tried again: the kernel may have dropped the pages, and a second success would mean nothing.
"""

import functools
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from earl.errors import DataNotFound, DirectoryInUse, EarlError, InvalidInput

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Flags that some platforms lack, where 0 leaves `os.open` as it is.
_BINARY = getattr(os, "O_BINARY", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)

LARGEST_RECORD = 16 << 20  # bytes of JSON, which takes some 25 times as much when it is parsed

_KINDS = {  # of what is no regular file
    "a link": stat.S_ISLNK,
    "a pipe": stat.S_ISFIFO,
    "a directory": stat.S_ISDIR,
    "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
    "a socket": stat.S_ISSOCK,
}

_held: set[int] = set()  # descriptors of the locks of this process


def fsync_dir(path: Path) -> None:
    """Make the names in a directory durable: what was created, renamed or removed in it."""
    if os.name == "nt":  # Windows cannot open a directory to flush it
        return
    fd = os.open(path, os.O_RDONLY | _DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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


def write_file(path: Path, data: bytes | bytearray, mode: int = 0o600) -> None:
    """Write a new file and flush it; a file that exists is an error and stays as it is."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]  # a write may take only a part
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_text(path: Path, text: str) -> None:
    """Give a file a new content at once: a reader finds the whole old or the whole new text."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)  # left by a kill
    try:
        write_file(new, text.encode(), mode=0o666)  # less the umask, as any other text file
        new.replace(path)
        fsync_dir(path.parent)
    finally:
        new.unlink(missing_ok=True)


def write_dir_atomically(final: Path, files: Mapping[str, bytes | bytearray]) -> None:
    """Write a new directory of files that appears under its name only when it is complete.

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


def read_regular(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    ValueError says that the file is something else (a link, a device, too large), OSError that the
    system could not read it. The bytes are read, not mapped: a mapped file that is cut short
    later would end the process.
    """
    with open_regular(path, limit) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1)
    if len(data) != size:
        raise ValueError(f"{path.name} changed while it was read")
    return data


def open_regular(path: Path, limit: int) -> BufferedReader:
    """Open a regular file of at most `limit` bytes for reading; the errors of `read_regular`."""
    _refuse_other(path, path.lstat().st_mode)  # before opening: a device may act on it
    file = os.fdopen(os.open(path, os.O_RDONLY | _NOFOLLOW | _NONBLOCK | _BINARY), "rb")
    try:
        found = os.fstat(file.fileno())
        _refuse_other(path, found.st_mode)
        if found.st_size > limit:
            raise ValueError(f"{path.name} has {found.st_size} bytes, more than {limit}")
    except BaseException:
        file.close()
        raise
    return file


def _refuse_other(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((kind for kind, test in _KINDS.items() if test(mode)), "no file")
        raise ValueError(f"{path.name} is not a regular file but {kind}")


def read_bounded(path: Path, limit: int, *, follow: bool = False) -> bytes | None:
    """Return the content of a small file, or None if there is none; EarlError says what is wrong.

    Nothing but a regular file is read, and never more than `limit` bytes: a pipe would let us wait
    for ever, a device might have no end. A link is refused, since who made it may not be who owns
    what it leads to; with `follow` it is followed, which is for files that a user has named.
    """
    try:
        with open_regular(path.resolve(strict=True) if follow else path, limit) as file:
            return file.read(os.fstat(file.fileno()).st_size)  # a history may grow meanwhile
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise EarlError(f"{path} was not read: {error}; put the right file there") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        why = getattr(error, "strerror", None) or error
        raise EarlError(f"{path} cannot be read ({why}); put the right file there") from None


def read_text(path: Path, limit: int) -> str:
    """Return the text of a file that a user has named: UTF-8, with or without a mark of it."""
    data = read_bounded(path, limit, follow=True)
    if data is None:
        raise DataNotFound(f"there is no file {path}")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInput(f"{path} is text in UTF-16; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        raise InvalidInput(
            f"{path}, line {line}: the byte {byte:#04x} is not UTF-8, but perhaps Latin-1 or "
            "Windows-1252; save it as UTF-8"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InvalidInput(f"{path}, line {line}: there is a zero byte; save it as UTF-8 text")
    return text


def open_to_append(path: Path) -> BinaryIO:
    """Open a regular file to add to its end, made if it is missing; EarlError if it is no such."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NOFOLLOW | _NONBLOCK | _BINARY
    try:
        fd = os.open(path, flags, 0o666)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError("it is not a regular file")
    except OSError as error:
        why = "it is a link" if path.is_symlink() else error.strerror or error
        raise EarlError(f"cannot add to {path} ({why}); put the right file there") from None
    return os.fdopen(fd, "ab")


def refuse_link(path: Path) -> None:
    """Raise EarlError if a directory of ours is a link: what is written would go elsewhere."""
    if path.is_symlink():
        raise EarlError(f"{path} is a link, and we write through none; put the directory there")


@contextmanager
def lock_directory(path: Path) -> Iterator[None]:
    """Keep every other process out of a directory, which is made if it is missing.

    The lock is the kernel's (`flock` on `LOCK`) and ends with this process, however that ends; the
    file stays and means nothing by itself. Windows has no `flock`: there nobody is kept out.
    """
    make_directory(path)
    fd = os.open(path / "LOCK", os.O_RDWR | os.O_CREAT | _NOFOLLOW, 0o600)
    _held.add(fd)
    try:
        _take(fd, path)
        yield
    finally:
        if fd in _held:  # not in a forked child, which gave it up at birth
            _held.remove(fd)
            os.close(fd)


def _take(fd: int, path: Path) -> None:
    if fcntl is None:
        return
    _free_children()
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DirectoryInUse(
            f"{path} is in use by another run; wait until it ends, or choose another directory"
        ) from None


@functools.cache  # once per process: such a hook cannot be taken back
def _free_children() -> None:
    os.register_at_fork(after_in_child=_give_up_locks)


def _give_up_locks() -> None:
    """Close the inherited locks, or a data loader's worker would hold them after our death."""
    while _held:
        os.close(_held.pop())
