"""The names of classes: in the record of a run and wherever classes are shown, with their words."""

import csv
import json

import pytest

from datasets_trees import (
    WNIDS,
    save,
    source,
    write_devkit,
    write_imagenet,
    write_tiny_imagenet,
)
from earl.data.sets import imagenet, tiny_imagenet
from earl.data.sets.words import read_words
from earl.errors import MixedRuns, RunConflict
from earl.experiments.experiment import Experiment
from earl.experiments.loading import check_unchanged
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import find_runs
from earl.report.export.tables import export_csv, export_parquet
from earl.report.page.page import make_page
from earl.report.tables import make_table
from run_folders import write_run
from small_runs import finish

SMALL = {"depth": 4, "width": 16, "every": 10, "memory_size": 8, "tasks": 2}
pytestmark = pytest.mark.usefixtures("places")


def run_on(path, dataset):
    made = Experiment(method="er", dataset=dataset, stream="iid", settings=SMALL)
    finish(RunDirectory(path, made))


def read_csv(file):
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def test_a_run_records_the_names_and_report_and_exports_show_them(tmp_path):
    for k, c in enumerate(("Ente", "鴨")):
        for n in range(8):
            save(tmp_path / "photos" / c / f"{n}.png", (16, 16), seed=n + 100 * k)
    run_on(tmp_path / "runs" / "one", f"folder:{tmp_path / 'photos'}")
    record = json.loads((tmp_path / "runs" / "one" / "experiment.json").read_text())
    assert record["data"]["class_names"] == ["Ente", "鴨"] and "class_words" not in record["data"]
    (run,) = find_runs([tmp_path / "runs"])
    assert run.class_names == ("Ente", "鴨")
    page = make_page([run]).decode()
    assert ">0 Ente</th>" in page and ">1 鴨</th>" in page
    assert "data: class_names" not in page  # it is no setting
    export_csv([run], tmp_path / "out")
    lines = read_csv(tmp_path / "out" / "classes.csv")
    assert {(line["class"], line["class_name"]) for line in lines} == {("0", "Ente"), ("1", "鴨")}


def test_a_run_of_before_has_no_names_and_is_read(tmp_path):
    write_run(tmp_path / "runs", "er", 1, [0.5])
    (run,) = find_runs([tmp_path / "runs"])
    assert run.class_names == ()
    assert b">0</th>" in make_page([run])
    export_csv([run], tmp_path / "out")
    assert read_csv(tmp_path / "out" / "classes.csv")[0]["class_name"] == ""
    export_parquet([run], tmp_path / "out")


def test_runs_of_before_and_of_now_stand_in_one_column(tmp_path):
    now = {"images_sha256": "a" * 64, "class_names": ["x", "y"]}
    write_run(tmp_path, "er", 1, [0.5])
    write_run(tmp_path, "er", 2, [0.6], data=now)
    assert make_table(find_runs([tmp_path])).rows == ("er",)
    write_run(tmp_path, "er", 3, [0.7], data=now | {"class_names": ["x", "z"]})
    assert make_table(find_runs([tmp_path])).rows == ("er",)


def test_runs_on_other_images_do_not(tmp_path):
    write_run(tmp_path, "er", 1, [0.5], data={"images_sha256": "a" * 64})
    write_run(tmp_path, "er", 2, [0.6], data={"images_sha256": "b" * 64})
    with pytest.raises(MixedRuns, match="data images_sha256"):
        make_table(find_runs([tmp_path]))


def test_names_that_are_no_list_are_none(tmp_path):
    write_run(tmp_path, "er", 1, [0.5], data={"class_names": 3, "class_words": {"a": 1}})
    assert find_runs([tmp_path])[0].class_names == ()


