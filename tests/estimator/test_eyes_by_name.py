"""The estimator behind real pretrained networks, in files and in packages as people have them."""

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from children import Children
from earl import EARLClassifier
from earl.errors import BackboneError, InvalidSetting
from earl.nn.backbones import weights

PHOTOGRAPHS = {"cat": "chelsea.png", "coffee": "coffee.png", "rocket": "rocket.jpg"}
ENV = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three photographs, each in four parts that overlap: a folder for each."""
    folder = tmp_path_factory.mktemp("photographs") / "photos"
    data = Path(pytest.importorskip("skimage").__file__).parent / "data"
    for label, name in PHOTOGRAPHS.items():
        with Image.open(data / name) as picture:
            w, h = picture.size
            for i, (x, y) in enumerate([(0, 0), (w // 4, 0), (0, h // 4), (w // 4, h // 4)]):
                part = picture.crop((x, y, x + 3 * w // 4, y + 3 * h // 4)).convert("RGB")
                (folder / label).mkdir(parents=True, exist_ok=True)
                part.save(folder / label / f"{i}.png")
    return folder


@pytest.mark.parametrize("method", ["earl", pytest.param("slda", marks=pytest.mark.slow)])
def test_a_taught_photograph_counts_at_the_next_question(method: str, photos: Path) -> None:
    pytest.importorskip(weights.PACKAGE)
    clf = EARLClassifier(backbone="efficientnet-lite0", method=method, device="cpu", threads=1)
    for label in PHOTOGRAPHS:
        clf.learn_one(photos / label / "0.png", label, key=label)
    for label in PHOTOGRAPHS:
        assert {clf.predict_one(photos / label / f"{i}.png") for i in (1, 2, 3)} == {label}
    assert clf.describe()["image_size"] == 224


def test_a_folder_of_photos_is_learned_with_a_pretrained_eye(
    photos: Path, children: Children
) -> None:
    pytest.importorskip(weights.PACKAGE)
    words = ["--backbone", "efficientnet-lite0", "--method", "ncm", "--threads", "1"]

    def earl(*line: str) -> Any:
        return children.run("-m", "earl", *line, cwd=photos.parent, env=ENV)

    done = earl("learn", "model", "photos", *words, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "12 samples of 3 classes" in done.stdout
    size = sum(file.stat().st_size for file in (photos.parent / "model").rglob("*.safetensors"))
    assert size < 100_000  # without the 13 MB of the eye
    other = earl("learn", "model", "photos", "--backbone", "resnet18")
    assert other.returncode == 1 and "begun with backbone = 'efficientnet-lite0'" in other.stderr
    wrong = earl("learn", "other", "photos", "--backbone", "efficientnet-lite")
    assert wrong.returncode == 1 and "did you mean 'efficientnet-lite0'" in wrong.stderr
    assert wrong.stderr.count("\n") == 1


@pytest.fixture
def tiny_hf(tmp_path: Path) -> Callable[[str], Path]:
    """Save a tiny vision model with random weights, as the library itself does."""
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    def save(name: str) -> Path:
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        sizes |= {"intermediate_size": 16, "image_size": 32, "patch_size": 16}
        model = transformers.ViTModel(transformers.ViTConfig(**sizes))
        model.eval().save_pretrained(tmp_path / name)
        processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
        processor.save_pretrained(tmp_path / name)
        return tmp_path / name

    return save


def test_a_model_of_hugging_face_is_an_eye_found_again_by_its_weights(
    tiny_hf: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_hf("vit")
    monkeypatch.chdir(tmp_path)
    images = np.random.default_rng(0).integers(256, size=(8, 40, 30, 3), dtype=np.uint8)
    clf = EARLClassifier(backbone="hf:./vit", device="cpu", threads=1, settings={"d": 20})
    clf.learn_many(images[:6], ["a", "b"] * 3)
    assert clf.describe()["image_size"] == 32
    with pytest.raises(InvalidSetting, match="outside of torch"):
        clf.export_onnx("model.onnx")
    clf.save("model")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = EARLClassifier.load(tmp_path / "model")
    assert again.predict(images).tolist() == clf.predict(images).tolist()
    moved = folder.rename(tmp_path / "moved")
    del again  # as long as a model has it, the eye is not looked for again
    gc.collect()
    with pytest.raises(BackboneError, match="no model in"):
        EARLClassifier.load(tmp_path / "model")
    there = EARLClassifier.load(tmp_path / "model", backbone=f"hf:{moved}")
    assert there.digest() == clf.digest()
    with pytest.raises(InvalidSetting, match="other weights"):
        EARLClassifier.load(tmp_path / "model", backbone=f"hf:{tiny_hf('other')}")
