"""Data are what they were: rotten copies are found, other images stop a run."""

import json
import os
import shutil

import numpy as np
import pytest
import torch

from datasets_trees import (
    all_images,
    load_folder,
    png,
    save,
    source,
    write_cifar10_binary,
    write_parquet,
    write_photos,
)
from earl.data import cache
from earl.data.seals import fingerprint, write_manifest
from earl.data.sets import cifar, parquet, shapes
from earl.errors import BrokenImage, EarlError, RunConflict
from earl.experiments.experiment import Experiment
from earl.experiments.loading import check_unchanged, facts_of_data
from earl.experiments.runs.directory import RunDirectory
from small_runs import finish, stop
from snapshots import flip_bit

SIDES = pytest.mark.parametrize("side", [16, pytest.param(150, marks=pytest.mark.slow)])
SMALL = {"depth": 4, "width": 16, "every": 10, "memory_size": 8, "tasks": 2}
pytestmark = pytest.mark.usefixtures("places")


def images_of(data):
    return [all_images(split).clone() for split in (data.train, data.test)]


@pytest.fixture
def entry(tmp_path):
    """The copy of photos in the cache."""
    write_photos(tmp_path / "photos")
    load_folder(tmp_path)
    (found,) = (tmp_path / "cache").iterdir()
    return found


@SIDES
def test_a_rotten_bit_of_the_cache_is_found_wherever_it_is(side, tmp_path):
    write_photos(tmp_path / "photos", (side, side))
    whole = load_folder(tmp_path)
    expected = images_of(whole)
    assert not any("damaged" in note for note in whole.notes)
    generator = np.random.default_rng(side)
    (entry,) = (tmp_path / "cache").iterdir()
    for name in sorted(file.name for file in entry.iterdir()):
        for _ in range(3):
            size = (entry / name).stat().st_size
            flip_bit(entry / name, int(generator.integers(size)), int(generator.integers(8)))
            data = load_folder(tmp_path)
            assert any("damaged and was made anew" in note for note in data.notes), name
            for found, right in zip(images_of(data), expected, strict=True):
                assert torch.equal(found, right)
            assert data.images_sha256 == whole.images_sha256
            assert (data.class_names, data.mean) == (whole.class_names, whole.mean)
            again = load_folder(tmp_path)  # which is whole by now
            assert not any("damaged" in note for note in again.notes)


def test_a_missing_file_of_the_cache_is_named_in_the_note(entry, tmp_path):
    (entry / "test.labels.npy").unlink()
    assert load_folder(tmp_path).notes[-1].endswith("made anew: test.labels.npy is missing")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["manifest.json", "train.images.npy", "test.files.json"])
def test_a_pipe_in_the_cache_is_damage_and_nothing_to_wait_for(name, entry, tmp_path):
    (entry / name).unlink()
    os.mkfifo(entry / name)
    assert (
        f"made anew: {entry / name if name == 'manifest.json' else name}"
        in load_folder(tmp_path).notes[-1]
    )


def test_a_cache_that_never_keeps_what_is_written_is_an_error_of_ours(tmp_path, monkeypatch):
    write_photos(tmp_path / "photos")
    real = cache.build

    def build(entry, *rest):
        real(entry, *rest)
        os.truncate(entry / "train.labels.npy", 3)

    monkeypatch.setattr(cache, "build", build)
    with pytest.raises(EarlError, match=r"does not keep what is written .*--cache-root"):
        load_folder(tmp_path)


def test_encoded_images_in_the_cache_are_checked_when_they_are_read(tmp_path):
    rows = [(png(n, side=120), n % 2) for n in range(10)]
    write_parquet(tmp_path / "set" / "all.parquet", rows)
    made = source(tmp_path, path=str(tmp_path / "set"))
    expected = images_of(parquet.load(made))
    (blob,) = (tmp_path / "cache").rglob("train.blob")
    flip_bit(blob, blob.stat().st_size - 40)
    data = parquet.load(made)
    assert torch.equal(data.train.images[torch.tensor([0])], expected[0][:1])
    with pytest.raises(BrokenImage, match=r"train\.blob, image 7: it has changed.*Remove .*anew"):
        data.train.images[torch.tensor([len(data.train) - 1])]
    os.truncate(blob, 100)
    assert any("train.blob does not match" in note for note in parquet.load(made).notes)


def test_a_large_image_that_is_replaced_meanwhile_is_named_when_it_is_read(tmp_path):
    photos = write_photos(tmp_path / "photos", (150, 150))
    data = load_folder(tmp_path)
    name = data.train.names[0]
    save(photos / "a" / f"{name}.png", (150, 150), seed=77)
    with pytest.raises(BrokenImage, match=rf"a/{name}\.png: it has changed.*earl resume"):
        data.train.images[torch.tensor([0])]
    assert data.train.images[torch.tensor([1])].shape == (1, 3, 224, 224)


