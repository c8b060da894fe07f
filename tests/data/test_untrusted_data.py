"""Data files that are not what they should be: one line that says what to do, and exit code 1."""

import os

import numpy as np
import pytest

from datasets_trees import (
    WNIDS,
    load_csv,
    load_parquet,
    png,
    save,
    source,
    write_cifar10_binary,
    write_imagenet,
    write_parquet,
    write_tiny_imagenet,
)
from earl.data.sets import cifar, imagenet, tiny_imagenet
from earl.data.sets import csv_list as table
from earl.errors import DataNotFound, EarlError, InvalidInput
from earl.storage.reading import read_text

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("places")]

LINES = "path,label\na.png,x\nb.png,x\nc.png,y\nd.png,y\n"
TABLES = {
    "zero byte": (LINES.replace("b.png", "b\0.png").encode(), "line 3: there is a zero byte"),
    "Latin-1": (LINES.replace("x", "é").encode("latin-1"), r"line 2: the byte 0xe9 is not UTF-8"),
    "UTF-16": (LINES.encode("utf-16"), "UTF-16; save it as UTF-8"),
    "UTF-16 without a mark": (LINES.encode("utf-16-le"), "line 1: there is a zero byte"),
    "a huge field": ((LINES + "e" * 200_000 + ",x\n").encode(), "line 6: a field is very long"),
    "an open quote": ((LINES + '"e,x\n' + LINES * 9000).encode(), "a quotation mark missing"),
    "an image": (png(1), "is not UTF-8"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_list_that_is_no_plain_text_is_one_line(kind, tmp_path, typed):
    data, message = TABLES[kind]
    for name in "abcd":
        save(tmp_path / f"{name}.png")
    with pytest.raises(InvalidInput, match=message):
        load_csv(tmp_path, data)
    code, _, err = typed("data", "prepare", f"csv:{tmp_path / 'labels.csv'}")
    assert code == 1 and err.startswith("earl: ") and err.count("\n") == 1 and len(err) < 400


def test_the_list_itself_is_fine_with_and_without_a_mark(tmp_path):
    for name in "abcd":
        save(tmp_path / f"{name}.png")
    for data in (LINES.encode(), LINES.encode("utf-8-sig"), LINES.replace("\n", "\r\n").encode()):
        found = load_csv(tmp_path, data)
        assert found.class_names == ("x", "y") and len(found.train) == len(found.test) == 2


def test_a_list_that_is_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "labels.csv")
    with pytest.raises(EarlError, match="expected a CSV file"):
        table.load(source(tmp_path, path=str(tmp_path / "labels.csv")))


def test_a_time_that_is_no_number_orders_as_text():
    assert table.number_times(["10", "9"]) == {"9": 0, "10": 1}
    assert table.number_times(["10", "9", "nan"]) == {"10": 0, "9": 1, "nan": 2}


# ---- parquet -------------------------------------------------------------------------------------


def write_columns(path, image, label):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"image": image, "label": label}), path)


