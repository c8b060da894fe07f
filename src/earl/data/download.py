"""Downloads: archives from their publishers, verified before they are opened.

An interrupted download goes on where it stopped.
"""

import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from earl.data.source import Progress, silent
from earl.errors import DataNotFound, EarlError, UnsafeArchive
from earl.storage.files import make_directory

CHUNK = 1 << 18  # bytes read at a time
TIMEOUT = 60  # seconds without a byte

DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, OverflowError),
    *(RuntimeError, NotImplementedError, LookupError),  # encrypted, or packed in an unknown way
)


@dataclass(frozen=True)
class Limits:
    """How much an archive may hold."""

    bytes: int
    members: int


@dataclass(frozen=True)
class Archive:
    """One file to download: where, what it must be, and what it unpacks to."""

    url: str
    checksum: str  # "md5:..." or "sha256:...", as published
    makes: str  # the folder that it holds, and that must not be there yet
    within: str = ""  # where in the data root that folder goes
    limits: Limits = field(default_factory=lambda: Limits(bytes=1 << 30, members=200_000))

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


def clear_archives(
    classes: int, *, train: str, test: str, limits: Limits
) -> tuple[Archive, Archive]:
    """Return the two archives of CLEAR-10 or CLEAR-100, given their checksums."""
    name = f"clear{classes}"
    start = f"https://clear-challenge.s3.us-east-2.amazonaws.com/{name}"
    return (
        Archive(f"{start}-train-image-only.zip", train, "train_image_only", name, limits),
        Archive(f"{start}-test.zip", test, "test", name, limits),
    )


ARCHIVES: dict[str, tuple[Archive, ...]] = {
    "cifar10": (
        Archive(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            makes="cifar-10-batches-bin",
        ),
    ),
    "cifar100": (
        Archive(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "md5:03b5dce01913d631647c71ecec9e9cb8",
            makes="cifar-100-binary",
        ),
    ),
    "tiny-imagenet": (
        Archive(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            "md5:90528d7ca1a48142e341f4ef8d21d0de",
            makes="tiny-imagenet-200",
        ),
    ),
    "clear-10": clear_archives(
        10,
        train="md5:5171f720810d60b471c308dee595d430",
        test="md5:bf9a85bfb78fe742c7ed32648c9a3275",
        limits=Limits(bytes=20 << 30, members=500_000),
    ),
    "clear-100": clear_archives(
        100,
        train="md5:ea85cdba9efcb3abf77eaab5554052c8",
        test="md5:e160815fb5fd4bc71dacd339ff41e6a9",
        limits=Limits(bytes=60 << 30, members=2_000_000),
    ),
}


def download(name: str, root: Path, progress: Progress = silent) -> list[Path]:
    """Download and unpack a data set into the data root; return its folders."""
    if name not in ARCHIVES:
        raise DataNotFound(
            f"{name} cannot be downloaded by earl, only {', '.join(ARCHIVES)}; `earl data info "
            f"{name}` says how it should lie on disk"
        )
    return [fetch(archive, root, progress) for archive in ARCHIVES[name]]


def fetch(archive: Archive, root: Path, progress: Progress = silent) -> Path:
    """Download an archive, verify it, unpack it and remove it; return the folder it made."""
    target = root / archive.within / archive.makes
    if target.exists():
        return target
    file = retrieve(archive, root / "downloads", progress)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=root) as folder:
        unpack(file, Path(folder), archive.limits)
        made = Path(folder, archive.makes)
        if not made.is_dir():
            raise UnsafeArchive(f"{file} holds no folder {archive.makes}")
        make_directory(target.parent)
        made.rename(target)
    file.unlink()
    return target


def unpack(archive: Path, folder: Path, limits: Limits) -> None:
    """Write the files of a .tar.gz or .zip below a folder: no links, no devices, nothing outside.

    Names are kept inside by tarfile's filter "data" and by zipfile itself.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                check_size((member.file_size for member in opened.infolist()), limits)
                opened.extractall(folder)
            return
        with tarfile.open(archive) as tar:
            check_size((plain_file(member).size for member in tar), limits)
            tar.extractall(folder, filter="data")
    except UnsafeArchive as error:
        raise UnsafeArchive(f"{archive} was not unpacked: {error}") from None
    except DAMAGED as error:
        raise UnsafeArchive(f"{archive} was not unpacked: it is damaged ({error})") from None
    except OSError as error:
        raise EarlError(f"{archive} could not be unpacked: {error}") from None


def plain_file(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member of a tar that is a file or a folder; anything else is refused."""
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise UnsafeArchive(f"{member.name!r} is neither a file nor a folder")
    return member


def check_size(sizes: Iterable[int], limits: Limits) -> None:
    """Refuse an archive with too many members or bytes; its headers cannot state too few."""
    total = 0
    for number, size in enumerate(sizes, start=1):
        total += size
        if number > limits.members:
            raise UnsafeArchive(f"it holds more than {limits.members:,} members")
        if total > limits.bytes:
            raise UnsafeArchive(f"it unpacks to more than {limits.bytes:,} bytes")


def retrieve(archive: Archive, folder: Path, progress: Progress) -> Path:
    """Return the downloaded file; one with a wrong checksum is removed without being opened."""
    pooch = pooch_module()
    make_directory(folder)
    try:
        return Path(
            pooch.retrieve(
                archive.url,
                known_hash=archive.checksum,
                fname=archive.name,
                path=folder,
                downloader=Resuming(folder / f"{archive.name}.part", progress),
            )
        )
    except ValueError as error:  # pooch removed what it was given
        raise UnsafeArchive(f"{archive.url} is not the file it should be: {error}") from None
    except (OSError, urllib.error.URLError) as error:
        raise EarlError(
            f"{archive.url} could not be downloaded ({error}); try again, it goes on where it "
            f"stopped, or put the file into {folder} yourself"
        ) from None


@dataclass(frozen=True)
class Resuming:
    """Downloads to a partial file, and continues one that is there."""

    partial: Path
    progress: Progress

    def __call__(self, url: str, output_file: str | Path, _: object) -> None:
        have = self.partial.stat().st_size if self.partial.exists() else 0
        request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                self._copy(answer, have)
        except urllib.error.HTTPError as error:
            if error.code != 416:  # the partial file is already complete
                raise
        self.partial.replace(output_file)

    def _copy(self, answer: Any, have: int) -> None:
        resumed = answer.status == 206 and f"bytes {have}-" in answer.headers["Content-Range"]
        done = have if resumed else 0
        length = answer.headers["Content-Length"]
        total = done + int(length) if length else 0
        with self.partial.open("ab" if resumed else "wb") as file:
            while chunk := answer.read(CHUNK):
                done += file.write(chunk)
                self.progress(self.partial.stem, done, total)
        if total and done != total:
            raise OSError(f"the connection broke after {done:,} of {total:,} bytes")


def pooch_module() -> Any:
    """Return pooch, which comes with an extra."""
    try:
        import pooch
    except ImportError:
        raise EarlError(
            'downloads need pooch; install it with: pip install "earl-learn[data]"'
        ) from None
    pooch.get_logger().setLevel("WARNING")
    return pooch
