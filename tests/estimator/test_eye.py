"""A pretrained eye: images are read as features of a frozen backbone, and everything else holds."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_estimator import Pooled
from torch import nn

from earl import EARLClassifier
from earl.errors import BackboneError, EarlError, InvalidInput, InvalidSetting
from earl.estimator import eye
from earl.methods.earl import EARL
from earl.nn import ResNet, View, build
from earl.nn.backbones import Backbone
from earl.randomness import Randomness
from estimators import LABELS, TEST, TRAIN, goes_on

NAME = "efficientnet-lite0"
SIZE = 16  # features
SMALL: dict[str, dict[str, Any]] = {"earl": {"d": 20}, "ranpac": {"projected": 64}}
METHODS = ("earl", "er", "ncm", "slda", "ranpac", "knn")


class Counted(nn.Module):
    """A small network in the place of a large one; it counts the images that it is shown."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.net = build(lambda: ResNet(depth=8, width=4), Randomness(seed).at(0, "backbone"))
        self.shown = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling():  # a graph of it would take batches of one size
            self.shown += len(x)
        out: torch.Tensor = self.net(x)
        return out

    def halves(self) -> tuple[nn.Module, nn.Module]:
        return self.net.stem, nn.Sequential(self.net.blocks, Mean())


class Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=(2, 3))