COLUMNS = {
    "paths alone": ([{"path": "a.png"}] * 4, r"'image\.bytes', which is missing"),
    "bytes of another kind": ([{"bytes": 3, "path": ""}] * 4, "which is of type int64"),
    "lists": ([[1, 2]] * 4, "which is of type list"),
    "texts": (["a.png"] * 4, "which is of type string"),
    "nothing": ([None] * 4, "which is missing"),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_parquet_without_bytes_is_one_line(kind, tmp_path, typed):
    column, message = COLUMNS[kind]
    write_columns(tmp_path / "set" / "all.parquet", column, [0, 0, 1, 1])
    with pytest.raises(InvalidInput, match=rf"{message}.*image_column=NAME"):
        load_parquet(tmp_path)
    code, _, err = typed("data", "prepare", f"parquet:{tmp_path / 'set'}")
    assert code == 1 and err.startswith("earl: ") and err.count("\n") == 1


def test_parquet_whose_bytes_are_all_null_names_the_rows(tmp_path):
    write_parquet(tmp_path / "set" / "all.parquet", [(None, n % 2) for n in range(4)])
    with pytest.raises(EarlError, match=r"4 of 4 images cannot be used: .*it holds no image"):
        load_parquet(tmp_path)


def test_parquet_files_of_different_columns_are_refused(tmp_path):
    rows = [(png(n), n % 2) for n in range(6)]
    write_parquet(tmp_path / "set" / "train-0.parquet", rows)
    write_parquet(tmp_path / "set" / "train-1.parquet", rows, image="picture")
    with pytest.raises(InvalidInput, match=r"train-1\.parquet: .*'image', which is missing"):
        load_parquet(tmp_path)
    write_parquet(tmp_path / "set" / "train-1.parquet", rows, label="kind")
    with pytest.raises(InvalidInput, match=r"train-1\.parquet has no column 'label'"):
        load_parquet(tmp_path)


def test_a_pipe_among_parquet_files_is_none_of_them(tmp_path):
    write_parquet(tmp_path / "set" / "all.parquet", [(png(n), n % 2) for n in range(6)])
    os.mkfifo(tmp_path / "set" / "other.parquet")
    assert len(load_parquet(tmp_path).train) == 4


def test_damaged_parquet_raises_nothing_but_errors_of_ours(tmp_path):
    write_parquet(
        tmp_path / "set" / "all.parquet",
        [(png(n, side=16), n % 2) for n in range(8)],
        ["a", "b"],
        group=3,
    )
    file = tmp_path / "set" / "all.parquet"
    whole, generator, refused = file.read_bytes(), np.random.default_rng(0), 0
    for number in range(60):
        data = bytearray(whole)
        for place in generator.integers(len(data) - 1500, len(data), 1 + number % 3):
            data[place] = generator.integers(256)
        file.write_bytes(data)
        try:
            load_parquet(tmp_path)
        except EarlError as error:
            assert "\n" not in str(error)
            refused += 1
    assert 20 < refused <= 60


# ---- texts beside images -------------------------------------------------------------------------

BAD_TEXTS = [b"\xff\xfe1\0", b"caf\xe9\n", b"a\0b\n"]


@pytest.mark.parametrize("data", [*BAD_TEXTS, b"no tabs here\n"])
def test_answers_of_tiny_imagenet_that_are_no_text_are_refused(data, tmp_path):
    folder = write_tiny_imagenet(tmp_path / "data")
    (folder / "val" / "val_annotations.txt").write_bytes(data)
    with pytest.raises(InvalidInput, match=r"val_annotations\.txt"):
        tiny_imagenet.load(source(tmp_path))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        *(("val_map.txt", data) for data in (*BAD_TEXTS, b"x" * 5000)),
        *(("LOC_val_solution.csv", data) for data in BAD_TEXTS),
        ("LOC_val_solution.csv", b"ImageId,PredictionString\nILSVRC2012_val_00000001,\n"),
        ("LOC_val_solution.csv", b"a,b\n1,2\n"),
        ("LOC_val_solution.csv", b"ImageId,PredictionString\n" + b'"' + b"x\n" * 100_000),
    ],
)
def test_answers_of_imagenet_that_are_no_table_are_refused(name, data, tmp_path):
    write_imagenet(tmp_path / "data", flat=True)
    (tmp_path / "data" / name).write_bytes(data)
    with pytest.raises(InvalidInput, match=name) as error:
        imagenet.load1k(source(tmp_path))
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("number", ["x", "9999", "1e3", "-1", "", "٣"])
def test_a_devkit_with_a_class_that_is_none_is_refused(number, tmp_path, monkeypatch):
    write_imagenet(tmp_path / "data", flat=True)
    devkit = tmp_path / "data" / "ILSVRC2012_devkit_t12" / "data"
    devkit.mkdir(parents=True)
    (devkit / imagenet.TRUTH).write_text(f"1\n{number}\n", encoding="utf-8")
    monkeypatch.setattr(imagenet, "read_meta", lambda _: {"1": WNIDS[0]})
    with pytest.raises(InvalidInput, match="there is no class with the number"):
        imagenet.load1k(source(tmp_path))


def test_a_damaged_table_of_the_devkit_is_an_error_of_ours(tmp_path):
    from scipy.io import savemat

    synsets = np.array([(1.0, WNIDS[0])], dtype=[("ILSVRC2012_ID", "f8"), ("WNID", "O")])
    savemat(tmp_path / "meta.mat", {"synsets": synsets}, do_compression=True)
    whole = (tmp_path / "meta.mat").read_bytes()
    assert imagenet.read_meta(tmp_path / "meta.mat") == {"1": WNIDS[0]}
    generator, refused = np.random.default_rng(0), 0
    for _ in range(150):
        data = bytearray(whole)
        data[generator.integers(124, len(data))] = generator.integers(256)
        (tmp_path / "meta.mat").write_bytes(data)
        try:
            imagenet.read_meta(tmp_path / "meta.mat")
        except InvalidInput:
            refused += 1
    assert refused > 50
    (tmp_path / "meta.mat").unlink()
    with pytest.raises(InvalidInput, match=r"meta\.mat"):
        imagenet.read_meta(tmp_path / "meta.mat")


@pytest.mark.parametrize("data", BAD_TEXTS)
def test_names_of_classes_that_are_no_text_are_refused(data, tmp_path):
    folder = write_cifar10_binary(tmp_path / "data")
    (folder / "batches.meta.txt").write_bytes(data)
    with pytest.raises(InvalidInput, match=r"batches\.meta\.txt"):
        cifar.cifar10(source(tmp_path))


def test_text_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(DataNotFound, match=r"there is no file .*none\.txt"):
        read_text(tmp_path / "none.txt", 10)
