"""Your own images in CSV lists and in parquet files."""

import sys

import numpy as np
import pytest
import torch
from PIL import Image

from datasets_trees import all_images, jpeg, load_csv, load_parquet, png, save, write_parquet
from earl.errors import BrokenImage, DataNotFound, EarlError, InvalidInput


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
