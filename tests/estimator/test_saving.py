"""A saved model goes on exactly, in any process; what is damaged or another's is refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from test_estimator import Pooled

from earl import EARLClassifier
from earl.errors import DirectoryInUse, EarlError, InvalidSetting, SnapshotError
from earl.estimator.samples import teach
from earl.estimator.saving import model_from, model_state
from earl.storage.files import lock_directory
from earl.storage.snapshot import write_snapshot
from estimators import LABELS, TEST, TRAIN, blobs, goes_on, of_images, of_vectors, taught

SCRIPT = """
import sys
sys.path[:0] = {path!r}
from earl import EARLClassifier
from estimators import LABELS, TEST, TRAIN
clf = EARLClassifier.load({model!r})
clf.learn_many(TRAIN[30:50], LABELS[30:50], keys=range(30, 50))
clf.relabel(49, "other")
clf.save({model!r})
print(clf.digest(), *clf.predict(TEST))
"""


def test_another_process_continues_bit_for_bit(tmp_path: Path) -> None:
    """One with other hashes and another number of threads to begin with."""
    whole = taught(30)
    whole.save(tmp_path / "model")
    whole.learn_many(TRAIN[30:50], LABELS[30:50], keys=range(30, 50))
    whole.relabel(49, "other")
    script = SCRIPT.format(path=sys.path, model=str(tmp_path / "model"))
    environment = os.environ | {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    digest, *rest = done.stdout.split()
    assert digest == whole.digest() == EARLClassifier.load(tmp_path / "model").digest()
    assert " ".join(rest) == " ".join(whole.predict(TEST))


def test_saving_often_changes_nothing_and_keeps_two(tmp_path: Path) -> None:
    saved, plain = of_images(), of_images()
    for place in range(12):
        saved.learn_one(TRAIN[place], LABELS[place])
        saved.save(tmp_path / "model")
        plain.learn_one(TRAIN[place], LABELS[place])
    assert saved.digest() == plain.digest()
    saved.save(tmp_path / "model")  # again, with nothing new
    assert len(list((tmp_path / "model").glob("snap-*"))) == 2


def test_parameters_labels_history_and_unlearned_models_come_back(tmp_path: Path) -> None:
    clf = taught(40, memory_size=17, seed=5, steps_per_sample=0.5)
    clf.save_pretrained(tmp_path / "model")
    again = EARLClassifier.from_pretrained(tmp_path / "model")
    assert again.get_params() == clf.get_params()
    assert again.history == clf.history
    assert again.classes_.tolist() == clf.classes_.tolist()
    of_images().save(tmp_path / "empty")
    assert EARLClassifier.load(tmp_path / "empty").predict_one(TEST[0]) is None


def test_vectors_by_name_come_back(tmp_path: Path) -> None:
    clf = of_vectors()
    for row, label in zip(*blobs(10), strict=True):
        clf.learn_one({f"x{i}": v for i, v in enumerate(row)}, label)
    clf.save(tmp_path / "model")
    again = EARLClassifier.load(tmp_path / "model")
    x = {"x3": 1.0, "x1": -2.0}
    assert again.predict_proba_one(x) == clf.predict_proba_one(x)


def test_what_another_model_has_saved_is_never_overwritten(tmp_path: Path) -> None:
    taught(10).save(tmp_path / "model")
    before = EARLClassifier.load(tmp_path / "model").digest()
    for other in (taught(9), taught(11), of_images(seed=7).fit(TRAIN[:9], LABELS[:9])):
        with pytest.raises(SnapshotError):
            other.save(tmp_path / "model")
    taught(10).save(tmp_path / "model")  # the same state is fine
    assert EARLClassifier.load(tmp_path / "model").digest() == before
    (tmp_path / "file").write_text("x")
    with pytest.raises(SnapshotError, match="is a file"):
        taught(3).save(tmp_path / "file")


def test_a_damaged_save_is_set_aside_for_the_one_before(tmp_path: Path) -> None:
    clf = taught(10)
    clf.save(tmp_path / "model")
    before = clf.digest()
    clf.learn_one(TRAIN[10], LABELS[10])
    clf.save(tmp_path / "model")
    newest = max((tmp_path / "model").glob("snap-*")) / "state.safetensors"
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    again = EARLClassifier.load(tmp_path / "model")
    assert again.digest() == before and list((tmp_path / "model").glob("bad-*"))
    again.learn_one(TRAIN[10], LABELS[10])
    again.save(tmp_path / "model")
    assert EARLClassifier.load(tmp_path / "model").digest() == clf.digest()


def test_a_directory_in_use_or_of_something_else_is_refused(tmp_path: Path) -> None:
    clf = taught(5)
    with lock_directory(tmp_path / "model"), pytest.raises(DirectoryInUse):
        clf.save(tmp_path / "model")
    with pytest.raises(SnapshotError, match="there is no model"):
        EARLClassifier.load(tmp_path / "nowhere")
    with pytest.raises(SnapshotError, match="holds no saved model"):
        EARLClassifier.load(tmp_path / "model")
    write_snapshot(tmp_path / "run", 3, {"a": torch.zeros(2)}, about={})
    with pytest.raises(SnapshotError, match="no EARLClassifier"):
        EARLClassifier.load(tmp_path / "run")


def test_states_that_hold_something_else_are_refused(tmp_path: Path) -> None:
    about = {"kind": "EARLClassifier"}
    for step, state in enumerate([{}, {"parameters": {}}, {"parameters": {"seed": "x"}}, 3]):
        write_snapshot(tmp_path / str(step), step, state, about=about)
        with pytest.raises(EarlError):
            EARLClassifier.load(tmp_path / str(step))


def test_a_backbone_of_the_users_is_given_again_and_must_fit(tmp_path: Path) -> None:
    backbone = Pooled()
    backbone.conv.requires_grad_(False)
    clf = taught(20, backbone=backbone)
    clf.save(tmp_path / "model")
    with pytest.raises(InvalidSetting, match=r"give it again: load\(path, backbone=Pooled"):
        EARLClassifier.load(tmp_path / "model")
    for wrong in (Pooled(width=4), torch.nn.Flatten()):
        with pytest.raises(InvalidSetting):
            EARLClassifier.load(tmp_path / "model", backbone=wrong)
    goes_on(clf, tmp_path / "model", 20, 10, backbone=Pooled())
    taught(5).save(tmp_path / "named")
    with pytest.raises(InvalidSetting, match="saved with backbone = 'resnet18'"):
        EARLClassifier.load(tmp_path / "named", backbone=Pooled())


def test_threads_are_those_of_the_save_unless_others_are_asked_for(tmp_path: Path) -> None:
    taught(5).save(tmp_path / "model")
    for threads, expected in ((None, 1), (2, 2)):
        clf = EARLClassifier.load(tmp_path / "model", threads=threads)
        clf.learn_one(TRAIN[5], LABELS[5])
        assert clf._model is not None and clf._model.threads == expected
    assert torch.get_num_threads() == 1


def pictures(folder: Path, number: int) -> list[tuple[Path, str]]:
    folder.mkdir()
    files = [(folder / f"{i}.png", str(LABELS[i])) for i in range(number)]
    for (path, _), image in zip(files, TRAIN, strict=False):
        Image.fromarray(image).save(path)
    return files


def test_saves_beside_learning_change_nothing(tmp_path: Path) -> None:
    files, whole, saved = pictures(tmp_path / "images", 8), of_images(), of_images()
    for _ in teach(whole, files, tmp_path / "whole"):
        pass
    for _ in teach(saved, files, tmp_path / "saved", seconds=0.0):
        pass
    assert saved.digest() == whole.digest() == EARLClassifier.load(tmp_path / "saved").digest()
    assert len(list((tmp_path / "saved").glob("snap-*"))) == 2


def test_a_save_beside_learning_that_fails_is_an_error_of_whoever_learns(tmp_path: Path) -> None:
    (tmp_path / "model").touch()
    lessons = teach(of_images(), pictures(tmp_path / "images", 8), tmp_path / "model", seconds=0.0)
    assert next(lessons).step == 1
    with pytest.raises(SnapshotError, match="is a file; choose another place"):
        list(lessons)


def test_a_model_of_features_from_before_means_were_its_projection_goes_on_as_it_was() -> None:
    """It has a matrix, and its settings do not say so: that was how models of features were."""
    then = EARLClassifier(backbone=None, settings={"projection": "random", "d": 16})
    then.learn_many(*blobs(30))
    assert then._model is not None
    state = model_state(then._model)
    del state["parameters"]["settings"]["projection"]
    now = model_from(state, None, {})
    assert now.parameters.of("method")["projection"] == "random"
    asked = now.reader.read(blobs(40)[0])
    assert torch.equal(now.scores(asked), then._model.scores(asked))
