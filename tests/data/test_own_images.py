"""Your own data: folders, lists and tables, with everything that real ones have wrong with them."""

import sys

import numpy as np
import pytest
import torch
from PIL import Image

from datasets_trees import jpeg, png, save, source, write_parquet
from earl.data.sets import csv_list as table
from earl.data.sets import folder, parquet
from earl.errors import BrokenImage, DataNotFound, EarlError, InvalidInput, InvalidSetting


def all_images(split):
    return split.images[torch.arange(len(split))]


def load_folder(tmp_path, **changes):
    return folder.load(source(tmp_path, path=str(tmp_path / "photos"), **changes))


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
    for c in "ab":
        for n in range(10):
            save(tmp_path / "photos" / c / f"{n}.png", seed=n)
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
    for c in "ab":
        for n in range(4):
            save(tmp_path / "photos" / "train" / c / f"{n}.png", seed=n)
    assert "held out" in load_folder(tmp_path).notes[0]
    for split in ("test", "val"):
        save(tmp_path / "photos" / split / "a" / "0.png")
    assert "not used: val" in load_folder(tmp_path).notes[0]


def test_image_size_follows_the_median_unless_given(tmp_path):
    for side, expected in ((40, 32), (80, 64), (150, 224)):
        where = tmp_path / str(side)
        for n in range(8):
            save(where / "ab"[n % 2] / f"{n}.png", (side, side), seed=n)
        data = folder.load(source(tmp_path, path=str(where)))
        assert data.image_shape == (3, expected, expected)
    data = folder.load(source(tmp_path, path=str(where), image_size=48))
    assert data.image_shape == (3, 48, 48)
    with pytest.raises(InvalidSetting, match="image_size"):
        source(tmp_path, image_size=3)


def test_mean_and_std_are_of_the_training_images_or_as_given(tmp_path):
    for n in range(6):
        save(tmp_path / "photos" / "train" / "ab"[n % 2] / f"{n}.png", (32, 32), seed=n)
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


# ---- lists ---------------------------------------------------------------------------------------


def load_csv(tmp_path, text, **changes):
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    return table.load(source(tmp_path, path=str(tmp_path / "labels.csv"), **changes))


def test_csv_with_every_column(tmp_path):
    for n in range(6):
        save(tmp_path / "sub" / f"{n}.png", colour=(40 * n, 0, 0))
    lines = [
        "time,label,Path,split",
        "2019,pomme,sub/0.png,train",
        "2021,pomme,sub/1.png,train",
        '2020,"poire, verte",sub/2.png,train',
        f"2020,pomme,{tmp_path}/sub/3.png,train",
        "2019,pomme,sub/4.png,test",
        "2021,kiwi,sub/5.png,val",
    ]
    data = load_csv(tmp_path, "\ufeff" + "\n".join(lines))
    assert data.class_names == ("kiwi", "poire, verte", "pomme")
    assert data.train.labels.tolist() == [2, 2, 1, 2] and data.train.domains.tolist() == [
        0,
        2,
        1,
        1,
    ]
    assert data.test.labels.tolist() == [2, 0] and data.test.domains.tolist() == [0, 2]
    assert all_images(data.train)[:, 0, 0, 0].tolist() == [0, 40, 80, 120]


def test_csv_without_split_holds_some_out(tmp_path):
    for n in range(10):
        save(tmp_path / f"{n}.png", seed=n)
    data = load_csv(tmp_path, "path,label\n" + "".join(f"{n}.png,{n % 2}\n" for n in range(10)))
    assert data.class_names == ("0", "1") and data.train.domains is None
    assert sorted(data.train.labels.tolist()) == [0] * 4 + [1] * 4 and len(data.test) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"columns \(none\); its first line must name path and label"),
        ("file,class\na.png,x\n", "columns file, class"),
        ("path,label\na.png,\n", r"labels\.csv, line 2: path and label must not be empty"),
        ("path,label\na.png,x\na.png,y\n", r"line 3: a\.png is in line 2, too"),
        ("path,label,split\na.png,x,tset\n", "line 2: split 'tset' is neither train nor test"),
        ("path,label,time\na.png,x,1\nb.png,x,\n", "1 of 2 lines have no time"),
    ],
)
def test_wrong_csv_says_which_line(text, message, tmp_path):
    save(tmp_path / "a.png")
    with pytest.raises(InvalidInput, match=message):
        load_csv(tmp_path, text)


def test_csv_with_a_missing_file_names_it(tmp_path):
    for name in "abcd":
        save(tmp_path / f"{name}.png")
    lines = "path,label\na.png,x\nb.png,x\nc.png,y\nd.png,y\nabsent.png,x\n"
    with pytest.raises(BrokenImage, match=r"absent\.png: it cannot be read \(No such file"):
        load_csv(tmp_path, lines)


