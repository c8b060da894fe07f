"""Unpacking archives that may be hostile: nothing is written but plain files below one folder.

Every member is checked and copied by this file's own loop: no links, devices, absolute names, `..`,
names that occur twice, encrypted members; never more members or bytes than were allowed, counted
as they come out, whatever the archive promises. Until all is well the files lie in a folder of
their own, which is removed if something is not.
"""

import gzip
import io
import os
import secrets
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from earl.durable import make_directory, remove
from earl.errors import EarlError, UnsafeArchive

CHUNK = 1 << 20
LONGEST_NAME = 255  # bytes of one part of a path
DEEPEST = 16  # folders inside each other
HEADERS = 1 << 20  # bytes that may come before a member of a tar
DIRECTORY_ENTRY = 46 + 2 * LONGEST_NAME  # bytes of a zip's directory per member, at most on average
DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, ValueError),
    *(LookupError, struct.error, OverflowError, NotImplementedError, RuntimeError),
)


@dataclass(frozen=True)
class Limits:
    """How much an archive may hold."""

    bytes: int
    members: int


@dataclass
class Writer:
    """Writes members below a folder; refuses what does not belong there."""

    folder: Path
    limits: Limits
    written: int = 0
    members: int = 0
    _seen: dict[str, bool] = field(default_factory=dict)  # by folded name: is it a folder?

    def enter(self, name: str, is_folder: bool) -> Path:
        """Return where a member goes, after all checks on its name."""
        self.members += 1
        if self.members > self.limits.members:
            raise UnsafeArchive(f"it holds more than {self.limits.members:,} members")
        parts = checked_parts(name)
        folded = [part.casefold() for part in parts]
        for depth in range(1, len(parts)):
            if not self._seen.setdefault("/".join(folded[:depth]), True):
                raise UnsafeArchive(f"{name!r} lies inside a file")
        if self._seen.get("/".join(folded), is_folder) != is_folder or (
            not is_folder and "/".join(folded) in self._seen
        ):
            raise UnsafeArchive(f"{name!r} occurs twice")
        self._seen["/".join(folded)] = is_folder
        return self.folder.joinpath(*parts)

    def make_folder(self, name: str) -> None:
        self.enter(name, is_folder=True).mkdir(parents=True, exist_ok=True)

    def write(self, name: str, data: IO[bytes]) -> None:
        """Copy a member to its file, which must be new."""
        target = self.enter(name, is_folder=False)
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(target, flags | getattr(os, "O_BINARY", 0), 0o644), "wb") as file:
            while chunk := data.read(CHUNK):
                self.written += len(chunk)
                if self.written > self.limits.bytes:
                    raise UnsafeArchive(f"it unpacks to more than {self.limits.bytes:,} bytes")
                file.write(chunk)


def checked_parts(name: str) -> tuple[str, ...]:
    """Return the parts of a member's name; anything that is no plain relative path is refused."""
    parts = tuple(part for part in name.removesuffix("/").split("/") if part != ".")
    plain = parts and all(parts) and ".." not in parts
    if not plain or PurePosixPath(name).is_absolute() or any(c in name for c in '\\:*?"<>|'):
        raise UnsafeArchive(f"{name!r} is not a plain relative path")
    if any(ord(c) < 32 for c in name) or any(part[-1] in ". " for part in parts):
        raise UnsafeArchive(f"{name!r} is not a plain relative path")
    longest = max(len(part.encode("utf-8", "surrogateescape")) for part in parts)
    if longest > LONGEST_NAME or len(parts) > DEEPEST:
        raise UnsafeArchive(f"the name {name[:60]!r}... is too long or too deep")
    return parts


@contextmanager
def unpacked(archive: Path, beside: Path, limits: Limits) -> Iterator[Path]:
    """Unpack a .tar.gz or .zip into a new folder inside `beside`, which is removed afterwards.

    Whoever wants to keep something moves it away before.
    """
    make_directory(beside)
    folder = beside / f".unpacking-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700)
    try:
        unpack(archive, Writer(folder, limits))
        yield folder
    finally:
        remove(folder)