def test_a_copy_of_the_format_before_is_prepared_anew_and_goes(entry, tmp_path):
    manifest = json.loads((entry / "manifest.json").read_text())
    old = entry.with_name("folder-photos-0123456789abcdef")
    shutil.copytree(entry, old)
    plain = {n: v for n, v in manifest.items() if n not in ("files", "sha256", "images_sha256")}
    (old / "manifest.json").write_text(json.dumps(plain | {"format": 1}))
    shutil.rmtree(entry)
    assert len(load_folder(tmp_path).train) == 12 and list((tmp_path / "cache").iterdir()) == [
        entry
    ]


def test_a_manifest_without_its_hash_is_none(entry):
    text = (entry / "manifest.json").read_text()
    changed = json.loads(text) | {"class_names": ["b", "a"]}
    for data in (json.dumps(changed).encode(), b"[]", b"[" * 100_000):
        (entry / "manifest.json").write_bytes(data)
        assert cache.read_manifest(entry) is None
    del changed["sha256"]
    (entry / "manifest.json").write_bytes(write_manifest(changed))  # the control: sealed again
    assert (cache.read_manifest(entry) or {})["class_names"] == ["b", "a"]


# ---- fingerprints --------------------------------------------------------------------------------


def test_the_fingerprint_is_of_pixels_and_not_of_files(tmp_path):
    write_cifar10_binary(tmp_path / "data")
    prepared = cifar.cifar10(source(tmp_path))
    assert prepared.images_sha256 == fingerprint(prepared.train.images, prepared.test.images)
    for file in (tmp_path / "data").rglob("*.bin"):
        os.utime(file, ns=(1, 1))
    assert cifar.cifar10(source(tmp_path)).images_sha256 == prepared.images_sha256


def test_one_other_pixel_is_another_fingerprint():
    data = shapes.load()
    before = facts_of_data(data)["images_sha256"]
    data.test.images[3, 1, 2, 2] ^= 1
    assert facts_of_data(data)["images_sha256"] != before


class Lazy:
    """Images of somebody else's loader, which are made when they are asked for."""

    def __init__(self, count, bias=0):
        self.shape, self.bias = torch.Size((count, 3, 4, 4)), bias

    def __getitem__(self, index):
        return (index + self.bias).to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 4, 4)


def test_of_images_that_are_not_in_memory_a_sample_is_looked_at():
    first = fingerprint(Lazy(1000), Lazy(10))
    assert first == fingerprint(Lazy(1000), Lazy(10))
    assert first != fingerprint(Lazy(1000, bias=1), Lazy(10))
    assert first != fingerprint(Lazy(1000), Lazy(10, bias=1))


def experiment(tmp_path, **settings):
    dataset = f"folder:{tmp_path / 'photos'}"
    return Experiment(method="er", dataset=dataset, stream="iid", settings=SMALL | settings)


@SIDES
def test_other_images_with_the_same_labels_do_not_continue_a_run(side, tmp_path):
    write_photos(tmp_path / "photos", (side, side))
    small = {"image_size": 96, "batch_size": 2, "iterations": 0.25} if side > 64 else {}
    stop(RunDirectory(tmp_path / "run", experiment(tmp_path, **small)), 5)
    write_photos(tmp_path / "photos", (side, side), first=50)
    with pytest.raises(RunConflict, match=r"images_sha256 was .*, and is .* now; put the old"):
        finish(RunDirectory(tmp_path / "run"))
    write_photos(tmp_path / "photos", (side, side))  # put back, with other times
    assert finish(RunDirectory(tmp_path / "run")).summary["samples"] == 12


def test_a_run_of_before_goes_on_with_a_note(tmp_path):
    write_photos(tmp_path / "photos")
    finish(RunDirectory(tmp_path / "whole", experiment(tmp_path)))
    stop(RunDirectory(tmp_path / "run", experiment(tmp_path)), 5)
    file = tmp_path / "run" / "experiment.json"
    record = json.loads(file.read_text())
    assert len(record["data"].pop("images_sha256")) == 64
    file.write_text(json.dumps(record))
    again = finish(RunDirectory(tmp_path / "run"))
    assert any("begun before runs recorded their images" in note for note in again.notes)
    histories = [(tmp_path / name / "history.jsonl").read_bytes() for name in ("whole", "run")]
    assert histories[0] == histories[1]


def test_a_run_that_goes_on_with_its_images_has_nothing_to_note(tmp_path):
    write_photos(tmp_path / "photos")
    stop(RunDirectory(tmp_path / "run", experiment(tmp_path, limit=10)), 5)
    run = finish(RunDirectory(tmp_path / "run"))
    assert not any("images" in note for note in run.notes)


def test_reduced_and_turned_images_have_the_fingerprint_of_all(tmp_path):
    write_photos(tmp_path / "photos")
    found = {
        facts_of_data(experiment(tmp_path, **options).load())["images_sha256"]
        for options in ({}, {"limit": 9}, {"rotate": 90})
    }
    assert len(found) == 1


def test_a_fact_that_is_gone_is_a_change():
    with pytest.raises(RunConflict, match="classes was 2, and is None now"):
        check_unchanged({"classes": 2}, {})
