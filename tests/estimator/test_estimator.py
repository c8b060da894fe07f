"""EARLClassifier: any label at any time, asked at any moment."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from children import Children
from earl import EARLClassifier
from earl.errors import ClassCapacityError, EarlError, InvalidInput, InvalidSetting, NotFitted
from earl.estimator.parameters import IMAGES_ONLY
from estimators import (
    FREE,
    LABELS,
    NETWORK,
    TEST,
    TEST_LABELS,
    TOLD,
    TRAIN,
    TRAINING,
    blobs,
    goes_on,
    of_images,
    of_vectors,
    taught,
)
from kin import every_method

OF_VECTORS = every_method(but=(*TOLD, *IMAGES_ONLY))


class Pooled(nn.Module):
    """A backbone of a user's: a convolution with batch norm, and the mean over the image."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x))).mean(dim=(2, 3))


def test_it_learns_images_with_labels_that_appear_on_the_way() -> None:
    clf = taught(160)
    assert clf.score(TEST, TEST_LABELS) > 0.8
    assert clf.classes_.tolist() == list(dict.fromkeys(LABELS[:160]))


def test_it_learns_vectors() -> None:
    X, y = blobs(300)
    clf = of_vectors().fit(X[:200], y[:200])
    assert clf.score(X[200:], y[200:]) > 0.9
    assert clf.n_features_in_ == 5


@pytest.mark.parametrize("method", FREE)
def test_every_method_that_knows_no_tasks_learns_and_goes_on_after_saving(
    method: str, tmp_path: Path
) -> None:
    clf = of_images(method)
    clf.learn_many(TRAIN[:23], LABELS[:23])  # the memory is full, base phases have ended
    goes_on(clf, tmp_path / "model", 23, 7)
    assert set(clf.predict(TEST)) <= set(LABELS)


@pytest.mark.parametrize("method", OF_VECTORS)
def test_methods_that_need_no_images_learn_vectors(method: str) -> None:
    X, y = blobs(40)
    clf = of_vectors(method).partial_fit(X, y)
    assert np.isfinite(clf.predict_proba(X)).all()


@pytest.mark.parametrize("method", TOLD)
def test_methods_that_must_be_told_where_tasks_end_are_refused(method: str) -> None:
    with pytest.raises(InvalidSetting, match="told where tasks end"):
        EARLClassifier(method=method).learn_one(TRAIN[0], "a")


def test_before_the_first_sample_every_convention_has_its_answer() -> None:
    clf = of_images()
    assert clf.predict_one(TRAIN[0]) is None and clf.predict_proba_one(TRAIN[0]) == {}
    assert clf.history.samples == 0 and clf.history.curve == ()
    for ask in (clf.predict, clf.predict_proba, clf.unknown_score):
        with pytest.raises(NotFitted):
            ask(TRAIN[:1])
    assert not hasattr(clf, "classes_")


@pytest.mark.parametrize("method", FREE)
def test_tiny_states_answer_with_finite_numbers(method: str) -> None:
    """One sample, one class, a memory of one, k larger than what is stored."""
    clf = of_images(method, memory_size=1)
    for place, label in enumerate(["a", "b", "b", "a", "c"]):
        clf.learn_one(TRAIN[place], label)
        assert np.isfinite(clf.predict_proba(TEST[:4])).all()
        assert ((scores := clf.unknown_score(TEST[:4])) >= 0).all() and (scores <= 1).all()
        assert clf.predict_one(TRAIN[place]) in ("a", "b", "c")
    one = of_images(method)
    one.learn_one(TRAIN[0], "only")
    assert one.predict_one(TEST[0]) == "only"
    assert one.predict_proba_one(TEST[0]) == {"only": 1.0}


def test_asking_changes_nothing() -> None:
    asked, silent = of_images(), of_images()
    before = torch.get_rng_state()
    for place in range(40):
        if place:
            asked.predict(TEST[:3]), asked.predict_one(TRAIN[place]), asked.history
            asked.predict_proba(TEST[:2]), asked.unknown_score(TEST[:2]), asked.neighbours(TEST[0])
        asked.learn_one(TRAIN[place], LABELS[place])
        silent.learn_one(TRAIN[place], LABELS[place])
    assert asked.digest() == silent.digest()
    assert torch.equal(torch.get_rng_state(), before)


def test_one_by_one_many_and_partial_fit_are_the_same() -> None:
    one, many, partial = of_images(), of_images(), of_images()
    for x, y in zip(TRAIN[:30], LABELS[:30], strict=True):
        one.learn_one(x, y)
    many.learn_many(TRAIN[:30], LABELS[:30])
    partial.partial_fit(TRAIN[:11], LABELS[:11]).partial_fit(TRAIN[11:30], LABELS[11:30])
    assert one.digest() == many.digest() == partial.digest()


def test_the_seed_decides() -> None:
    digests = {of_images(seed=seed).fit(TRAIN[:20], LABELS[:20]).digest() for seed in (0, 0, 1)}
    assert len(digests) == 2


def test_a_refused_sample_changes_nothing() -> None:
    clf = taught(20)
    before = clf.digest()
    bad: list[tuple[Any, Any]] = [
        (TRAIN[0], None),
        (TRAIN[0], float("nan")),
        (TRAIN[0], ["a"]),
        (TRAIN[0].astype(int), "a"),
        (TRAIN[0] * 1.0, "a"),
        ("no-such-file.png", "a"),
    ]
    for x, y in bad:
        with pytest.raises((ValueError, EarlError)):
            clf.learn_one(x, y)
    with pytest.raises(InvalidInput, match="as many labels"):
        clf.learn_many(TRAIN[:3], ["a"])
    with pytest.raises(InvalidInput, match="as many keys"):
        clf.learn_many(TRAIN[:2], ["a", "b"], keys=["k"])
    with pytest.raises((ValueError, EarlError)):
        clf.learn_many([TRAIN[0], "no-such-file.png"], ["new", "newer"])
    assert clf.digest() == before


