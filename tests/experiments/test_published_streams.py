"""Stream files of other groups, written here in exactly their formats."""

import json
import random

import pytest
import torch

from earl.data.dataset import Dataset, Split
from earl.errors import DataNotFound, StreamFileError
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.streamfile import StreamFile
from small_runs import finish

CLASSES = ("airplane", "automobile", "aquarium fish", "bird")
EACH = 6


def dataset(names=None, classes=CLASSES, each=EACH, mixed=True):
    """A data set whose classes arrive mixed in its files, as CIFAR's do."""
    labels = torch.arange(len(classes)).repeat(each)
    if not mixed:
        labels = labels.sort().values
    split = Split(torch.zeros(len(labels), 1, 1, 1, dtype=torch.uint8), labels, names=names)
    return Dataset("toy", split, split, tuple(classes), (0.5,), (0.5,))


def records(key="file_name", seed=0, klasses=("automobile", "bird", "airplane", "aquarium_fish")):
    """Every image once, named as the tool that unpacks CIFAR names them: train/bird/0001.png."""
    rows = [
        {key: f"train/{klass}/{number:04}.png", "klass": klass, "label": label}
        for label, klass in enumerate(klasses)
        for number in range(1, EACH + 1)
    ]
    random.Random(seed).shuffle(rows)
    return rows


def gaussian_like(rows):
    return [row | {"time": -0.3 + 0.01 * place} for place, row in enumerate(rows)]


def sdp_object(rows):
    klasses = {row["klass"]: row["label"] for row in rows}
    return {"cls_dict": klasses, "stream": rows, "cls_addition": [0.0] * len(klasses)}


def image(data, row):
    """Return the index of the k-th image of a class, looked up the slow way."""
    path = row.get("file_name") or row["filepath"]
    c = CLASSES.index(row["klass"].replace("_", " "))
    return (data.train.labels == c).nonzero().flatten().tolist()[int(path[-8:-4]) - 1]


def read(path, data):
    return StreamFile.open(path).schedule("toy", data)


def write(path, document):
    path.write_text(json.dumps(document))
    return path


def test_a_gaussian_file_of_earl_or_sdp_gives_its_images_in_order(tmp_path):
    data, rows = dataset(), gaussian_like(records())
    path = write(tmp_path / "toy_sigma10_repeat1_init100_seed1.json", sdp_object(rows))
    schedule = read(path, data)
    assert schedule.order.tolist() == [image(data, row) for row in rows]
    assert schedule.artificial and schedule.boundaries == (5, 10, 14, 19) and not schedule.notes


def test_a_disjoint_file_of_earl_or_sdp_has_the_boundaries_of_its_times(tmp_path):
    data, rows = dataset(), records()
    early = [r | {"time": 0.0} for r in rows if r["label"] < 2]
    late = [r | {"time": 0.5} for r in rows if r["label"] >= 2]
    path = write(tmp_path / "toy_sigma0_repeat1_init100_seed1.json", sdp_object(early + late))
    schedule = read(path, data)
    assert schedule.boundaries == (12,) and not schedule.artificial
    assert schedule.order.tolist() == [image(data, row) for row in early + late]


def test_a_clear_file_of_earl_is_matched_by_the_names_of_its_images(tmp_path):
    names = tuple(str(497_674_228 + 13 * i) for i in range(4 * EACH))
    data = dataset(names=names)
    rows = [
        {
            "file_name": f"train_image_only/labeled_images/{1 + i // 8}/x/{name}.jpg",
            "klass": CLASSES[i % 4],
            "label": 3 - i % 4,
            "time": 1 + i // 8,
        }
        for i, name in enumerate(names)
    ]
    schedule = read(write(tmp_path / "clear.json", sdp_object(rows)), data)
    assert schedule.order.tolist() == list(range(24)) and schedule.boundaries == (8, 16)
    assert not schedule.artificial and not schedule.notes


@pytest.mark.parametrize("asked", [0, 2])
def test_the_task_files_of_iblurry_are_one_stream_whichever_is_named(tmp_path, asked):
    data, rows = dataset(), records("filepath")
    for task, part in enumerate((rows[:7], rows[7:15], rows[15:])):
        text = json.dumps(part, separators=(",", ":")).replace("/", r"\/")  # as pandas writes it
        (tmp_path / f"toy_split3_n50_m10_rand1_task{task}.json").write_text(text)
    schedule = read(tmp_path / f"toy_split3_n50_m10_rand1_task{asked}.json", data)
    assert schedule.order.tolist() == [image(data, row) for row in rows]
    assert schedule.boundaries == (7, 15) and not schedule.artificial


def test_a_missing_task_file_is_named(tmp_path):
    for task in (0, 2):
        write(tmp_path / f"toy_task{task}.json", records("filepath"))
    with pytest.raises(DataNotFound, match=r"there is no toy_task1\.json beside it"):
        StreamFile.open(tmp_path / "toy_task2.json")


