"""The cache: made once, complete or missing, and remade when files change."""

import json
import os
import threading

import pytest
import torch

from datasets_trees import load_photos, save, source, write_cifar10_binary
from earl.data import decode as images
from earl.data.sets import cifar, folder
from earl.errors import EarlError


def entries(tmp_path):
    return sorted((tmp_path / "cache").iterdir())


def test_second_start_decodes_nothing_and_gives_the_same(photos, tmp_path, monkeypatch):
    first, seen = load_photos(tmp_path)
    assert seen[-1] == ("prepare", 2, 2)
    monkeypatch.setattr(images, "decode", lambda *_: pytest.fail("decoded again"))
    second, seen = load_photos(tmp_path)
    assert not seen and torch.equal(second.train.images, first.train.images)
    assert (second.mean, second.class_names) == (first.mean, first.class_names)


def test_manifest_says_what_was_prepared(photos, tmp_path):
    load_photos(tmp_path)
    (entry,) = entries(tmp_path)
    manifest = json.loads((entry / "manifest.json").read_text())
    assert manifest["source"] == str(photos) and manifest["image"] == [3, 32, 32]
    assert manifest["class_names"] == ["a", "b"] and len(manifest["fingerprint"]) == 64
    assert manifest["splits"]["train"] == {"images": 8, "skipped": []}


@pytest.mark.parametrize("change", ["new", "gone", "touched", "rewritten"])
def test_changed_files_are_noticed_and_the_old_copy_goes(change, photos, tmp_path):
    load_photos(tmp_path)
    (before,) = entries(tmp_path)
    if change == "new":
        save(photos / "a" / "new.png", (32, 32))
    elif change == "gone":
        (photos / "a" / "0.png").unlink()
    elif change == "touched":
        os.utime(photos / "a" / "0.png", ns=(1, 1))
    else:
        save(photos / "a" / "0.png", (32, 32), seed=99)
    _, seen = load_photos(tmp_path)
    (after,) = entries(tmp_path)
    assert seen and after != before


def test_moved_data_set_needs_no_new_copy(photos, tmp_path):
    load_photos(tmp_path)
    (tmp_path / "new").mkdir()
    photos.rename(tmp_path / "new" / "photos")
    made = source(tmp_path, path=str(tmp_path / "new" / "photos"))
    assert len(folder.load(made).train) == 8 and len(entries(tmp_path)) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda e: (e / "manifest.json").write_text("{"),
        lambda e: (e / "manifest.json").unlink(),
        lambda e: (e / "manifest.json").write_text('{"format": 99}'),
        lambda e: (e / "train.images.npy").write_bytes(b""),
        lambda e: os.truncate(e / "train.images.npy", 500),
        lambda e: (e / "train.labels.npy").unlink(),
        lambda e: (e / "test.files.json").write_text("nonsense"),
    ],
    ids=range(7),
)
def test_damaged_copy_is_made_anew(damage, photos, tmp_path):
    expected, _ = load_photos(tmp_path)
    expected_images = expected.train.images.clone()
    damage(entries(tmp_path)[0])
    again, _ = load_photos(tmp_path)
    assert torch.equal(again.train.images, expected_images) and len(entries(tmp_path)) == 1


def test_stopped_preparation_leaves_nothing(photos, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        folder.load(source(tmp_path, path=str(photos), progress=stop))
    assert not entries(tmp_path)


def test_killed_preparation_is_garbage_of_a_day(photos, tmp_path):
    old, new = (tmp_path / "cache" / name for name in (".tmp-old", ".tmp-new"))
    old.mkdir(parents=True)
    new.mkdir()
    os.utime(old, (1, 1))
    load_photos(tmp_path)
    assert new.exists() and not old.exists()


def test_two_at_a_time_both_succeed(photos, tmp_path):
    barrier, results = threading.Barrier(2), []

    def work():
        waited = []

        def together(*_):
            if not waited:
                waited.append(barrier.wait(timeout=20))

        results.append(folder.load(source(tmp_path, path=str(photos), progress=together)))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2 and len(entries(tmp_path)) == 1
    assert torch.equal(results[0].train.images, results[1].train.images)


def test_cache_that_cannot_be_written_is_an_error_of_ours(photos, tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises((EarlError, OSError)):
        load_photos(tmp_path)


def test_memory_mapped_images_are_not_written_back(tmp_path):
    write_cifar10_binary(tmp_path / "data")
    data = cifar.cifar10(source(tmp_path))
    before = data.train.images[0].clone()
    data.train.images[0] = 0
    assert torch.equal(cifar.cifar10(source(tmp_path)).train.images[0], before)