def test_a_class_too_many_is_refused_by_its_label() -> None:
    clf = of_images(settings={"d": 2, "growth": False})
    for place, label in enumerate("abc"):
        clf.learn_one(TRAIN[place], label)
    before = clf.digest()
    with pytest.raises(ClassCapacityError, match="'d' is new, but all 3"):
        clf.learn_one(TRAIN[3], "d")
    assert clf.digest() == before
    clf.learn_one(TRAIN[3], "a")


def test_there_is_no_class_too_many_where_the_frame_grows(tmp_path: Path) -> None:
    clf = of_images(settings={"d": 2})
    for place in range(12):
        clf.learn_one(TRAIN[place], place)
    assert clf.classes_.tolist() == list(range(12))
    assert np.isfinite(clf.predict_proba(TEST[:5])).all()
    goes_on(clf, tmp_path / "model", 12, 1)


def test_announced_labels_have_their_columns_and_no_probability() -> None:
    clf = of_images()
    clf.partial_fit(TRAIN[:2], ["b", "a"], classes=["a", "b", "c"])
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert (clf.predict_proba(TEST[:3])[:, 2] == 0).all()
    assert set(clf.predict(TEST)) <= {"a", "b"}
    with pytest.raises(InvalidInput, match="'z' is not among classes"):
        clf.partial_fit(TRAIN[:1], ["z"], classes=["a", "b"])
    clf.learn_one(TRAIN[0], "z")
    assert clf.classes_.tolist() == ["a", "b", "c", "z"]


def test_a_backbone_of_the_users_is_copied_and_frozen_if_asked() -> None:
    """Also where images are augmented, which are then kept as images."""
    backbone = Pooled()
    before = copy.deepcopy(backbone.state_dict())
    for frozen in (True, False):
        clf = of_images(backbone=backbone, frozen=frozen)
        clf.learn_many(TRAIN[:20], LABELS[:20])
        inner = clf._model.learner.f[0].state_dict()  # type: ignore[union-attr]
        same = [torch.equal(inner[name], before[name]) for name in before]
        assert all(same) if frozen else not any(same)
    assert all(torch.equal(backbone.state_dict()[name], before[name]) for name in before)


def test_parameters_of_what_has_learned_cannot_change_unseen() -> None:
    clf = taught(4).set_params(memory_size=5)
    with pytest.raises(InvalidSetting, match="memory_size was 20 when learning began and is 5 now"):
        clf.learn_one(TRAIN[0], "a")
    assert clf.fit(TRAIN[:4], LABELS[:4])._model.learner.setting.memory_size == 5  # type: ignore


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "ear"}, "did you mean 'earl'"),
        ({"backbone": "resnet19"}, "did you mean 'resnet18'"),
        ({"backbone": 3}, "must be a name"),
        ({"image_size": 0}, "from 1 up"),
        ({"memory_size": 2.5}, "whole number"),
        ({"seed": -1}, "from 0 up"),
        ({"threads": 0}, "from 1 up"),
        ({"steps_per_sample": float("nan")}, "positive number"),
        ({"settings": {"kk": 3}}, "no setting named 'kk'"),
        ({"settings": {"seed": 3}}, "parameter of its own"),
        ({"settings": 3}, "must map names"),
        ({"frozen": 1}, "must be true, false"),
        ({"backbone": None, "method": "scr"}, "from images"),
        ({"device": "tpu"}, "cannot be used"),
    ],
)
def test_wrong_parameters_are_refused_with_the_first_sample(given: Any, said: str) -> None:
    clf = EARLClassifier(**given)
    with pytest.raises(EarlError, match=said):
        clf.learn_one(np.zeros(3) if given.get("backbone", "") is None else TRAIN[0], "a")


def test_a_copy_by_pickle_goes_on_by_itself() -> None:
    clf = taught(20)
    other = pickle.loads(pickle.dumps(clf))
    assert other.digest() == clf.digest()
    other.learn_one(TRAIN[20], LABELS[20])
    assert other.digest() != clf.digest()
    clf.learn_one(TRAIN[20], LABELS[20])
    assert other.digest() == clf.digest()


def test_importing_earl_imports_neither_torch_nor_river() -> None:
    script = (
        "import sys, earl; from earl import EarlError\n"
        "print(sorted({'torch', 'river', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_estimator_needs_no_scikit_learn(children: Children, tmp_path: Path) -> None:
    script = "import sys; from earl import EARLClassifier; print('sklearn' in sys.modules)"
    assert children.run("-c", script, cwd=tmp_path).stdout == "False\n"


def test_images_are_not_corrected_unless_asked_for_and_vectors_are() -> None:
    small = {**TRAINING, **NETWORK, "d": 15, "hidden": 16}
    images = EARLClassifier(image_size=8, device="cpu", settings=small)
    images.learn_one(TRAIN[0], "a")
    vectors = of_vectors().partial_fit(*blobs(2))
    asked = taught(1)
    found = [clf._model.learner.correction for clf in (images, vectors, asked)]  # type: ignore[union-attr]
    assert found == [False, True, True]
