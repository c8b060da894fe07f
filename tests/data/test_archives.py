"""Archives: hostile ones are refused, and nothing is ever written outside the target."""

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
from functools import partial

import pytest

from datasets_trees import tar_of
from earl.data.download import Limits, unpack
from earl.errors import EarlError

LIMITS = Limits(bytes=1 << 20, members=1000)


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.devmajor, info.devminor = kind, target, 1, 5
    return info, b""


def zip_of(*members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for info, data in members:
            file.writestr(info, data)
    return out.getvalue()


def zip_special(name, mode, data=b"../../etc/passwd"):
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info, data


NAMES = [
    *(
        "../evil",
        "a/../../evil",
        "/evil",
        "//evil",
        "a//b",
        "..",
        "C:evil",
        "a\\..\\evil",
        "a/./../b",
    ),
    *(
        "a\nb",
        "x" * 256,
        "/".join("abcdefghijklmnopqrst"),
        "trailing./x",
        "nul:",
        "",
        "a/..",
        "é" * 200,
    ),
]
FILE = ("set/ok.txt", b"ok")


def hostile():
    """Yield a name for the case and the bytes of an archive."""
    for name in NAMES:
        yield f"tar.gz {name[:20]!r}", tar_of(FILE, (name, b"evil"))
        yield f"tar {name[:20]!r}", tar_of(FILE, (name, b"evil"), pack="")
        if name:
            yield f"zip {name[:20]!r}", zip_of(FILE, (name, b"evil"))
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
    for kind in kinds:
        for target in ("/etc/passwd", "../../evil", "ok.txt"):
            yield f"tar type {kind!r} to {target}", tar_of(FILE, special("set/link", kind, target))
    chain = [special("set/" + "d" * 100, tarfile.SYMTYPE, "."), (f"set/{'d' * 100}/evil", b"x")]
    yield "tar chain of links", tar_of(FILE, *chain)
    for mode in (stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK):
        yield f"zip mode {mode:o}", zip_of(FILE, zip_special("set/link", mode | 0o777))
    for make in (tar_of, zip_of):
        kind = make.__name__
        yield f"{kind} twice", make(FILE, FILE) if make is tar_of else twice_in_a_zip()
        yield f"{kind} twice but for case", make(FILE, ("set/OK.TXT", b""))
        yield f"{kind} file as folder", make(FILE, ("set/ok.txt/inner", b""))
        yield f"{kind} folder as file", make(("set/ok.txt/inner", b""), FILE)
        yield f"{kind} many members", make(*((f"set/{n}", b"") for n in range(1001)))
        yield f"{kind} bomb", make(FILE, ("set/zeros", bytes(2 << 20)))
        yield f"{kind} bomb in pieces", make(*((f"set/{n}", bytes(1 << 15)) for n in range(40)))
        whole = make(FILE, ("set/noise", os.urandom(5000)))
        yield f"{kind} cut", whole[: len(whole) * 2 // 3]
        yield f"{kind} empty", b""
    yield "zip nested bomb", zip_of(("set/a.zip", zip_of(("zeros", bytes(8 << 20))) * 200))
    yield "tar sparse", tar_of(FILE, special("set/sparse", tarfile.GNUTYPE_SPARSE))
    yield "tar promises a petabyte", promising()
    yield "zip lies about its size", lying_zip()
    yield "zip huge directory", huge_directory()
    yield "zip encrypted", encrypted()
    yield "text", b"this is no archive at all" * 100
    yield "gzip of text", gzip.compress(b"no tar" * 1000)


def twice_in_a_zip():
    data = bytearray(zip_of(("set/ok1.txt", b"ok"), ("set/ok2.txt", b"ok")))
    return bytes(data).replace(b"ok2.txt", b"ok1.txt")


def promising():
    info = tarfile.TarInfo("set/x")
    info.size = 1 << 50
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


def lying_zip():
    """Return a zip whose headers promise 10 bytes for a member of 4 million."""
    data = bytearray(zip_of(("set/x", bytes(4 << 20))))
    for at in (data.find(b"PK\x03\x04") + 22, data.find(b"PK\x01\x02") + 24):
        struct.pack_into("<I", data, at, 10)
    return bytes(data)


def huge_directory():
    data = bytearray(zip_of(FILE))
    end = data.rfind(b"PK\x05\x06")
    struct.pack_into("<HHI", data, end + 8, 60000, 60000, 1 << 31)
    return bytes(data)


def encrypted():
    data = bytearray(zip_of(FILE))
    for at in (data.find(b"PK\x03\x04") + 6, data.find(b"PK\x01\x02") + 8):
        data[at] |= 1
    return bytes(data)


CASES = list(hostile())
KINDS = (
    "type",
    "bomb",
    "many members",
    "promises",
    "lies",
    "huge directory",
    "encrypted",
    "cut",
    "text",
)


def below(folder):
    return [path for path in folder.rglob("*")]


@pytest.mark.parametrize(("name", "data"), CASES, ids=[name for name, _ in CASES])
def test_hostile_archive_writes_plain_files_inside_its_folder_or_nothing(name, data, tmp_path):
    archive, target = tmp_path / "archive", tmp_path / "in" / "target"
    archive.write_bytes(data)
    target.mkdir(parents=True)
    try:
        unpack(archive, target, LIMITS)
    except EarlError:
        pass
    else:
        assert not any(kind in name for kind in KINDS), "it must be refused"
    assert {path.name for path in tmp_path.iterdir()} == {"archive", "in"}
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["target"]
    written = below(target)
    assert all(not p.is_symlink() and (p.is_file() or p.is_dir()) for p in written)
    assert len(written) <= 2 * LIMITS.members
    assert sum(p.stat().st_size for p in written if p.is_file()) <= LIMITS.bytes


def test_there_are_enough_hostile_archives():
    assert len(CASES) >= 95
    assert all(any(kind in name for name, _ in CASES) for kind in KINDS)


@pytest.mark.parametrize("make", [tar_of, partial(tar_of, pack=""), zip_of])
def test_good_archive_is_unpacked_whole(make, tmp_path):
    (tmp_path / "archive").write_bytes(make(FILE, ("set/deep/é.bin", bytes(range(256)))))
    unpack(tmp_path / "archive", tmp_path / "target", LIMITS)
    assert (tmp_path / "target/set/ok.txt").read_bytes() == b"ok"
    assert (tmp_path / "target/set/deep/é.bin").read_bytes() == bytes(range(256))