@pytest.mark.parametrize("lines", ["absent.png,x\n", "absent.png,x\na.png,y\n"])
def test_csv_with_a_missing_file_and_nothing_to_test_names_the_file(lines, tmp_path):
    save(tmp_path / "a.png")
    with pytest.raises(
        DataNotFound, match=r"labels\.csv names absent\.png, which is not there; 1 of"
    ):
        load_csv(tmp_path, "path,label\n" + lines)


def test_a_list_with_nothing_to_hold_out_says_so(tmp_path):
    save(tmp_path / "a.png")
    save(tmp_path / "b.png")
    with pytest.raises(DataNotFound, match=r"labels\.csv holds no 2 images of any class"):
        load_csv(tmp_path, "path,label\na.png,x\nb.png,y\n")
    with pytest.raises(DataNotFound, match=r"labels\.csv holds no test images"):
        load_csv(tmp_path, "path,label,split\na.png,x,train\nb.png,y,train\n")


# ---- tables --------------------------------------------------------------------------------------


def load_parquet(tmp_path, **changes):
    return parquet.load(source(tmp_path, path=str(tmp_path / "set"), **changes))


def test_parquet_with_several_shards_and_codecs(tmp_path):
    rows = [((jpeg if n % 2 else png)(n), n % 3) for n in range(20)]
    for shard in range(2):
        path = tmp_path / "set" / "data" / f"train-0000{shard}-of-00002.parquet"
        write_parquet(path, rows[10 * shard : 10 * shard + 10], ["ä", "b", "c"], group=4)
    write_parquet(
        tmp_path / "set" / "data" / "test-00000-of-00001.parquet", rows[:6], ["ä", "b", "c"]
    )
    data = load_parquet(tmp_path)
    assert data.class_names == ("ä", "b", "c") and len(data.train) == 20 and len(data.test) == 6
    assert data.train.labels.tolist() == [n % 3 for n in range(20)]
    expected = np.random.default_rng(12).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    assert (all_images(data.train)[12].numpy() == expected.transpose(2, 0, 1)).all()


def test_parquet_of_large_images_is_kept_encoded(tmp_path):
    rows = [(png(n, side=120), f"name {n % 2}") for n in range(10)]
    rows[4] = (b"broken", "name 0")
    write_parquet(tmp_path / "set" / "all.parquet", rows, group=3, nested=False)
    with pytest.raises(BrokenImage, match=r"all\.parquet, row 1 of group 1: it is no image"):
        load_parquet(tmp_path)
    data = load_parquet(tmp_path, skip_broken=True)
    assert data.image_shape == (3, 224, 224) and not isinstance(data.train.images, torch.Tensor)
    assert data.class_names == ("name 0", "name 1") and len(data.train) + len(data.test) == 9
    assert list((tmp_path / "cache").rglob("train.blob"))
    seen = all_images(data.train)
    for n, image in enumerate(seen):  # each image once, and with its own label
        kept = [k for k in range(10) if k != 4]
        at = [k for k in kept if torch.equal(image, picture(k))]
        assert len(at) == 1 and data.train.labels[n] == at[0] % 2


def picture(n):
    raw = np.random.default_rng(n).integers(0, 256, (120, 120, 3), dtype=np.uint8)
    resized = Image.fromarray(raw).resize((224, 224), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.asarray(resized).transpose(2, 0, 1).copy())


def test_parquet_columns_are_found_or_asked_for(tmp_path):
    rows = [(png(n), n % 2) for n in range(10)]
    write_parquet(tmp_path / "set" / "train.parquet", rows, image="thumb", label="kind")
    with pytest.raises(InvalidInput, match=r"columns thumb, kind; say .* --set image_column=NAME"):
        load_parquet(tmp_path)
    with pytest.raises(InvalidInput, match="--set label_column=NAME"):
        load_parquet(tmp_path, image_column="thumb")
    data = load_parquet(tmp_path, image_column="thumb", label_column="kind")
    assert data.class_names == ("0", "1") and "held out" in data.notes[0]


def test_parquet_that_is_none_and_labels_that_are_none(tmp_path):
    with pytest.raises(DataNotFound, match="does not exist"):
        load_parquet(tmp_path)
    (tmp_path / "set").mkdir()
    with pytest.raises(DataNotFound, match="holds no parquet files"):
        load_parquet(tmp_path)
    (tmp_path / "set" / "train.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InvalidInput, match="not a parquet file that can be read"):
        load_parquet(tmp_path)
    write_parquet(tmp_path / "set" / "train.parquet", [(png(0), None), (png(1), 1)])
    with pytest.raises(InvalidInput, match=r"row 0: label None"):
        load_parquet(tmp_path)


def test_parquet_needs_its_extra(tmp_path, monkeypatch):
    write_parquet(tmp_path / "set" / "train.parquet", [(png(n), n % 2) for n in range(4)])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(EarlError, match=r'pip install "earl-learn\[data\]"'):
        load_parquet(tmp_path)
