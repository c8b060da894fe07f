"""Stream files: small, checked, and refused when they are not what they were."""

import hashlib
import json

import pytest
import torch

from earl.data.dataset import Dataset, Split
from earl.data.sets import shapes
from earl.errors import DataNotFound, EarlError, InvalidSetting, RunConflict, StreamFileError
from earl.experiments.catalogue import STREAMS
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.streamfile import FORMAT, StreamFile, make, plan
from small_runs import finish, stop

CHEAP = {"iterations": 0.05, "every": 80}
OPTIONS = {"sigma": 0.2, "tasks": 5}


@pytest.fixture(scope="module")
def data():
    return shapes.load()


@pytest.fixture
def path(tmp_path, data):
    """A file with a Gaussian stream of shapes."""
    path = tmp_path / "s.json"
    make("gaussian", "shapes", data, seed=3, settings=OPTIONS).write(path)
    return path


def change(path, **fields):
    record = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({k: v for k, v in record.items() if v is not ...}))


def read(path, data, name="shapes"):
    return StreamFile.open(path).schedule(name, data)


@pytest.mark.parametrize("embed", [False, True])
@pytest.mark.parametrize("setup", [entry.name for entry in STREAMS])
def test_a_file_gives_back_the_order_it_was_made_from(setup, embed, data, tmp_path):
    labels = data.train.labels
    train = Split(data.train.images, labels, torch.arange(len(labels)) % 4)
    data = Dataset("shapes", train, data.test, data.class_names, data.mean, data.std)
    settings = {} if setup == "clear" else {"tasks": 3}
    make(setup, "shapes", data, seed=5, settings=settings, embed=embed).write(tmp_path / "s.json")
    found = read(tmp_path / "s.json", data)
    wanted = plan(setup, "shapes", data, seed=5, settings=settings)
    assert torch.equal(found.order, wanted.order) and found.order.dtype == torch.int64
    assert (found.boundaries, found.artificial) == (wanted.boundaries, wanted.artificial)


def test_a_recipe_is_small_and_says_how_to_make_the_stream_by_hand(path, data):
    record = json.loads(path.read_text())
    assert path.stat().st_size < 1000
    order = STREAMS[record["setup"]](data.train, seed=record["seed"], **record["options"]).order
    ends = torch.tensor([-1, *record["boundaries"]])
    numbers = torch.cat([order, ends]).numpy().astype("<i8").tobytes()
    assert record["sha256"] == hashlib.sha256(numbers).hexdigest()
    assert record["options"] == OPTIONS and record["samples"] == len(order)


def test_the_same_stream_is_the_same_bytes(tmp_path, data):
    for name in ("one", "two"):
        make("iid", "shapes", data, seed=1, settings={}).write(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize(
    "fields",
    [
        {"seed": 4},
        {"options": {"sigma": 0.3, "tasks": 5}},
        {"setup": "iid", "options": {}},
        {"sha256": "0" * 64},
        {"boundaries": [1, 2, 3, 4]},
        {"boundaries": []},
        {"artificial": False},
        {"length": 159},
    ],
    ids=str,
)
def test_a_file_that_was_changed_by_hand_is_refused(path, data, fields):
    change(path, **fields)
    with pytest.raises(StreamFileError, match=r"s\.json: it does not lead to the order"):
        read(path, data)


def test_an_embedded_order_that_was_changed_is_refused(tmp_path, data):
    path = tmp_path / "s.json"
    make("iid", "shapes", data, seed=1, settings={}, embed=True).write(path)
    order = json.loads(path.read_text())["order"]
    for wrong in ([order[1], order[0], *order[2:]], order[:-1], [*order[:-1], order[0]]):
        change(path, order=wrong)
        with pytest.raises(StreamFileError, match="does not lead to the order"):
            read(path, data)
    change(path, order=[*order[:-1], len(order)])
    with pytest.raises(StreamFileError, match="'order' must be whole numbers below its 'samples'"):
        read(path, data)


def test_an_embedded_order_does_not_depend_on_the_draws_of_this_version(
    tmp_path, data, monkeypatch
):
    path = tmp_path / "s.json"
    recipe = make("iid", "shapes", data, seed=1, settings={}, embed=True)
    recipe.write(path)
    monkeypatch.setattr(
        "earl.experiments.streamfile.plan", lambda *_, **__: pytest.fail("drawn again")
    )
    assert read(path, data).order.tolist() == list(recipe.order)


@pytest.mark.parametrize(
    ("version", "hint"), [(0, "make it anew"), (2, "update earl"), ("x", "anew")]
)
def test_another_format_is_refused_with_what_to_do(path, data, version, hint):
    assert FORMAT == 1
    change(path, format=version)
    with pytest.raises(StreamFileError, match=f"has format .*this earl reads format 1; .*{hint}"):
        read(path, data)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"seed": ...}, "'seed' is missing"),
        ({"seed": "3"}, "'seed' is missing or not of the right kind"),
        ({"samples": True}, "'samples'"),
        ({"boundaries": [1.5]}, "'boundaries' must be whole numbers"),
        ({"boundaries": [0]}, "'boundaries' must be"),
        ({"options": None}, "'options'"),
        ({"setup": "gausian"}, "did you mean 'gaussian'"),
        ({"options": {"sigma": -1}}, "sigma = -1.0"),
        ({"options": {"sgima": 1}}, "no setting named 'sgima'"),
    ],
    ids=str,
)
def test_a_damaged_recipe_is_refused(path, data, fields, said):
    change(path, **fields)
    with pytest.raises(StreamFileError, match=said):
        read(path, data)


