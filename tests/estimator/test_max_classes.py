"""A bound on the number of classes, for those who want one: one more is refused politely."""

from pathlib import Path

import pytest

from earl import EARLClassifier
from earl.errors import ClassCapacityError, InvalidSetting
from earl.storage.snapshot import read_newest, write_snapshot
from estimators import FREE, LABELS, TEST, TRAIN, blobs, of_images, of_vectors, taught


@pytest.mark.parametrize("method", FREE)
def test_one_class_more_than_max_classes_is_refused_and_changes_nothing(method: str) -> None:
    clf = of_images(method, max_classes=2)
    samples = list(zip(TRAIN, LABELS, strict=True))
    known = list(dict.fromkeys(LABELS))[:2]
    for image, label in [s for s in samples[:24] if s[1] in known]:
        clf.learn_one(image, label)
    before = clf.digest()
    for refused in (
        lambda: clf.learn_one(TRAIN[0], "one more"),
        lambda: clf.learn_many(TRAIN[:3], [*known, "one more"]),
        lambda: clf.partial_fit(TRAIN[:1], known[:1], classes=[*known, "one more"]),
    ):
        with pytest.raises(ClassCapacityError, match="'one more' is new, but max_classes = 2, and"):
            refused()
    assert clf.digest() == before and list(clf.classes_) == known
    assert set(clf.predict(TEST)) <= set(known)
    assert clf.describe()["capacity"] == 2
    clf.learn_one(TRAIN[0], known[0])


def test_max_classes_is_saved_and_models_before_it_have_no_bound(tmp_path: Path) -> None:
    clf = of_vectors(max_classes=3)
    clf.learn_many(*blobs(12))
    clf.save(tmp_path)
    assert EARLClassifier.load(tmp_path).max_classes == 3
    found = read_newest(tmp_path)
    assert found is not None
    del found.state["parameters"]["max_classes"]
    write_snapshot(tmp_path, found.step + 1, found.state, about=found.about)
    old = EARLClassifier.load(tmp_path)
    assert old.max_classes is None and old.describe()["capacity"] is None
    old.learn_one(blobs(1)[0][0], "one more")


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "2"])
def test_max_classes_is_a_number_of_classes(bad: object) -> None:
    with pytest.raises(InvalidSetting, match="max_classes"):
        of_images(max_classes=bad).learn_one(TRAIN[0], "a")


def test_a_forgotten_label_keeps_its_place_and_no_other_takes_it() -> None:
    clf = taught(24, max_classes=4)
    label = LABELS[0]
    clf.forget(label=label)
    with pytest.raises(ClassCapacityError):
        clf.learn_one(TRAIN[0], "another")
    with pytest.raises(ClassCapacityError):
        clf.relabel(1, "another")
    clf.learn_one(TRAIN[0], label)
