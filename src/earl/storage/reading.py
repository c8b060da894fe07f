"""Reading files that somebody else may have put there: regular ones only, of bounded size."""

import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from earl.errors import DataNotFound, EarlError, InvalidInput

# Flags that some platforms lack, where 0 leaves `os.open` as it is.
BINARY = getattr(os, "O_BINARY", 0)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK = getattr(os, "O_NONBLOCK", 0)

LARGEST_RECORD = 16 << 20  # bytes of JSON, which takes some 25 times as much when it is parsed

_KINDS = {  # of what is no regular file
    "a link": stat.S_ISLNK,
    "a pipe": stat.S_ISFIFO,
    "a directory": stat.S_ISDIR,
    "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
    "a socket": stat.S_ISSOCK,
}


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
    file = os.fdopen(os.open(path, os.O_RDONLY | NOFOLLOW | NONBLOCK | BINARY), "rb")
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
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | NOFOLLOW | NONBLOCK | BINARY
    try:
        fd = os.open(path, flags, 0o666)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError("it is not a regular file")
    except OSError as error:
        why = "it is a link" if path.is_symlink() else error.strerror or error
        raise EarlError(f"cannot add to {path} ({why}); put the right file there") from None
    return os.fdopen(fd, "ab")