def unpack(archive: Path, writer: Writer) -> None:
    """Write all members of an archive; UnsafeArchive says what is wrong with it."""
    kind: Callable[[Path, Writer], None] = unpack_zip if is_zip(archive) else unpack_tar
    try:
        kind(archive, writer)
    except UnsafeArchive as error:
        raise UnsafeArchive(f"{archive} was not unpacked: {error}") from None
    except DAMAGED as error:
        raise UnsafeArchive(f"{archive} was not unpacked: it is damaged ({error})") from None
    except OSError as error:
        raise EarlError(f"{archive} could not be unpacked: {error}") from None


def is_zip(archive: Path) -> bool:
    with archive.open("rb") as file:
        return file.read(2) == b"PK"


class Meter(io.RawIOBase):
    """Hands on what a stream gives, up to an allowance: a bomb stops before it is in memory."""

    def __init__(self, inner: IO[bytes]) -> None:
        self._inner = inner
        self.allowed = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self.allowed:
            raise UnsafeArchive("one of its headers is too large")
        data = self._inner.read(size)
        self.allowed -= len(data)
        return data


def unpack_tar(archive: Path, writer: Writer) -> None:
    """Unpack a tar, packed with gzip or not at all, front to back."""
    with archive.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        inner: IO[bytes] = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
        meter = Meter(inner)
        meter.allowed = HEADERS
        with tarfile.open(fileobj=meter, mode="r|", bufsize=tarfile.RECORDSIZE) as tar:
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # it would remember all of them
                if member.isdir():
                    writer.make_folder(member.name)
                elif member.isreg() and not member.issparse():
                    meter.allowed = member.size + HEADERS
                    data = tar.extractfile(member)
                    if data is None:
                        raise UnsafeArchive(f"{member.name!r} holds nothing that can be read")
                    writer.write(member.name, data)
                else:
                    raise UnsafeArchive(f"{member.name!r} is neither a file nor a folder")
                meter.allowed = HEADERS


def unpack_zip(archive: Path, writer: Writer) -> None:
    """Unpack a zip by its directory, whose size is checked before it is read."""
    check_directory(archive, writer.limits)
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            mode = stat.S_IFMT(member.external_attr >> 16)
            if member.orig_filename != member.filename:
                raise UnsafeArchive(f"{member.orig_filename!r} is not a plain relative path")
            if member.flag_bits & 0x1:
                raise UnsafeArchive(f"{member.filename!r} is encrypted")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise UnsafeArchive(f"{member.filename!r} is packed in an unusual way")
            if mode not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise UnsafeArchive(f"{member.filename!r} is neither a file nor a folder")
            if member.is_dir():
                writer.make_folder(member.filename)
            else:
                with opened.open(member) as data:
                    writer.write(member.filename, data)


def check_directory(archive: Path, limits: Limits) -> None:
    """Refuse a zip whose directory is too large to be read into memory."""
    with archive.open("rb") as file:
        file.seek(max(0, archive.stat().st_size - (1 << 16) - 22 - 76))
        tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) - end < 22:
        raise UnsafeArchive("it has no directory")
    count, size = struct.unpack_from("<HI", tail, end + 10)
    large = tail.rfind(b"PK\x06\x06", 0, end)
    if large >= 0 and len(tail) - large >= 56:  # the 64-bit form, for more than 65 535 members
        count64, size64 = struct.unpack_from("<QQ", tail, large + 32)
        count, size = max(count64, count % 0xFFFF), max(size64, size % 0xFFFFFFFF)
    if count > limits.members or size > limits.members * DIRECTORY_ENTRY:
        raise UnsafeArchive(f"it holds more than {limits.members:,} members")