def test_another_data_set_is_refused_by_name_by_size_and_by_labels(path, data):
    with pytest.raises(
        StreamFileError, match="160 training images of shapes, not for 160 of digits"
    ):
        read(path, data, "digits")
    with pytest.raises(StreamFileError, match="not for 120 of shapes"):
        read(path, shapes.load(train=30))
    turned = Split(data.train.images, data.train.labels.flip(0))
    other = Dataset("shapes", turned, data.test, data.class_names, data.mean, data.std)
    with pytest.raises(StreamFileError, match="other labels"):
        read(path, other)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\xff\xfe", '{"kind": "earl stream"'])
def test_a_file_that_is_not_json_is_refused(tmp_path, text):
    (tmp_path / "s.json").write_text(text, encoding="latin-1")
    with pytest.raises(StreamFileError, match="is not JSON"):
        StreamFile.open(tmp_path / "s.json")


def test_a_file_that_is_not_there_is_an_error_of_ours(tmp_path):
    for path in (tmp_path / "s.json", tmp_path):
        with pytest.raises(DataNotFound, match="no stream file can be read"):
            StreamFile.open(path)


# ---- runs on a file


def run_of(path, tmp_path, **given):
    e = Experiment(method="er", dataset="shapes", stream=f"file:{path}", settings=CHEAP, **given)
    return RunDirectory(tmp_path / "runs" / e.path(), e)


def test_the_name_of_a_run_on_a_file_is_short_and_safe(tmp_path, path):
    odd = tmp_path / ("a b,c=1 ä" + "x" * 90 + ".json")
    odd.write_bytes(path.read_bytes())
    assert run_of(path, tmp_path).experiment.path().parts[1] == "file-s"
    part = run_of(odd, tmp_path).experiment.path().parts[1]
    assert part.startswith("file-a-b-c-1-x") and len(part) < 70


def test_a_run_on_a_file_equals_the_run_on_its_setup(tmp_path, path):
    on_file = finish(run_of(path, tmp_path, seed=3))
    e = Experiment(
        method="er", dataset="shapes", stream="gaussian", seed=3, settings=CHEAP | OPTIONS
    )
    on_setup = finish(RunDirectory(tmp_path / "other", e))
    name = "history.jsonl"
    assert (on_file.path / name).read_bytes() == (on_setup.path / name).read_bytes()


def test_a_stopped_run_goes_on_and_records_the_hash_of_its_file(tmp_path, path):
    run = stop(run_of(path, tmp_path), 50)
    record = json.loads((run.path / "experiment.json").read_text())["experiment"]
    assert record["stream_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert record["stream"] == f"file:{path}"
    again = finish(RunDirectory(run.path))
    whole = finish(run_of(path, tmp_path / "whole"))
    name = "history.jsonl"
    assert (again.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_a_run_refuses_to_go_on_with_a_changed_file(tmp_path, path, data):
    run = stop(run_of(path, tmp_path), 50)
    make("gaussian", "shapes", data, seed=4, settings={}).write(path)
    with pytest.raises(RunConflict, match=r"s\.json has changed since this run began"):
        finish(RunDirectory(run.path))
    with pytest.raises(RunConflict, match="stream_sha256"):
        run_of(path, tmp_path)


def test_a_run_goes_on_when_its_file_has_moved(tmp_path, path):
    run = stop(run_of(path, tmp_path), 50)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    path.rename(moved / "s.json")
    with pytest.raises(DataNotFound, match="no stream file can be read at"):
        finish(RunDirectory(run.path))
    assert finish(run_of(moved / "s.json", tmp_path)).summary is not None


def test_a_finished_run_can_be_read_without_its_stream_file(tmp_path, path):
    run = finish(run_of(path, tmp_path))
    path.unlink()
    assert RunDirectory(run.path).summary["samples"] == 160


def test_a_run_on_a_file_has_no_options_of_a_stream(path):
    with pytest.raises(EarlError, match="no setting named 'sigma'"):
        Experiment(method="er", dataset="shapes", stream=f"file:{path}", settings={"sigma": 0.3})
    with pytest.raises(InvalidSetting):
        Experiment(method="er", dataset="shapes", stream=f"file:{path}", seed=-1)


def test_an_experiment_on_a_setup_is_written_down_without_a_hash():
    e = Experiment(method="er", dataset="shapes", stream="iid")
    assert "stream_sha256" not in e.as_dict() and Experiment.from_dict(e.as_dict()) == e