def test_another_name_of_a_class_is_another_data_set_and_only_it_is_told():
    names = [f"class {n}" for n in range(1000)]
    other = [*names[:500], "other", *names[501:]]
    with pytest.raises(RunConflict, match=r"class_names was class 500, and is other now;"):
        check_unchanged({"class_names": names}, {"class_names": other})
    with pytest.raises(RunConflict, match=r"image was \[3, 8, 8\], and is \[3, 9, 9\]"):
        check_unchanged({"image": [3, 8, 8]}, {"image": [3, 9, 9]})
    check_unchanged({"class_words": ["x"]}, {})  # a file of words that is gone changes nothing


# ---- words ---------------------------------------------------------------------------------------


def test_tiny_imagenet_shows_the_words_of_its_archive(tmp_path, typed):
    folder = write_tiny_imagenet(tmp_path / "data")
    words = {"n01443537": "goldfish, Carassius auratus", "n01629819": "European fire salamander"}
    text = "".join(f"{wnid}\t{of}\n" for wnid, of in words.items())
    (folder / "words.txt").write_text("n00001740\tentity\n" + text)
    data = tiny_imagenet.load(source(tmp_path))
    assert data.class_names == ("n01443537", "n01629819", "n01641577")
    assert data.words == (*words.values(), "")
    assert data.titles == (
        *("n01443537 (goldfish)", "n01629819 (European fire salamander)", "n01641577"),
    )
    _, shown, _ = typed("data", "prepare", "tiny-imagenet")
    assert "3: n01443537 (goldfish), n01629819 (European" in shown
    run_on(tmp_path / "run", "tiny-imagenet")
    record = json.loads((tmp_path / "run" / "experiment.json").read_text())["data"]
    assert record["class_words"] == list(data.words)
    assert find_runs([tmp_path / "run"])[0].class_names == data.titles


def test_words_need_no_preparing_anew(tmp_path, monkeypatch):
    folder = write_tiny_imagenet(tmp_path / "data")
    (folder / "words.txt").unlink()
    assert tiny_imagenet.load(source(tmp_path)).words == ()
    monkeypatch.setattr("earl.data.cache.build", lambda *_: pytest.fail("prepared anew"))
    (folder / "words.txt").write_text("n01443537\tgoldfish\n")
    assert tiny_imagenet.load(source(tmp_path)).words == ("goldfish", "", "")


def write_mapping(folder):
    lines = (f"{wnid} fish {n}, other {n}\n" for n, wnid in enumerate(WNIDS))
    (folder / "LOC_synset_mapping.txt").write_text("".join(lines))


def write_words(folder):
    (folder / "words.txt").write_text("".join(f"{w}\tfish {n}\n" for n, w in enumerate(WNIDS)))


@pytest.mark.parametrize("write", [write_mapping, write_words, write_devkit])
@pytest.mark.parametrize("where", ["data", "data/imagenet"])
def test_imagenet_shows_the_words_of_its_archive(write, where, tmp_path):
    write_imagenet(tmp_path / "data")
    assert imagenet.load1k(source(tmp_path)).words == ()
    write(tmp_path / where)
    data = imagenet.load1k(source(tmp_path))
    assert data.class_names == WNIDS
    assert data.titles == tuple(f"{wnid} (fish {n})" for n, wnid in enumerate(WNIDS))


def test_imagenet_200_has_the_words_of_tiny_imagenet(tmp_path):
    write_imagenet(tmp_path / "data")
    write_tiny_imagenet(tmp_path / "data")
    assert imagenet.load200(source(tmp_path)).titles[0] == "n01443537 (some words)"


def test_a_file_of_words_never_stops_a_run(tmp_path):
    folder = write_tiny_imagenet(tmp_path / "data")
    (folder / "words.txt").write_bytes(b"\xff\0garbage\nn01443537\tgoldf\xefsh\x1b[2J\nn0144353\n")
    assert tiny_imagenet.load(source(tmp_path)).titles[0] == "n01443537 (goldf\ufffdsh\\x1b[2J)"
    (folder / "words.txt").unlink()
    (folder / "words.txt").symlink_to("/dev/zero")
    assert tiny_imagenet.load(source(tmp_path)).words == ()
    assert read_words(tmp_path / "none") == {}