@pytest.fixture(autouse=True)
def small_eye(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the name of the pretrained network stand for a small one of 8 pixels."""
    use_eye(monkeypatch, seed=3)


def use_eye(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    def opened(name: str) -> Backbone:
        view = View((0.5,) * 3, (0.25,) * 3)
        return Backbone(name, Counted(seed).eval(), view, SIZE, "nothing", 8)

    gc.collect()
    eye._opened.clear()
    monkeypatch.setattr(eye, "open_backbone", opened)


def seeing(method: str = "earl", **given: Any) -> EARLClassifier:
    usual = {"backbone": NAME, "memory_size": 20, "device": "cpu", "threads": 1}
    settings = {**SMALL.get(method, {}), **given.pop("settings", {})}
    return EARLClassifier(method=method, **(usual | given), settings=settings)


def taught(n: int = 40, method: str = "earl", **given: Any) -> EARLClassifier:
    clf = seeing(method, **given)
    clf.learn_many(TRAIN[:n], LABELS[:n], keys=range(n))
    return clf


def network(clf: EARLClassifier) -> Counted:
    reader = clf._model.reader  # type: ignore[union-attr]
    assert isinstance(reader, eye.EyeReader) and isinstance(reader.encode.network, Counted)
    return reader.encode.network


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_model_goes_on_and_holds_no_weights_of_the_eye(method: str, tmp_path: Path) -> None:
    clf = taught(30, method)
    again = goes_on(clf, tmp_path / "model", 30, 6)
    assert again.predict(TEST).tolist() == clf.predict(TEST).tolist()
    state = clf._model.state_dict()["reader"]  # type: ignore[union-attr]
    assert list(state["backbone"]) == ["sha256"]


def test_memory_holds_features_and_the_eye_is_counted() -> None:
    clf = taught()
    held = clf.describe()["bytes"]
    assert held["images"] == 20 * SIZE * 4
    weights = network(clf)
    assert held["backbone"] == sum(t.nbytes for t in (*weights.parameters(), *weights.buffers()))
    assert clf.describe()["image_size"] == 8 and clf.describe()["frozen"] is True


def test_an_image_passes_the_eye_once() -> None:
    clf = seeing()
    clf.learn_one(TRAIN[0], "a")
    before = network(clf).shown
    for image in TRAIN[1:6]:
        clf.predict_one(image), clf.unknown_score([image])
        clf.learn_one(image, "b", key=0)
        clf.predict_one(image)
    clf.relabel(0, "c")
    different = {image.tobytes() for image in TRAIN[:6]}
    assert network(clf).shown - before == len(different) - 1


def test_models_of_a_process_share_one_eye_until_none_has_it(tmp_path: Path) -> None:
    one, other = taught(5), seeing("ncm")
    other.learn_one(TRAIN[0], "a")
    assert network(one) is network(other)
    one.save(tmp_path / "model")
    assert network(EARLClassifier.load(tmp_path / "model")) is network(one)
    del one, other
    gc.collect()
    assert not eye._opened


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clf = taught(5)
    clf.save(tmp_path / "model")
    use_eye(monkeypatch, seed=4)
    with pytest.raises(InvalidSetting, match="learned behind other weights than those of"):
        EARLClassifier.load(tmp_path / "model")


def test_a_model_whose_eye_is_missing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Backbone:
        raise BackboneError(f"backbone {name} needs a package")

    taught(5).save(tmp_path / "model")
    gc.collect()
    monkeypatch.setattr(eye, "open_backbone", missing)
    with pytest.raises(BackboneError, match="needs a package"):
        EARLClassifier.load(tmp_path / "model")


def test_a_forgotten_sample_is_as_if_its_class_mean_had_never_had_it() -> None:
    clf, never = taught(12), seeing()
    never.learn_many(TRAIN[:11], LABELS[:11])
    assert clf.forget(key=11) == 1
    means = [each._model.learner.means for each in (clf, never)]  # type: ignore[union-attr]
    torch.testing.assert_close(means[0].means, means[1].means)
    torch.testing.assert_close(means[0].centre.point, means[1].centre.point)


def test_a_forgotten_label_corrects_no_answer_until_it_is_learned_again() -> None:
    clf = taught()
    label = LABELS[0]
    assert clf.forget(label=label) > 0
    learner = clf._model.learner  # type: ignore[union-attr]
    assert isinstance(learner, EARL)
    number = list(clf.classes_).index(label)
    assert number not in learner.pairs()[1].tolist()
    assert label not in set(clf.predict(TEST))
    assert label not in {n.label for n in clf.neighbours(TEST[0])}
    clf.learn_one(TRAIN[0], label)
    assert number in learner.pairs()[1].tolist() and clf.predict_one(TRAIN[0]) == label


def test_when_every_label_is_forgotten_learning_begins_again() -> None:
    clf = taught(8)
    for label in set(LABELS[:8]):
        clf.forget(label=label)
    assert clf.predict_one(TEST[0]) is None
    clf.learn_one(TRAIN[0], "a")
    assert clf.predict_one(TEST[0]) == "a"


def test_relabelling_and_neighbours_name_the_samples() -> None:
    clf = taught(12)
    clf.relabel(11, "other")
    found = {n.label: n for n in clf.neighbours(TRAIN[11])}
    assert found["other"].key == 11
    sample = found["other"].sample
    assert sample is not None and sample.shape == (SIZE,)
    with pytest.raises(InvalidInput, match="stores no samples"):
        taught(5, "ncm").forget(key=3)


def test_what_was_taught_is_less_unknown_than_noise() -> None:
    clf = taught()
    noise = np.random.default_rng(0).integers(256, size=(40, 8, 8, 3), dtype=np.uint8)
    assert clf.unknown_score(TRAIN[:40]).mean() < clf.unknown_score(noise).mean()


def test_a_module_of_the_users_is_saved_with_its_weights(tmp_path: Path) -> None:
    clf = taught(20, backbone=Pooled(), frozen=True, image_size=8)
    assert clf.describe()["bytes"]["images"] == 20 * 8 * 4
    clf.save(tmp_path / "model")
    again = EARLClassifier.load(tmp_path / "model", backbone=Pooled())
    assert again.predict(TEST).tolist() == clf.predict(TEST).tolist()
    assert again.digest() == clf.digest()
    with pytest.raises(InvalidSetting, match="give it again"):
        EARLClassifier.load(tmp_path / "model")


@pytest.mark.parametrize("frozen", [True, False])
def test_images_are_kept_where_they_are_augmented_or_the_eye_learns(frozen: bool) -> None:
    asked = {"flip": True, "rand_augment": False, "padding": 1} if frozen else {}
    settings = {**asked, "hidden": 16}
    clf = taught(10, frozen=frozen, settings=settings)
    assert clf.describe()["bytes"]["images"] == 20 * 3 * 8 * 8
    learner = clf._model.learner  # type: ignore[union-attr]
    assert isinstance(learner, EARL)
    weight, before = learner.f[0].net.stem[0].weight, Counted(3).net.stem[0].weight
    assert torch.equal(weight, before) == frozen


def test_the_last_stage_learns_behind_a_frozen_front(tmp_path: Path) -> None:
    clf = taught(20, frozen="front", settings={"hidden": 16})
    assert clf.describe()["bytes"]["images"] == 20 * (4 * 8 * 8) * 4  # maps of the stem
    learner, before = clf._model.learner, Counted(3)  # type: ignore[union-attr]
    assert isinstance(learner, EARL)
    last, first = learner.f[0], before.halves()[1]
    pairs = zip(last.parameters(), first.parameters(), strict=True)
    assert not any(torch.equal(now, then) for now, then in pairs)
    assert learner.means is None
    goes_on(clf, tmp_path / "model", 20, 5)
    shared = eye.shared_backbone(NAME, "cpu").network
    weights = zip(shared.parameters(), before.parameters(), strict=True)
    assert all(torch.equal(now, then) for now, then in weights)


LAST_STAGE = {"frozen": "front", "settings": {"hidden": 16}}


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, LAST_STAGE])
def test_a_graph_sees_through_the_same_eye(given: dict[str, Any], tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    clf = taught(20, **given)
    clf.export_onnx(tmp_path / "m.onnx")
    session = ort.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    _, shares, _ = session.run(None, {"x": TEST.transpose(0, 3, 1, 2)})
    assert np.abs(shares - clf.predict_proba(TEST)).max() < 1e-4


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown name": ({"backbone": "efficientnet"}, "did you mean"),
    "random weights": ({"backbone": "resnet18", "frozen": True}, "random weights"),
    "hf to be trained": ({"backbone": "hf:x", "frozen": False}, "not trained along"),
    "a method of pixels": ({"method": "scr"}, "not from features of a frozen backbone"),
    "no features": ({"backbone": nn.Identity(), "frozen": True}, "global pooling"),
    "nothing to divide": ({"backbone": Pooled(), "frozen": "front"}, "last stage of a Pooled"),
    "half of random weights": ({"backbone": "resnet18", "frozen": "front"}, "random weights"),
    "a network's option": ({"settings": {"depth": 8}}, "no setting named 'depth'"),
}


@pytest.mark.parametrize(("given", "told"), WRONG.values(), ids=WRONG)
def test_an_eye_that_cannot_be_is_one_clear_line(given: dict[str, Any], told: str) -> None:
    with pytest.raises(EarlError, match=told) as error:
        seeing(**({"method": "earl"} | given)).learn_one(TRAIN[0], "a")
    assert "\n" not in str(error.value)


def test_how_unknown_a_sample_is_can_be_asked_after_a_class_was_forgotten() -> None:
    clf = EARLClassifier(backbone=None)
    centres = np.eye(3, 8, dtype=np.float32)
    for step in range(9):
        clf.learn_one(centres[step % 3] + 0.01 * step, "abc"[step % 3])
    before = clf.unknown_score(centres)
    clf.forget(label="b")
    assert clf.unknown_score(centres)[1] > before[1] + 0.5
