"""`earl stream make`, `earl stream show` and `earl run --stream file:...`, in process."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from earl.data.dataset import Split
from earl.data.setups import clear, gaussian
from earl.data.streams import Schedule
from earl.report.figures.stream import by_arrival, draw_stream, share_of_classes

SHAPES = ("--dataset", "shapes")


@pytest.fixture
def earl(tmp_path, monkeypatch, typed):
    """Carry out a command line in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return typed


def test_make_then_show_then_run(earl, tmp_path):
    code, out, _ = earl("stream", "make", "gaussian", *SHAPES, "--sigma", 0.2, "-o", "s.json")
    assert code == 0 and "s.json" in out and "--stream file:s.json" in out
    assert json.loads((tmp_path / "s.json").read_text())["options"]["sigma"] == 0.2
    code, out, _ = earl("stream", "show", "s.json", "-o", "s.png", "--json")
    shown = json.loads(out)
    assert code == 0 and shown["samples"] == 160 and shown["dataset"] == "shapes"
    assert pixels(tmp_path / "s.png").shape == (840, 1200)
    fast = ("--set", "iterations=0.05", "--set", "every=160", "--threads", 1, "--json")
    code, out, _ = earl("run", "--method", "er", *SHAPES, "--stream", "file:s.json", *fast)
    assert code == 0 and json.loads(out)["samples"] == 160
    assert (tmp_path / "runs/shapes/file-s").is_dir()


def test_show_straight_from_a_setup_says_what_the_stream_is_like(earl):
    code, out, _ = earl("stream", "show", "disjoint", *SHAPES, "--tasks", 4)
    assert code == 0 and "boundaries    40, 80, 120" in out
    assert "1 at 10 %, 1 at 25 %, 2 at 50 %, 3 at 75 %" in out
    code, out, _ = earl(
        "stream", "show", "longtail", *SHAPES, "--set", "imbalance=40", "--tasks", 2
    )
    assert "left out" in out and "(artificial)" in out


def test_make_has_a_default_name_and_can_embed_the_order(earl, tmp_path):
    code, out, _ = earl("stream", "make", "iid", *SHAPES, "--seed", 7, "--embed", "--json")
    assert code == 0 and json.loads(out)["file"] == "shapes-iid-seed-7.json"
    order = json.loads((tmp_path / "shapes-iid-seed-7.json").read_text())["order"]
    assert sorted(order) == list(range(160))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("make", "gausian", *SHAPES), "did you mean 'gaussian'"),
        (("make", "gaussian", "--dataset", "shaps"), "did you mean 'shapes'"),
        (("make", "gaussian", *SHAPES, "--set", "sigma"), "must have the form NAME=VALUE"),
        (("make", "gaussian", *SHAPES, "--set", "sgima=1"), "did you mean 'sigma'"),
        (("make", "gaussian", *SHAPES, "--sigma", "-1"), "sigma = -1.0"),
        (("make", "disjoint", *SHAPES, "--sigma", "1"), "no setting named 'sigma'"),
        (("make", "clear", *SHAPES), "clear-10 and clear-100"),
        (("make", "iid", *SHAPES, "-o", "no/where.json"), "no directory no"),
        (("make", "iid", *SHAPES, "-o", "."), "is a directory"),
        (("show", "iid"), "--dataset NAME"),
        (("show", "iidd", *SHAPES), "did you mean 'iid'"),
        (("show", "s.json"), "no stream file can be read at s.json"),
        (("show", "file:s.json"), "no stream file can be read at s.json"),
        (("show", "iid", *SHAPES, "-o", "s.txt"), "must end in .png, .pdf or .svg"),
        (("show", "published.json"), "--dataset NAME"),
        (("show", "published.json", *SHAPES), "shapes has no class 'cat'"),
        (
            ("show", "published.json", *SHAPES, "--tasks", 3),
            "options are fixed: tasks cannot be set",
        ),
    ],
    ids=lambda words: " ".join(map(str, words)) if isinstance(words, tuple) else None,
)
def test_wrong_input_is_one_line_and_exit_1(earl, tmp_path, words, said):
    rows = [{"file_name": "train/cat/0001.png", "klass": "cat", "label": 0}]
    (tmp_path / "published.json").write_text(json.dumps(rows))
    code, out, err = earl("stream", *words)
    assert code == 1 and said in err and err.count("\n") == 1 and err.startswith("earl: ")
    assert not out and not list(tmp_path.glob("*.p*g"))


@pytest.mark.parametrize(
    "words", [("make",), ("make", "iid"), ("make", "iid", *SHAPES, "--seed", -1)]
)
def test_a_wrong_command_line_is_exit_2(earl, words):
    assert earl("stream", *words)[0] == 2


def test_a_run_on_a_missing_or_foreign_file_is_refused(earl, tmp_path):
    run = ("run", "--method", "er", *SHAPES, "--threads", 1)
    code, _, err = earl(*run, "--stream", "file:nothing.json")
    assert code == 1 and "no stream file can be read at" in err and not (tmp_path / "runs").exists()
    (tmp_path / "s.json").write_text('{"some": "json"}')
    code, _, err = earl(*run, "--stream", "file:s.json")
    assert code == 1 and "neither a stream that earl has made" in err


# ---- the picture


def test_rows_are_classes_in_order_of_their_median_arrival():
    labels = torch.tensor([7, 7, 3, 7, 5, 3, 3, 5, 5])
    classes, rows = by_arrival(labels)
    assert classes.tolist() == [7, 3, 5] and rows.tolist() == [0, 0, 1, 0, 2, 1, 1, 2, 2]


def test_shares_of_a_stretch_add_up_to_one():
    rows = torch.arange(1000) % 7
    share = share_of_classes(rows, 7)
    assert share.shape == (7, 50) and torch.allclose(share.sum(dim=0), torch.ones(50))
    assert share_of_classes(torch.zeros(1, dtype=torch.int64), 1).shape == (1, 1)


@pytest.mark.parametrize("classes", [1, 10, 1000])
@pytest.mark.parametrize("setup", [gaussian, clear])
def test_a_picture_can_be_drawn_of_any_number_of_classes(tmp_path, classes, setup):
    labels = torch.arange(classes).repeat_interleave(4)
    images = torch.zeros(1, 1, 1, 1, dtype=torch.uint8).expand(len(labels), 1, 1, 1)
    train = Split(images, labels, torch.arange(len(labels)) % 2)
    schedule = setup(train, seed=1, **({} if setup is clear else {"tasks": min(4, len(labels))}))
    names = [f"class {c}" for c in range(classes)]
    draw_stream(labels[schedule.order], schedule, names, "t", tmp_path / "p.png")
    assert pixels(tmp_path / "p.png").shape == (840, 1200)


def test_boundaries_are_dashed_if_they_are_artificial(tmp_path):
    labels = torch.arange(4).repeat_interleave(50)
    longest = []
    for artificial in (False, True):
        schedule = Schedule(torch.arange(200), (90,), artificial=artificial)
        draw_stream(labels, schedule, ["a", "b", "c", "d"], "t", tmp_path / "p.png")
        picture = pixels(tmp_path / "p.png")
        longest.append((picture[:, 300:700] < 150).sum(axis=0).max())  # a dark column
    solid, dashed = longest
    assert solid > 1.3 * dashed > 0


def pixels(path):
    with Image.open(path) as picture:
        return np.asarray(picture.convert("L"))
