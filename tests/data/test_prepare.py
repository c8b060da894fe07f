"""Preparing: threads decode as one does, broken images are named, names and lists are safe."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from datasets_trees import load_photos, source
from earl.data import decode as images
from earl.data import lazy, parts, prepare
from earl.data.files import FileList, found_files
from earl.data.parts import FilePart, ParquetPart
from earl.data.sets import folder
from earl.data.source import Listing, hold_out
from earl.errors import InvalidInput
from earl.storage.printable import slug


def test_threads_decode_as_one_does_and_broken_images_are_named_in_order(
    photos, tmp_path, monkeypatch
):
    monkeypatch.setattr(parts, "FILES_IN_A_PART", 1)
    for name in ("a/3.png", "b/1.png"):
        (photos / name).write_bytes(b"no image")
    one, _ = load_photos(tmp_path, skip_broken=True)
    several, seen = load_photos(tmp_path, skip_broken=True, cache=tmp_path / "other", workers=3)
    assert len(several.skipped) == 2 and several.skipped == one.skipped
    for split in ("train", "test"):
        found, expected = getattr(several, split), getattr(one, split)
        assert torch.equal(found.images, expected.images)
        assert torch.equal(found.labels, expected.labels)
    assert seen[:8] == [("prepare", n, 8) for n in range(1, 9)]


def test_at_most_one_part_per_thread_is_decoded_at_a_time(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "FILES_IN_A_PART", 1)
    meeting, inside, most = threading.Barrier(2), [], []

    def decode(part, into):
        inside.append(part)
        meeting.wait(timeout=20)  # two threads do meet, and
        most.append(len(inside))  # no third one
        meeting.wait(timeout=20)
        inside.remove(part)
        return {}

    monkeypatch.setattr(FilePart, "decode", decode)
    load_photos(tmp_path, workers=2)
    assert most == [2] * 10


def test_after_an_interruption_no_further_part_is_begun(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "FILES_IN_A_PART", 1)
    begun, ending, shutdown = [], threading.Event(), ThreadPoolExecutor.shutdown

    def decode(part, into):
        begun.append(part)
        assert len(begun) == 1 or ending.wait(timeout=20)
        return {}

    def stop(*_):
        raise KeyboardInterrupt

    def end(pool, **how):
        shutdown(pool, wait=False, **how)
        ending.set()
        shutdown(pool)

    monkeypatch.setattr(FilePart, "decode", decode)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", end)
    with pytest.raises(KeyboardInterrupt):
        folder.load(source(tmp_path, path=str(photos), progress=stop))
    assert len(begun) <= 2  # the one that is done, and the one that the thread was at


def test_broken_rows_of_a_part_become_black(photos):
    (photos / "a" / "3.png").write_bytes(b"no image")
    part = FilePart(str(photos / "a"), tuple(f"{n}.png" for n in range(5)))
    pixels = np.full((5, 3, 16, 16), 7, np.uint8)
    assert list(part.decode(pixels)) == [3]
    for n in (0, 1, 2, 4):
        alone = images.decode((photos / "a" / f"{n}.png").read_bytes(), 16)
        assert (pixels[n] == alone).all() and alone.any()
    assert not pixels[3].any()


def test_a_damaged_parquet_part_tells_its_own_error(tmp_path):
    gone = ParquetPart(str(tmp_path / "gone.parquet"), 0, "image", (0,), False)
    listing = Listing([gone], np.zeros(1, np.int64))
    with pytest.raises(InvalidInput, match=r"gone\.parquet is not a parquet file"):
        prepare.decode_split(listing, 16, tmp_path / "images.npy", source(tmp_path, workers=2))


def test_names_that_are_no_unicode_are_decoded(photos, tmp_path):
    name = os.fsdecode(b"\xff\n.png")
    try:
        (photos / "a" / "0.png").rename(photos / "a" / name)
    except OSError:
        pytest.skip("this file system takes no such names")
    data, _ = load_photos(tmp_path)
    assert len(data.train) + len(data.test) == 10 and not data.skipped


def test_hold_out_takes_a_share_of_each_class_and_never_all():
    keys, labels = [str(n) for n in range(103)], ["a"] * 100 + ["b"] * 2 + ["c"]
    test = hold_out(keys, labels, 0.2)
    assert [int(test[:100].sum()), int(test[100:102].sum()), int(test[102])] == [20, 1, 0]
    assert (test == hold_out(keys, labels, 0.2)).all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("photos", "photos"), ("../a b/ü", "a-b-ü"), ("..", "data"), ("x" * 99, "x" * 40)],
)
def test_slug_is_short_and_safe(text, expected):
    assert slug(text) == expected


def test_walk_happens_once_and_late(tmp_path):
    walks = []

    def walk():
        walks.append(1)
        return FileList()

    found = found_files("x", "y", tmp_path, walk)
    assert not walks
    assert found.fingerprint() == found.fingerprint() and len(walks) == 1


def test_listing_knows_its_length():
    assert len(Listing([FilePart("/", ("a",))], torch.zeros(1).numpy().astype("int64"))) == 1
    assert lazy.PREFETCHED * 224 * 224 * 3 < 16 << 20  # what waits decoded stays small