def test_a_plain_list_of_iblurry_has_artificial_boundaries(tmp_path):
    schedule = read(write(tmp_path / "list.json", records()), dataset())
    assert schedule.artificial and len(schedule.boundaries) == 4


def test_the_hash_covers_the_files_of_all_tasks(tmp_path):
    rows = records()
    for task in (0, 1):
        write(tmp_path / f"toy_task{task}.json", rows[12 * task : 12 * task + 12])
    before = StreamFile.open(tmp_path / "toy_task0.json").sha256
    write(tmp_path / "toy_task1.json", rows[12:][::-1])
    assert StreamFile.open(tmp_path / "toy_task0.json").sha256 != before


def test_tiny_imagenet_is_matched_by_names_even_if_its_classes_are_called_otherwise(tmp_path):
    names = tuple(f"n0250981{i % 4}_{i // 4}" for i in range(4 * EACH))
    rows = [
        {"file_name": f"train/{n[:9]}/{n}.JPEG", "klass": n[:9], "label": 9} for n in names[::-1]
    ]
    schedule = read(write(tmp_path / "tiny.json", rows), dataset(names=names))
    assert schedule.order.tolist() == list(range(23, -1, -1))


def test_names_that_are_unique_within_a_class_only_are_told_apart_by_it(tmp_path):
    data = dataset(names=tuple(f"{1 + i // 4:04}" for i in range(4 * EACH)))
    rows = records()
    schedule = read(write(tmp_path / "s.json", rows), data)
    assert schedule.order.tolist() == [image(data, row) for row in rows]


def test_without_names_or_numbers_classes_arrive_in_order_and_a_note_says_so(tmp_path):
    data, rows = dataset(), records()
    for row in rows:
        row["file_name"] = row["file_name"].replace(".png", "_x.png")
    schedule = read(write(tmp_path / "s.json", rows), data)
    said = [CLASSES.index(row["klass"].replace("_", " ")) for row in rows]
    assert data.train.labels[schedule.order].tolist() == said
    assert sorted(schedule.order.tolist()) == list(range(24))
    assert "stands for another one of its class" in schedule.notes[0]


def test_a_part_of_the_data_set_may_arrive(tmp_path):
    rows = records()[:10]
    data = dataset()
    found = read(write(tmp_path / "s.json", rows), data).order.tolist()
    assert found == [image(data, row) for row in rows]


def other(field, value, rows=None):
    rows = rows or records()
    return [*rows[:-1], rows[-1] | {field: value}]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (other("klass", "brid"), "toy has no class 'brid'; did you mean 'bird'"),
        (other("klass", 7), "record 23 needs the texts 'klass' and 'file_name'"),
        (other("file_name", ""), "record 23 needs"),
        (other("file_name", None), "record 23 needs"),
        ([*records()[:-1], "train/bird/0001.png"], "record 23 needs"),
        ([*records(), records()[0]], "arrives more than once"),
        ([], "holds no images"),
        ({"stream": []}, "holds no images"),
        ({"cls_dict": {}}, "neither a stream that earl has made nor a list of images"),
        ("text", "neither a stream"),
        ([{"file_name": "test/bird/0001.png", "klass": "bird", "label": 1}], "lists test images"),
        ({"stream": [{"file_name": "val/a/val_1.JPEG", "klass": "a"}]}, "lists test images"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_does_not_fit_is_refused(tmp_path, document, said):
    with pytest.raises(StreamFileError, match=said):
        read(write(tmp_path / "s.json", document), dataset())


def test_a_data_set_smaller_than_the_file_is_refused(tmp_path):
    path = write(tmp_path / "s.json", records())
    with pytest.raises(
        StreamFileError, match=r"it holds 6 images of .*, toy only 3; use the data set"
    ):
        read(path, dataset(each=3))
    names = tuple(str(i) for i in range(24))
    with pytest.raises(StreamFileError, match="24 of its 24 images are not in the training images"):
        read(path, dataset(names=names))


def test_names_whose_classes_contradict_the_data_set_are_refused(tmp_path):
    names = tuple(f"img{i}" for i in range(24))
    rows = [{"file_name": f"train/{n}.png", "klass": "bird", "label": 0} for n in names]
    with pytest.raises(StreamFileError, match="is not one image of the class 'bird'"):
        read(write(tmp_path / "s.json", rows), dataset(names=names))


def test_a_run_on_a_published_file_passes_its_note_on(tmp_path):
    rows = [
        {"file_name": f"train/shape {c}/x{i}.png", "klass": f"shape {c}", "label": c, "time": c / 4}
        for c in range(4)
        for i in range(10)
    ]
    path = write(tmp_path / "s.json", sdp_object(rows))
    settings = {"iterations": 0.05, "every": 40}
    e = Experiment(method="er", dataset="shapes", stream=f"file:{path}", settings=settings)
    run = finish(RunDirectory(tmp_path / "run", e))
    assert run.summary["samples"] == 40 and any("stands for another" in n for n in run.notes)
    assert [e.task for e in run.history] == [3]
