"""Your own images in folders."""

import numpy as np
import pytest
from PIL import Image

from datasets_trees import all_images, load_folder, save, source, write_photos
from earl.data.sets import folder
from earl.errors import BrokenImage, DataNotFound, InvalidSetting


def odd_pictures(where):
    """Save a picture of every odd kind; all of them are grey, about 100."""
    save(where / "rgb.png", colour=(100, 100, 100))
    save(where / "other-size.jpg", (40, 25), colour=(100, 100, 100))
    for mode, colour in {"L": 100, "RGBA": (100, 100, 100, 255), "I;16": 100 * 257}.items():
        Image.new(mode, (12, 12), colour).save(where / f"{mode.replace(';', '')}.png")
    Image.new("L", (12, 12), 100).convert("P").save(where / "palette.png")
    Image.new("CMYK", (12, 12), (0, 0, 0, 155)).save(where / "cmyk.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6
    save(where / "turned.jpg", (20, 10), colour=(100, 100, 100), exif=exif)


def test_every_odd_kind_of_picture_is_read_alike(tmp_path):
    for c in ("gris", "grau"):
        odd_pictures(tmp_path / "photos" / "train" / c)
        odd_pictures(tmp_path / "photos" / "test" / c)
    data = load_folder(tmp_path)
    assert len(data.train) == 16 and data.image_shape == (3, 32, 32)
    assert (all_images(data.train).int() - 100).abs().max() <= 2


def test_folder_with_splits(tmp_path):
    for split, classes in {
        "train": ("Ente", "鴨"),
        "test": ("Ente", "鴨", "canard à l'orange"),
    }.items():
        for c in classes:
            for n in range(3):
                save(tmp_path / "photos" / split / c / f"{n}.png", seed=n)
    (tmp_path / "photos" / "train" / "leer").mkdir()
    (tmp_path / "photos" / "train" / "Ente" / "notes.txt").write_text("no image")
    (tmp_path / "photos" / "train" / "Ente" / ".hidden.png").write_text("no image")
    data = load_folder(tmp_path)
    assert data.class_names == ("Ente", "canard à l'orange", "鴨")
    assert data.train.labels.tolist() == [0, 0, 0, 2, 2, 2] and len(data.test) == 9
    assert any("left out: train/leer" in note for note in data.notes)
    assert any("canard à l'orange" in note and "never asked" in note for note in data.notes)


def test_folder_without_splits_holds_a_fixed_share_out(tmp_path):
    write_photos(tmp_path / "photos", n=10)
    save(tmp_path / "photos" / "single" / "one.png")
    data = load_folder(tmp_path)
    assert data.train.labels.tolist() == [0] * 8 + [1] * 8 + [2]
    assert data.test.labels.tolist() == [0, 0, 1, 1]
    half = load_folder(tmp_path, hold_out=0.5)
    assert len(half.test) == 10
    tested = set(zip(half.test.labels.tolist(), half.test.names, strict=True))
    assert set(zip(data.test.labels.tolist(), data.test.names, strict=True)) <= tested
    save(tmp_path / "photos" / "a" / "new.png")
    again = load_folder(tmp_path)  # a new image moves hardly any old one
    assert len(set(again.test.names) ^ set(data.test.names)) <= 2


def test_training_folder_alone_and_unused_splits_are_noted(tmp_path):
    write_photos(tmp_path / "photos" / "train", n=4)
    assert "held out" in load_folder(tmp_path).notes[0]
    for split in ("test", "val"):
        save(tmp_path / "photos" / split / "a" / "0.png")
    assert "not used: val" in load_folder(tmp_path).notes[0]


def test_image_size_follows_the_median_unless_given(tmp_path):
    for side, expected in ((40, 32), (80, 64), (150, 224)):
        where = tmp_path / str(side)
        write_photos(where, (side, side), n=4)
        data = folder.load(source(tmp_path, path=str(where)))
        assert data.image_shape == (3, expected, expected)
    data = folder.load(source(tmp_path, path=str(where), image_size=48))
    assert data.image_shape == (3, 48, 48)
    with pytest.raises(InvalidSetting, match="image_size"):
        source(tmp_path, image_size=3)


def test_mean_and_std_are_of_the_training_images_or_as_given(tmp_path):
    write_photos(tmp_path / "photos" / "train", (32, 32), n=3)
    save(tmp_path / "photos" / "test" / "a" / "0.png", colour=(0, 0, 0))
    data = load_folder(tmp_path)
    pixels = all_images(data.train).double() / 255
    assert data.mean == pytest.approx(pixels.mean((0, 2, 3)).tolist(), abs=1e-4)
    assert data.std == pytest.approx(pixels.std((0, 2, 3), correction=0).tolist(), abs=1e-4)
    given = load_folder(tmp_path, mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2))
    assert given.mean == (0.5, 0.4, 0.3) and given.std == (0.2, 0.2, 0.2)


def test_missing_and_empty_folders_say_what_is_expected(tmp_path):
    with pytest.raises(DataNotFound, match="photos does not exist"):
        load_folder(tmp_path)
    (tmp_path / "photos").mkdir()
    with pytest.raises(DataNotFound, match="expected <class>/<image>"):
        load_folder(tmp_path)
    (tmp_path / "photos" / "a").mkdir()
    with pytest.raises(DataNotFound, match="no training images"):
        load_folder(tmp_path)


@pytest.mark.parametrize("side", [12, 150])
def test_broken_images_are_named_or_skipped(side, tmp_path):
    for n in range(10):
        save(tmp_path / "photos" / "a" / f"{n}.png", (side, side), seed=n)
    for n in range(2):
        save(tmp_path / "photos" / "b" / f"b{n}.png", (side, side), seed=n + 20)
    for n in (3, 7):
        file = tmp_path / "photos" / "a" / f"{n}.png"
        file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(BrokenImage, match=r"2 of 12 images .*\.png.*\.png"):
        load_folder(tmp_path)
    assert not list((tmp_path / "cache").iterdir())
    data = load_folder(tmp_path, skip_broken=True)
    assert len(data.train) + len(data.test) == 10 and len(data.skipped) == 2
    assert {*data.train.names, *data.test.names} == {*"01245689", "b0", "b1"}
    whole = {name: row for row, name in enumerate(data.train.names)}
    name = next(iter(whole))
    with Image.open(tmp_path / "photos" / "a" / f"{name}.png") as picture:
        size = data.image_shape[1:]
        expected = np.asarray(picture.resize(size, Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert (all_images(data.train)[whole[name]].numpy() == expected).all()
