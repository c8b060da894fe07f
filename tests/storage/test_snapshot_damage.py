"""Damaged snapshots: every change of a file is found, told and kept; the older snapshot is used."""

import errno
import os
import random
import shutil
from pathlib import Path
from unittest import mock

import pytest

from earl.crashtest.damage import OF_BYTES, STRUCTURAL, swap
from earl.errors import SnapshotError
from earl.storage import snapshot
from earl.storage.snapshot import read_newest
from snapshots import assert_found, example, flip_bit, pair, same, unchanged, unflushed  # noqa: F401


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


def many(change):
    def changed(whole, rng):
        for _ in range(60):
            yield change(whole, rng)

    return changed


@pytest.mark.parametrize("file", ["state.safetensors", "manifest.json"])
@pytest.mark.parametrize(
    "mutations",
    [*map(many, OF_BYTES), pytest.param(flips, marks=pytest.mark.slow)],
)
def test_every_change_of_a_file_is_found(file, mutations):
    assert count_found(file, 12, mutations) >= 50


def test_without_the_hash_a_flipped_bit_would_be_loaded(monkeypatch):
    """The control of the test above: the hash is what finds it."""
    with pair() as (root, newer, _):
        flip_bit(newer / "state.safetensors", -20, 2)
        with monkeypatch.context() as patch:
            patch.setattr(snapshot, "_listing", lambda data: mock.ANY)
            found = read_newest(root)
            assert found.step == 2
            assert not same(example(2), found.state)
        assert_found(root, newer)


@pytest.mark.parametrize("damage", STRUCTURAL)
def test_a_snapshot_that_is_not_the_one_written_is_found(damage):
    with pair() as (root, newer, older):
        STRUCTURAL[damage](newer, older)
        assert_found(root, newer)


def test_files_swapped_between_snapshots_are_found():
    with pair() as (root, newer, older):
        swap(newer / "state.safetensors", older / "state.safetensors")
        with unchanged(root), pytest.raises(SnapshotError, match=r"SHA-256.*SHA-256"):
            read_newest(root)


def test_two_swapped_snapshots_are_both_refused_and_stay():
    with pair() as (root, newer, older):
        swap(newer, older)
        with unchanged(root), pytest.raises(SnapshotError, match=r"holds step 1.*holds step 2"):
            read_newest(root)


def test_if_none_is_whole_all_are_named_and_nothing_changes():
    with pair() as (root, newer, older):
        (newer / "manifest.json").unlink()
        (older / "state.safetensors").write_bytes(b"")
        with unchanged(root), pytest.raises(SnapshotError) as refusal:
            read_newest(root)
        text = str(refusal.value)
        assert text.index("snap-000000000002") < text.index("snap-000000000001")
        assert "'manifest.json'" in text
        assert "SHA-256" in text


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
        with unchanged(root), monkeypatch.context() as patch:
            fail = mock.Mock(side_effect=OSError(error, os.strerror(error)))
            patch.setattr(Path if call in ("iterdir", "lstat") else os, call, fail)
            with pytest.raises(SnapshotError, match=os.strerror(error)):
                read_newest(root)
        assert read_newest(root).step == 2
