"""`earl learn`, `predict`, `show` and `export onnx`: a model of one's own from the command line."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from children import ENV, Children
from earl import EARLClassifier
from estimators import LABELS, TEST, TRAIN

SMALL = ["--image-size", "8", "--memory-size", "20", "--threads", "1", "--device", "cpu"]
for setting in ("depth=4", "width=16", "d=15", "hidden=16", "padding=1", "batch_size=8"):
    SMALL += ["--set", setting]
SMALL += ["--set", "lr=0.003"]

Earl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder per class with ten images each, of different sizes."""
    folder = tmp_path / "photos"
    for place in range(40):
        name = folder / LABELS[place] / f"{place}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(TRAIN[place]).resize((20 + place, 16)).save(name)
    Image.fromarray(TEST[0]).save(tmp_path / "one.png")
    return folder


def test_a_model_is_begun_continued_asked_and_shown(earl: Earl, photos: Path) -> None:
    done = earl("learn", "model", "photos", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "40 samples of 4 classes" in done.stdout and "40 of 40 images" in done.stderr
    more = earl("learn", "model", "one.png", "--label", "new one", "--json")
    assert json.loads(more.stdout)["samples"] == 41, more.stderr
    clf = EARLClassifier.load(photos.parent / "model")
    answers = json.loads(earl("predict", "model", "one.png", "--top", "3", "--json").stdout)
    expected = clf.predict_proba_one(TEST[0])
    found = {a["label"]: a["probability"] for a in answers[0]["answers"]}
    assert len(found) == 3 and all(found[c] == pytest.approx(expected[c]) for c in found)
    assert max(expected, key=lambda c: expected[c]) == next(iter(found))
    said = earl("predict", "model", "one.png", "--unknown-below", "1").stdout
    assert said == "one.png: unknown\n"
    shown = json.loads(earl("show", "model", "--json").stdout)
    assert [c["shown"] for c in shown["classes"]] == clf.classes_.tolist()
    assert shown["capacity"] is None and shown["remembered"] == 20
    text = earl("show", "model").stdout
    assert "new one" in text and "5 of any number" in text and "20 of 20 samples" in text


def test_a_table_is_learned_in_its_order_without_its_tests(earl: Earl, photos: Path) -> None:
    files = sorted(photos.rglob("*.png"), key=lambda file: int(file.stem))
    rows = [f"photos/{f.parent.name}/{f.name},{f.parent.name},train" for f in files[:9]]
    rows.append(f"photos/{files[9].parent.name}/{files[9].name},{files[9].parent.name},test")
    (photos.parent / "list.csv").write_text("path,label,split\n" + "\n".join(rows))
    done = earl("learn", "model", "list.csv", *SMALL)
    assert "9 samples" in done.stdout, done.stderr
    classes = EARLClassifier.load(photos.parent / "model").classes_.tolist()
    assert classes == list(dict.fromkeys(f.parent.name for f in files[:9]))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["learn", "model", "nowhere", *SMALL], 1, "there is no file or folder nowhere"),
        (["learn", "model", "one.png", *SMALL], 1, "say what it shows with --label"),
        (["learn", "model", ".", *SMALL, "--set", "kk=3"], 1, "no setting named 'kk'"),
        (["learn", "model", "empty", *SMALL], 1, "holds no folders"),
        (["learn", "model", "split", *SMALL], 1, "name one of them: split/train"),
        (["predict", "nothing", "one.png"], 65, "there is no model"),
        (["show", "photos"], 65, "holds no saved model"),
        (["export", "onnx", "a", "b"], 1, "onnx takes one model, not 2"),
    ],
)
def test_wrong_lines_are_one_line(
    earl: Earl, photos: Path, words: list[str], code: int, said: str
) -> None:
    (photos.parent / "empty").mkdir()
    (photos.parent / "split").mkdir()
    photos.rename(photos.parent / "split" / "train")
    (photos.parent / "photos").mkdir()
    done = earl(*words)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_what_was_decided_at_the_beginning_stays(earl: Earl, photos: Path) -> None:
    earl("learn", "model", "photos", *SMALL)
    done = earl("learn", "model", "photos", "--memory-size", "7")
    assert done.returncode == 1 and "was begun with memory_size = 20" in done.stderr
    assert earl("learn", "model", "one.png", "--label", "a", "--set", "d=15").returncode == 0
    assert "settings" in earl("learn", "model", "photos", "--set", "d=14").stderr


def test_a_broken_image_ends_learning_saved_or_is_left_out(earl: Earl, photos: Path) -> None:
    (photos / LABELS[0] / "broken.png").write_bytes(b"no image")
    done = earl("learn", "model", "photos", *SMALL)
    assert done.returncode == 1 and "broken.png: it is no image" in done.stderr
    assert (photos.parent / "model").is_dir()
    done = earl("learn", "other", "photos", *SMALL, "--skip-broken")
    assert done.returncode == 0 and "40 samples" in done.stdout and "left out" in done.stderr


def test_a_signal_saves_and_the_rest_gives_the_same_model(
    earl: Earl, children: Children, photos: Path
) -> None:
    earl("learn", "whole", "photos", *SMALL)
    out, err = photos.parent / "out", photos.parent / "err"
    words = ["-m", "earl", "learn", "model", "photos", *SMALL]
    os.mkfifo(err)
    with os.fdopen(os.open(err, os.O_RDONLY | os.O_NONBLOCK)) as lines:
        child = children.start(*words, cwd=photos.parent, env=ENV, out=out, err=err)
        os.set_blocking(lines.fileno(), True)
        assert "of 40 images" in lines.readline()  # it has begun
        os.kill(child, signal.SIGINT)
        said = lines.read()
    skip = said.split()[-1]
    assert children.wait() == 130 and "Stopped and saved" in said and skip.isdecimal(), said
    assert earl("learn", "model", "photos", "--skip", skip).returncode == 0
    folders = (photos.parent / "whole", photos.parent / "model")
    assert len({EARLClassifier.load(folder).digest() for folder in folders}) == 1


def test_an_onnx_file_is_written(earl: Earl, photos: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    earl("learn", "model", "photos", *SMALL)
    done = earl("export", "onnx", "model", "-o", "m.onnx", "--json")
    assert done.returncode == 0, done.stderr
    session = ort.InferenceSession(str(photos.parent / "m.onnx"))
    labels = json.loads(session.get_modelmeta().custom_metadata_map["labels"])
    x = np.ascontiguousarray(TEST.transpose(0, 3, 1, 2))
    _, _, index = session.run(None, {"x": x})
    clf = EARLClassifier.load(photos.parent / "model")
    assert [labels[i] for i in index] == clf.predict(TEST).tolist()
