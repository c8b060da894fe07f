"""Data sets in experiments: names, options, records, resuming, and the commands."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from datasets_trees import save, write_cifar10_binary, write_clear, write_photos
from earl.cli.app import app
from earl.errors import BrokenImage, EarlError, InvalidSetting, RunConflict, UnknownName
from earl.experiments.catalogue import DATASETS, METHODS
from earl.experiments.experiment import Experiment
from earl.experiments.loading import DataOptions, load_data
from earl.experiments.machine import cores
from earl.experiments.names import OWN, Name, dataset_label
from earl.experiments.places import Places
from earl.experiments.recipes import RECIPES, recipe
from earl.experiments.runs.directory import RunDirectory
from small_runs import finish, stop

SMALL = {"depth": 4, "width": 16, "every": 10, "memory_size": 8}
pytestmark = pytest.mark.usefixtures("places")


@pytest.fixture
def photos(tmp_path):
    return write_photos(tmp_path / "photos", (16, 16), n=10)


def experiment(dataset, **settings):
    return Experiment(
        method="er", dataset=dataset, stream="iid", settings=SMALL | {"tasks": 2} | settings
    )


# ---- names ---------------------------------------------------------------------------------------


def test_names_of_data_sets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(Name.read("cifar10")) == "cifar10"
    assert str(Name.read("folder:~/photos")) == "folder:~/photos"
    assert str(Name.read("csv:labels.csv")) == f"csv:{tmp_path}/labels.csv"
    assert dataset_label("folder:~/photos") == "folder-photos"
    assert dataset_label("csv:/x/my labels.csv") == "csv-my-labels"
    assert dataset_label("parquet:/x/cifar10/") == "parquet-cifar10"
    for wrong, error in (("folder", InvalidSetting), ("cifar10:/x", InvalidSetting)):
        with pytest.raises(error):
            Name.read(wrong)
    with pytest.raises(UnknownName, match="did you mean 'cifar10'"):
        Name.read("cifar-10")


def test_run_directories_are_short_and_safe():
    path = experiment("folder:/a/b/My Photos", per_class=5, class_list="/x/../y z").path()
    assert path.parts[0] == "folder-My-Photos,class_list=-x-..-y-z,per_class=5"
    assert len(path.parts) == 4 and ".." not in path.parts


def test_every_data_set_has_options_without_clashes():
    for entry in DATASETS:
        name = f"{entry.name}:/x" if entry.name in OWN else entry.name
        for method in METHODS.names():
            values = Experiment(method=method, dataset=name, stream="gaussian").values()
            assert values["limit"] == 0 and values["rotate"] == 0


def test_recipes_are_the_papers():
    rows = {name: recipe(name) for name in RECIPES}
    table = {  # iterations, memory, batch, period
        "cifar10": (1, 500, 16, 100),
        "cifar100": (3, 2000, 32, 100),
        "tiny-imagenet": (3, 4000, 32, 100),
        "imagenet-200": (0.25, 4000, 256, 1000),
        "imagenet-1k": (0.25, 10000, 256, 1000),
        "clear-10": (3, 500, 32, 200),
        "clear-100": (3, 2000, 32, 500),
    }
    names = ("iterations", "memory_size", "batch_size", "every")
    for dataset, expected in table.items():
        assert tuple(rows[dataset][n] for n in names) == expected
        assert rows[dataset]["d"] == 4096 and rows[dataset]["hidden"] == 2048
        assert rows[dataset]["stem"] == ("small" if expected[3] == 100 else "large")
    assert recipe("folder:/x") == {}


# ---- places --------------------------------------------------------------------------------------


def test_places_option_before_record_before_variable_before_cache(tmp_path, monkeypatch):
    record = {"data_root": str(tmp_path), "cache_root": "/gone"}
    assert Places.find(Path("given"), before=record).data_root == Path("given").absolute()
    assert Places.find(before=record).data_root == tmp_path
    assert Places.find(before=record).cache_root == tmp_path / "cache"  # the record's is gone
    monkeypatch.delenv("EARL_DATA")
    monkeypatch.delenv("EARL_CACHE")
    ours = Places.find()
    assert ours.data_root.parent.name == "earl" and ours.data_root.name == "data"
    assert Path.cwd() not in ours.data_root.parents


# ---- runs ----------------------------------------------------------------------------------------


def test_run_on_a_folder_records_its_data(photos, tmp_path):
    run = finish(RunDirectory(tmp_path / "run", experiment(f"folder:{photos}", per_class=5)))
    record = json.loads((tmp_path / "run" / "experiment.json").read_text())
    assert record["settings"]["per_class"] == 5 and run.summary["samples"] == 10
    data = record["data"]
    assert (data["train_images"], data["test_images"], data["classes"]) == (10, 4, 2)
    assert record["places"]["cache_root"] == str(tmp_path / "cache")
    assert "data_root" not in record["settings"]


def test_broken_image_stops_before_training_and_is_counted_when_skipped(photos, tmp_path):
    file = photos / "a" / "3.png"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(BrokenImage, match=r"a/3\.png"):
        finish(RunDirectory(tmp_path / "run", experiment(f"folder:{photos}")))
    assert not (tmp_path / "run" / "experiment.json").exists()
    skipping = experiment(f"folder:{photos}", skip_broken=True)
    run = finish(RunDirectory(tmp_path / "run", skipping))
    record = json.loads((tmp_path / "run" / "experiment.json").read_text())
    assert len(record["data"]["skipped"]) == 1 and "3.png" in record["data"]["skipped"][0]
    assert any("broken images left out: 1" in note for note in run.summary["notes"])


def test_resumed_run_finds_its_data_where_they_were(photos, tmp_path, monkeypatch):
    whole = finish(RunDirectory(tmp_path / "whole", experiment(f"folder:{photos}")))
    stop(RunDirectory(tmp_path / "run", experiment(f"folder:{photos}")), 7)
    monkeypatch.delenv("EARL_CACHE")
    again = finish(RunDirectory(tmp_path / "run"))
    assert again.places.cache_root == tmp_path / "cache"
    history = (tmp_path / "run" / "history.jsonl").read_text()
    assert history == (tmp_path / "whole" / "history.jsonl").read_text() and whole.summary


def test_changed_data_do_not_continue_a_run(photos, tmp_path):
    stop(RunDirectory(tmp_path / "run", experiment(f"folder:{photos}")), 1)
    for n in range(5):
        save(photos / "a" / f"new{n}.png", (16, 16))
    with pytest.raises(RunConflict, match="train_images was 16, and is 20"):
        finish(RunDirectory(tmp_path / "run"))


def test_stem_follows_the_size_of_the_images(photos, tmp_path):
    small = experiment(f"folder:{photos}").build()
    large = experiment(f"folder:{photos}", image_size=96).build()
    assert small.learner.network.backbone.stem[0].kernel_size == (3, 3)
    assert large.learner.network.backbone.stem[0].kernel_size == (7, 7)
    forced = experiment(f"folder:{photos}", image_size=96, stem="small").build()
    assert forced.learner.network.backbone.stem[0].kernel_size == (3, 3)


def test_clear_data_run_on_the_clear_stream(tmp_path):
    write_clear(tmp_path / "data", buckets=(1, 2))
    made = Experiment(
        method="er",
        dataset="clear-10",
        stream="clear",
        settings=SMALL | {"image_size": 32, "batch_size": 4, "iterations": 1},
    )
    run = finish(RunDirectory(tmp_path / "run", made))
    assert run.summary["samples"] == 9  # one class, then both


def test_load_data_by_name(photos):
    data = load_data(f"folder:{photos}", DataOptions(limit=3, rotate=90))
    assert len(data.train) == 3 and data.image_shape == (3, 32, 32)


# ---- commands ------------------------------------------------------------------------------------


def earl(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=True)
    if isinstance(result.exception, EarlError):
        return result.exception, result
    assert result.exit_code == 0, result.output
    return None, result


def test_data_prepare_and_info(tmp_path):
    root = tmp_path / "elsewhere"
    write_cifar10_binary(root)
    error, _ = earl("data", "prepare", "cifar10")
    assert str(tmp_path / "data") in str(error)
    _, result = earl("data", "prepare", "cifar10", "--data-root", root, "--json")
    facts = json.loads(result.stdout)
    assert facts["images"] == "100 to train, 10 to test" and facts["image"] == "3 x 32 x 32"
    _, result = earl("data", "info", "cifar10", "--data-root", root, "--json")
    facts = json.loads(result.stdout)
    assert facts["found"] and facts["layout"] == "binary" and "100 + 10 images" in facts["prepared"]
    assert facts["settings"]["memory_size"] == 500
    _, result = earl("data", "info", "cifar10")
    assert "found      False" in result.stdout and "cifar-10-binary.tar.gz" in result.stdout


@pytest.mark.parametrize("name", DATASETS.names())
def test_data_info_of_every_data_set(name, tmp_path):
    own = name in OWN
    _, result = earl("data", "info", f"{name}:/nowhere" if own else name, "--json")
    assert json.loads(result.stdout)["name"].startswith(name)


def test_data_prepare_takes_options_and_refuses_unknown_ones(photos):
    _, result = earl("data", "prepare", f"folder:{photos}", "--set", "image_size=8", "--json")
    assert json.loads(result.stdout)["image"] == "3 x 8 x 8"
    error, _ = earl("data", "prepare", f"folder:{photos}", "--set", "imagesize=8")
    assert isinstance(error, UnknownName) and "did you mean 'image_size'" in str(error)


def test_run_command_takes_the_options_of_data(photos, tmp_path):
    (photos / "a" / "3.png").write_bytes(b"")
    options = ["--method", "er", "--dataset", f"folder:{photos}", "--stream", "iid", "--threads", 1]
    for name, value in (SMALL | {"tasks": 2}).items():
        options += ["--set", f"{name}={value}"]
    error, _ = earl("run", *options, "--out", tmp_path / "runs")
    assert isinstance(error, BrokenImage) and not (tmp_path / "runs").exists()
    options += ["--skip-broken", "--limit", 12, "--out", tmp_path / "runs", "--json"]
    _, result = earl("run", *options, "--cache-root", tmp_path / "third")
    facts = json.loads(result.stdout)
    assert facts["samples"] == 12 and facts["settings"]["skip_broken"] is True
    assert (tmp_path / "third").is_dir()


def test_list_shows_the_recipes():
    _, result = earl("list", "datasets")
    assert "memory_size 10000" in result.stdout and "folder:PATH" in result.stdout


def test_download_of_what_cannot_be_downloaded():
    error, _ = earl("data", "download", "imagenet-1k")
    assert "earl data info imagenet-1k" in str(error)


@pytest.mark.parametrize(
    ("quota", "cores_given"), [("max 100000", None), ("150000 100000", 2), ("5000 100000", 1)]
)
def test_a_container_may_be_given_less_than_the_cores_it_sees(
    tmp_path, monkeypatch, quota, cores_given
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    (tmp_path / "cpu.max").write_text(quota)
    assert cores(tmp_path / "cpu.max") == (cores_given or 64)
    assert cores(tmp_path / "none") == 64
