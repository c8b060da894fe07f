"""A model as one ONNX graph answers as the model does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from earl import EARLClassifier
from earl.errors import InvalidInput, InvalidSetting
from estimators import TRAIN, blobs, of_images, of_vectors, taught

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def graph(clf: EARLClassifier, path: Path) -> tuple[Any, list[Any]]:
    """Return a session of the exported model, and the labels in its metadata."""
    clf.export_onnx(path)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session, json.loads(session.get_modelmeta().custom_metadata_map["labels"])


@pytest.mark.parametrize("method", ["earl", pytest.param("er", marks=pytest.mark.slow)])
def test_500_images_get_the_same_classes_and_scores(method: str, tmp_path: Path) -> None:
    clf = taught(60, method=method)
    clf.forget(label=clf.classes_[1])  # has no column any more
    session, labels = graph(clf, tmp_path / "m.onnx")
    noise = np.random.default_rng(0).integers(256, size=(460, 8, 8, 3), dtype=np.uint8)
    images = np.concatenate((noise, TRAIN[:40]))
    scores, shares, index = session.run(None, {"x": images.transpose(0, 3, 1, 2)})
    assert [labels[i] for i in index] == clf.predict(images).tolist()
    columns = [clf.classes_.tolist().index(label) for label in labels]
    assert np.abs(shares - clf.predict_proba(images)[:, columns]).max() < 1e-4
    model = clf._model
    assert model is not None
    ours = model.scores(model.reader.read(list(images))).numpy()
    assert np.abs(scores - ours[:, np.isfinite(ours[0])]).max() < 1e-4
    one, _, _ = session.run(None, {"x": images[:1].transpose(0, 3, 1, 2)})  # any batch size
    assert np.abs(one - scores[:1]).max() < 1e-5


def test_a_graph_of_vectors_takes_them_as_they_are(tmp_path: Path) -> None:
    X, y = blobs(60)
    clf = of_vectors().fit(X, [("class", c) for c in y])
    session, labels = graph(clf, tmp_path / "m.onnx")
    _, _, index = session.run(None, {"x": X.astype(np.float32)})
    found = [("class", labels[i]["tuple"][1]) for i in index]
    assert found == clf.predict(X).tolist()


def test_what_no_graph_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has learned nothing"):
        of_images().export_onnx(tmp_path / "m.onnx")
    with pytest.raises(InvalidSetting, match="more than one graph can hold"):
        taught(20, method="scr").export_onnx(tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []
