"""SQLite's own calls of the system, made to fail: by the seam that SQLite keeps for its tests.

`xSetSystemCall` of SQLite's file layer replaces what it calls; `fsync` is not among that, so the
method `xSync` of every file is replaced, too. This works where Python uses SQLite as a shared
library; elsewhere `install` tells that it does not.
"""

import ctypes
import os
import sqlite3
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

SYNC_FAILED = 10 | 4 << 8  # SQLITE_IOERR_FSYNC
METHODS, X_SYNC = 19, 5  # words of sqlite3_io_methods, and which of them is xSync
SHORT = -1  # instead of an error: half of what was to be written

OPEN = CFUNCTYPE(c_int, c_char_p, c_int, c_int, use_errno=True)
WRITE = CFUNCTYPE(ctypes.c_ssize_t, c_int, c_void_p, c_size_t, c_int64, use_errno=True)
TRUNCATE = CFUNCTYPE(c_int, c_int, c_int64, use_errno=True)
UNLINK = CFUNCTYPE(c_int, c_char_p, use_errno=True)
SYNC = CFUNCTYPE(c_int, c_void_p, c_int)
# The name is a pointer, which SQLite keeps: a c_char_p would be a copy, gone after the call.
X_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
SET_CALL = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p)
GET_CALL = CFUNCTYPE(c_void_p, c_void_p, c_char_p)

Meet = Callable[[str, str], int | None]
"""Told a path and a call, before it happens; returns the number of an error, SHORT, or None."""


class Vfs(Structure):
    """sqlite3_vfs, version 3."""

    _fields_ = (
        *((name, c_int) for name in ("iVersion", "szOsFile", "mxPathname")),
        *((name, c_void_p) for name in ("pNext", "zName", "pAppData", "xOpen", "xDelete")),
        *((name, c_void_p) for name in ("xAccess", "xFullPathname", "xDlOpen", "xDlError")),
        *((name, c_void_p) for name in ("xDlSym", "xDlClose", "xRandomness", "xSleep")),
        *((name, c_void_p) for name in ("xCurrentTime", "xGetLastError", "xCurrentTimeInt64")),
        *((name, c_void_p) for name in ("xSetSystemCall", "xGetSystemCall", "xNextSystemCall")),
    )


def install(meet: Meet) -> bool:
    """Let every call that changes a file go through `meet`; tell whether that is possible here.

    This is for a child that is forked for it: nothing is put back.
    """
    vfs = default_vfs()
    if vfs is None:
        return False
    calls = Calls(meet, vfs)
    for name, made in calls.made.items():
        SET_CALL(vfs.xSetSystemCall)(ctypes.addressof(vfs), name, ctypes.cast(made, c_void_p))
    vfs.xOpen = ctypes.cast(calls.opening, c_void_p)
    _kept.append(calls)
    return True


_kept: list["Calls"] = []  # SQLite holds pointers into them


def default_vfs() -> Vfs | None:
    """Return SQLite's file layer; None where Python has a SQLite of its own built in."""
    try:
        library = ctypes.CDLL("libsqlite3.so.0")
    except OSError:
        return None
    library.sqlite3_libversion.restype = c_char_p
    library.sqlite3_vfs_find.restype = POINTER(Vfs)
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8").count("_sqlite3")
    same = library.sqlite3_libversion().decode() == sqlite3.sqlite_version and mapped
    found = library.sqlite3_vfs_find(None)
    return found.contents if same and found and found.contents.iVersion >= 3 else None


class Calls:
    """The calls that take the place of the system's."""

    def __init__(self, meet: Meet, vfs: Vfs) -> None:
        self.meet, self.vfs = meet, vfs
        self.real_open, self.real_unlink = OPEN(self.real(b"open")), UNLINK(self.real(b"unlink"))
        self.real_truncate = TRUNCATE(self.real(b"ftruncate"))
        self.real_x_open = X_OPEN(vfs.xOpen)
        self.methods: dict[int, tuple[Any, Any]] = {}  # of a kind of file: ours, and what it needs
        self.names: dict[int, str] = {}  # of open files
        self.made: dict[bytes, Any] = {
            b"open": OPEN(self.open),
            b"unlink": UNLINK(self.unlink),
            b"ftruncate": TRUNCATE(self.truncate),
        }
        for name in (b"pwrite", b"pwrite64"):
            if address := self.real(name):
                self.made[name] = WRITE(self.writing(WRITE(address)))
        self.opening = X_OPEN(self.x_open)

    def real(self, name: bytes) -> int:
        """Return where a call of SQLite is; 0 if it was built without."""
        return int(GET_CALL(self.vfs.xGetSystemCall)(ctypes.addressof(self.vfs), name) or 0)

    def open(self, path: bytes, flags: int, mode: int) -> int:
        error = self.meet(os.fsdecode(path), "open") if flags & os.O_CREAT else None
        return failed(error) if error else int(self.real_open(path, flags, mode))

    def unlink(self, path: bytes) -> int:
        error = self.meet(os.fsdecode(path), "unlink")
        return failed(error) if error else int(self.real_unlink(path))

    def truncate(self, fd: int, size: int) -> int:
        error = self.meet(name_of(fd), "truncate")
        return failed(error) if error else int(self.real_truncate(fd, size))

    def writing(self, real: Any) -> Callable[[int, int, int, int], int]:
        def write(fd: int, data: int, size: int, offset: int) -> int:
            error = self.meet(name_of(fd), "write")
            if error == SHORT:
                return int(real(fd, data, max(1, size // 2), offset))
            return failed(error) if error else int(real(fd, data, size, offset))

        return write

    def x_open(self, vfs: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        code = int(self.real_x_open(vfs, name, file, flags, out))
        word = ctypes.cast(file, POINTER(c_void_p))  # the first of a file: its methods
        if code == 0 and name is not None and word[0]:
            self.names[file] = os.fsdecode(ctypes.string_at(name))
            word[0] = ctypes.addressof(self.ours(word[0])[0])
        return code

    def ours(self, methods: int) -> tuple[Any, Any]:
        """Return the methods of a kind of file with another xSync."""
        if methods not in self.methods:
            copied = (c_void_p * METHODS).from_buffer_copy(
                (c_void_p * METHODS).from_address(methods)
            )
            real = SYNC(copied[X_SYNC] or 0)

            def sync(file: int, flags: int) -> int:
                error = self.meet(self.names[file], "fsync")
                return SYNC_FAILED if error else int(real(file, flags))

            made = SYNC(sync)
            copied[X_SYNC] = ctypes.cast(made, c_void_p)
            self.methods[methods] = copied, made
        return self.methods[methods]


def failed(error: int) -> int:
    """Return what a call of the system returns after an error."""
    ctypes.set_errno(error)
    return -1


def name_of(fd: int) -> str:
    """Return the path of an open file."""
    return str(Path(f"/proc/self/fd/{fd}").readlink())
