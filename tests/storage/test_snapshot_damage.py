"""Damaged snapshots: every change of a file is found, told and kept; the older snapshot is used."""

import errno
import os
import random
import shutil
from itertools import islice
from pathlib import Path
from unittest import mock

import pytest

from earl.errors import SnapshotError
from earl.storage import snapshot
from earl.storage.snapshot import read_newest
from snapshots import assert_found, example, pair, same, tree, unflushed  # noqa: F401


def count_found(file, size, mutations):
    """Apply each mutation to the bytes of one file of the newer snapshot; return how many."""
    with pair(size) as (root, newer, _):
        whole = (newer / file).read_bytes()
        number = 0
        for mutated in mutations(whole, random.Random(0)):
            number += 1
            assert mutated != whole
            (newer / file).write_bytes(mutated)
            assert_found(root, newer, size)
            (root / "bad-snap-000000000002").rename(newer)
        (newer / file).write_bytes(whole)
        assert read_newest(root).step == 2
    return number


def flips(whole, rng):
    for i, byte in enumerate(whole):
        yield whole[:i] + bytes([byte ^ 1 << rng.randrange(8)]) + whole[i + 1 :]


def few_flips(whole, rng):
    every = len(whole) // 60
    yield from islice(flips(whole, rng), rng.randrange(every), None, every)


def cuts(whole, rng):
    for length in rng.sample(range(len(whole)), 60):
        yield whole[:length]


def blanks(whole, rng):
    for _ in range(50):
        start = rng.randrange(0, len(whole) - 512, 512)
        blank = bytes(rng.choice([512, 4096]))
        yield whole[:start] + blank[: len(whole) - start] + whole[start + len(blank) :]


def additions(whole, rng):
    for _ in range(50):
        i = rng.randrange(len(whole) + 1)
        yield whole[:i] + rng.randbytes(rng.randint(1, 9)) + whole[i:]
    yield whole + whole


@pytest.mark.parametrize("file", ["state.safetensors", "manifest.json"])
@pytest.mark.parametrize(
    "mutations",
    [few_flips, pytest.param(flips, marks=pytest.mark.slow), cuts, blanks, additions],
)
def test_every_change_of_a_file_is_found(file, mutations):
    size = 3000 if mutations is blanks and file == "state.safetensors" else 12
    assert count_found(file, size, mutations) >= 50


def test_without_the_hash_a_flipped_bit_would_be_loaded(monkeypatch):
    """The control of the test above: the hash is what finds it."""
    with pair() as (root, newer, _):
        data = bytearray((newer / "state.safetensors").read_bytes())
        data[-20] ^= 4
        (newer / "state.safetensors").write_bytes(data)
        with monkeypatch.context() as patch:
            patch.setattr(snapshot, "_listing", lambda data: mock.ANY)
            found = read_newest(root)
            assert found.step == 2
            assert not same(example(2), found.state)
        assert_found(root, newer)


def swap(a, b):
    a.rename(a.with_name("aside"))
    b.rename(a)
    a.with_name("aside").rename(b)


def link(path, target):
    path.rename(path.parent.parent / "moved")
    path.symlink_to(target)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


STRUCTURAL = {
    "no tensors": lambda new, old: (new / "state.safetensors").unlink(),
    "no manifest": lambda new, old: (new / "manifest.json").unlink(),
    "a foreign file": lambda new, old: (new / "notes").touch(),
    "a file twice": lambda new, old: shutil.copy(new / "manifest.json", new / "manifest.json~"),
    "a foreign directory": lambda new, old: (new / "deeper").mkdir(),
    "an empty directory": lambda new, old: (shutil.rmtree(new), new.mkdir()),
    "a file instead": lambda new, old: (shutil.rmtree(new), new.touch()),
    "the older one again": lambda new, old: (shutil.rmtree(new), shutil.copytree(old, new)),
    "a link to the older one": lambda new, old: (shutil.rmtree(new), new.symlink_to(old.name)),
    "its two files swapped": lambda new, old: swap(
        new / "state.safetensors", new / "manifest.json"
    ),
    "tensors of the older one": lambda new, old: shutil.copy(old / "state.safetensors", new),
    "manifest of the older one": lambda new, old: shutil.copy(old / "manifest.json", new),
    "manifest through a link": lambda new, old: link(new / "manifest.json", "../moved"),
    "tensors through a link": lambda new, old: link(new / "state.safetensors", "../moved"),
    "tensors from a device": lambda new, old: link(new / "state.safetensors", "/dev/zero"),
    "tensors from a pipe": lambda new, old: pipe(new / "state.safetensors"),
}


@pytest.mark.parametrize("damage", STRUCTURAL)
def test_a_snapshot_that_is_not_the_one_written_is_found(damage):
    with pair() as (root, newer, older):
        STRUCTURAL[damage](newer, older)
        assert_found(root, newer)


def test_files_swapped_between_snapshots_are_found():
    with pair() as (root, newer, older):
        swap(newer / "state.safetensors", older / "state.safetensors")
        before = tree(root)
        with pytest.raises(SnapshotError, match=r"SHA-256.*SHA-256"):
            read_newest(root)
        assert tree(root) == before


def test_two_swapped_snapshots_are_both_refused_and_stay():
    with pair() as (root, newer, older):
        swap(newer, older)
        before = tree(root)
        with pytest.raises(SnapshotError, match=r"holds step 1.*holds step 2"):
            read_newest(root)
        assert tree(root) == before


def test_if_none_is_whole_all_are_named_and_nothing_changes():
    with pair() as (root, newer, older):
        (newer / "manifest.json").unlink()
        (older / "state.safetensors").write_bytes(b"")
        before = tree(root)
        with pytest.raises(SnapshotError) as refusal:
            read_newest(root)
        text = str(refusal.value)
        assert text.index("snap-000000000002") < text.index("snap-000000000001")
        assert "'manifest.json'" in text
        assert "SHA-256" in text
        assert tree(root) == before


def test_a_directory_with_only_damaged_snapshots_does_not_pass_for_empty():
    with pair() as (root, newer, older):
        shutil.rmtree(older)
        newer.rename(root / "bad-snap-000000000002")
        with pytest.raises(SnapshotError, match="set aside earlier"):
            read_newest(root)


def test_what_only_looks_like_a_snapshot_does_not_pass_for_none(tmp_path):
    (tmp_path / "snap-12\n").mkdir()
    with pytest.raises(SnapshotError, match="no snapshot") as refusal:
        read_newest(tmp_path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize("call", ["open", "iterdir", "lstat", "fstat"])
def test_what_the_system_cannot_read_is_not_damage(monkeypatch, call, error):
    with pair() as (root, _, _):
        before = tree(root)
        with monkeypatch.context() as patch:
            fail = mock.Mock(side_effect=OSError(error, os.strerror(error)))
            patch.setattr(Path if call in ("iterdir", "lstat") else os, call, fail)
            with pytest.raises(SnapshotError, match=os.strerror(error)):
                read_newest(root)
        assert tree(root) == before
        assert read_newest(root).step == 2
