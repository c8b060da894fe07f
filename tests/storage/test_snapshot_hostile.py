"""Forged snapshots, whose hashes are right: what they say is refused, or harmless."""

import random
import shutil

import pytest

from earl.crashtest.forging import forge
from earl.crashtest.hostile_files import plant
from earl.errors import SnapshotError
from earl.storage.snapshot import read_newest, write_snapshot
from earl.storage.state import flatten
from snapshots import assert_found, example, pair, tree, unchanged, unflushed  # noqa: F401


def test_a_forgery_that_changes_nothing_is_loaded():
    """The control of the forgeries below: they are refused for what they say."""
    with pair() as (root, newer, _):
        with unchanged(newer):
            forge(newer, data=(newer / "state.safetensors").read_bytes())
        assert read_newest(root).step == 2


@pytest.mark.parametrize("version", [2, 10**6])
def test_a_newer_format_is_refused_with_both_versions_even_if_an_older_snapshot_is_good(version):
    with pair() as (root, newer, _):
        forge(newer, lambda manifest: manifest.update(format_version=version, new_field=1))
        for call in (
            lambda: read_newest(root),
            lambda: write_snapshot(root, 2, example(2), about={}),
        ):
            with unchanged(root), pytest.raises(SnapshotError, match=f"format {version}.* up to 1"):
                call()


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, None, [1]])
def test_a_format_that_never_was_is_damage(version):
    with pair() as (root, newer, _):
        forge(newer, lambda manifest: manifest.update(format_version=version))
        assert_found(root, newer)


@pytest.mark.parametrize("field", ["format_version", "step", "about", "files", "state"])
def test_no_field_may_be_missing_of_another_type_or_double(field):
    with pair() as (root, newer, _):
        good = tree(newer)["manifest.json"]
        for edit in (
            lambda manifest: manifest.pop(field),
            lambda manifest: manifest.update({field: [manifest[field]]}),
            lambda manifest: manifest.update({field: None if field != "state" else {"a": 1}}),
            lambda manifest: manifest.update({field + "2": manifest[field]}),
        ):
            forge(newer, edit)
            assert_found(root, newer)
            (root / "bad-snap-000000000002").rename(newer)
            (newer / "manifest.json").write_bytes(good)
        forge(newer, text=lambda text: text.replace(f'"{field}"', f'"{field}": 1, "{field}"'))
        assert_found(root, newer)


def test_junk_in_any_place_of_a_manifest_is_refused_or_harmless():
    rng, refused = random.Random(0), 0
    with pair() as (root, newer, older):
        shutil.rmtree(older)
        good = tree(newer)["manifest.json"]
        for _ in range(150):
            forge(newer, lambda manifest: plant(manifest, rng))
            try:
                flatten(read_newest(root).state)
            except SnapshotError:
                refused += 1
            (newer / "manifest.json").write_bytes(good)
    assert 75 < refused < 150  # some junk is as good as what it replaced
