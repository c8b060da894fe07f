"""Folders of one's own: splits are known by their names, and what is ambiguous stops."""

import json

import pytest

from datasets_trees import load_csv, load_folder, load_parquet, png, save, write_parquet
from earl.data.splits import TEST, TRAIN, meaning, resembles
from earl.errors import DataNotFound


def make(tmp_path, *places, n=3):
    """Save pictures in these folders of tmp_path/photos."""
    for number, place in enumerate(places):
        for k in range(n):
            save(tmp_path / "photos" / place / f"{number}-{k}.png", seed=10 * number + k)


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("Train", "Test"),
        ("TRAIN", "VAL"),
        ("Training", "Testing"),
        ("trains", "tests"),
        ("training", "Validation"),
        ("train", "valid"),
        ("Train", "Evaluation"),
    ],
)
def test_splits_are_known_in_any_case_and_in_the_plural(train, test, tmp_path):
    make(tmp_path, f"{train}/cat", f"{train}/dog", f"{test}/cat", f"{test}/dog")
    data = load_folder(tmp_path)
    assert data.class_names == ("cat", "dog") and len(data.train) == len(data.test) == 6
    assert f"({train}/<class>/<image>)" in data.source


@pytest.mark.parametrize(
    ("places", "found"),
    [
        (("Train", "Test"), "2 classes: Test, Train"),
        (("training_set/cat", "training_set/dog", "test_set/cat"), "2 classes: test_set, tra"),
        (("train-images", "val-images"), "2 classes: train-images, val-images"),
        (("seg_train/cat", "seg_test/cat", "seg_val/cat"), "3 classes: seg_test, seg_tr"),
        (("test/cat", "val/cat"), "2 classes: test, val"),
        (("Training",), "1 class: Training"),
        (("train2017/x", "val2017/x"), "2 classes: train2017, val2017"),
    ],
)
def test_classes_that_look_like_splits_stop(places, found, tmp_path):
    make(tmp_path, *places)
    with pytest.raises(DataNotFound, match=rf"photos holds {found}.* – these look like splits; ex"):
        load_folder(tmp_path)


def test_a_class_may_be_called_train(tmp_path):
    make(tmp_path, "bus", "train", "car")
    assert load_folder(tmp_path).class_names == ("bus", "car", "train")
    make(tmp_path, "train/steam")
    with pytest.raises(DataNotFound, match=r"train beside bus, car: is train a split or a class\?"):
        load_folder(tmp_path)


def test_two_folders_of_one_meaning_stop(tmp_path):
    make(tmp_path, "train/cat", "train/dog", "test/cat", "Tests/dog")
    with pytest.raises(DataNotFound, match="holds Tests and test, which both look like the test"):
        load_folder(tmp_path)


def test_a_test_folder_without_classes_is_not_the_test_split(tmp_path):
    make(tmp_path, "train/cat", "train/dog", "test", "val/cat", "val/dog", "notes")
    data = load_folder(tmp_path)
    assert len(data.test) == 6
    assert data.notes == ("val is the test split; not used: notes, test",)


@pytest.mark.parametrize(
    ("places", "advice"),
    [
        (("2024/cat", "2024/dog"), r"class of that one is cat, name .* folder:.*/photos/2024;"),
        (("2023/cat", "2024/dog"), r"such as 2023/cat/0-0\.png"),
        (("all/train/cat", "all/test/cat"), r"folder:.*/photos/all;"),
        (("train/2024/cat", "train/2024/dog"), r"folder:.*/photos/train/2024; if it is 2024, put"),
    ],
)
def test_images_only_below_a_second_level_of_folders_stop(places, advice, tmp_path):
    make(tmp_path, *places)
    with pytest.raises(DataNotFound, match=rf"only below a second level of folders.*{advice}"):
        load_folder(tmp_path)


def test_folders_within_some_classes_are_noted(tmp_path):
    make(tmp_path, "cat", "dog/puppies", "dog/old")
    data = load_folder(tmp_path)
    assert data.class_names == ("cat", "dog") and len(data.train) + len(data.test) == 9
    assert data.notes == ("images taken from folders within classes, such as dog/old/2-0.png",)


def test_a_folder_of_images_in_every_class_is_no_level(tmp_path):
    make(tmp_path, "cat/images", "dog/Images")
    data = load_folder(tmp_path)
    assert data.class_names == ("cat", "dog") and data.notes == ()


def test_one_class_is_nothing_to_learn(tmp_path):
    make(tmp_path, "cat")
    with pytest.raises(DataNotFound, match="images of 1 class only: cat; at least 2 classes"):
        load_folder(tmp_path)
    make(tmp_path, "train/cat", "test/cat", "test/dog")
    (tmp_path / "photos" / "cat").rename(tmp_path / "elsewhere")
    with pytest.raises(DataNotFound, match="images of 1 class only: cat"):
        load_folder(tmp_path)


def test_one_class_is_nothing_to_learn_from_lists_and_tables_either(tmp_path):
    for n in range(4):
        save(tmp_path / f"{n}.png", seed=n)
    with pytest.raises(DataNotFound, match="images of 1 class only: x"):
        load_csv(tmp_path, "path,label\n" + "".join(f"{n}.png,x\n" for n in range(4)))
    write_parquet(tmp_path / "set" / "all.parquet", [(png(n), 1) for n in range(4)], ["a", "b"])
    with pytest.raises(DataNotFound, match="images of 1 class only: b"):
        load_parquet(tmp_path)


def test_info_says_why_a_folder_is_no_data_set(tmp_path, typed):
    make(tmp_path, "Train", "Test")
    facts = json.loads(typed("data", "info", f"folder:{tmp_path / 'photos'}", "--json")[1])
    assert facts["found"] is False and "these look like splits" in facts["why"]


def test_parquet_and_lists_know_the_same_names(tmp_path):
    rows = [(png(n), n % 2) for n in range(6)]
    write_parquet(tmp_path / "set" / "Trainings-0.parquet", rows)
    write_parquet(tmp_path / "set" / "Vals-0.parquet", rows[:2])
    data = load_parquet(tmp_path)
    assert (len(data.train), len(data.test)) == (6, 2)
    lines = ["path,label,split"]
    for n, split in enumerate(("Train", "trains", "TESTS", "Validations")):
        save(tmp_path / f"{n}.png", seed=n)
        lines.append(f"{n}.png,{n % 2},{split}")
    data = load_csv(tmp_path, "\n".join(lines))
    assert (len(data.train), len(data.test)) == (2, 2)


def test_a_name_means_one_split_or_none():
    assert [meaning(name) for name in ("TRAIN", "tests", "Vals", "eval", "trainer", "")] == [
        *("train", "test", "validation", "evaluation"),
        *("", ""),
    ]
    assert all(meaning(name) == "train" for name in TRAIN)
    assert all(meaning(name) not in ("", "train") for name in TEST)
    assert resembles("my train set") and not resembles("contest") and not resembles("retrained")
