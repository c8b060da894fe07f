"""Backbones by name: tiny models that are saved here in Hugging Face's format, and wrong names."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from earl.errors import BackboneError, EarlError, UnknownName
from earl.nn.backbones import open_backbone
from earl.nn.backbones.huggingface import summary

SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 16, "image_size": 32, "patch_size": 16}


@pytest.fixture(scope="module")
def transformers() -> Any:
    found = pytest.importorskip("transformers")
    found.utils.logging.set_verbosity_error()
    found.utils.logging.disable_progress_bar()
    return found


def saved(model: Any, transformers: Any, folder: Path) -> Path:
    """Save a model with an image processor of 32 pixels, as the library itself does."""
    model.eval().save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def images(n: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(256, (n, 3, 9, 9), dtype=torch.uint8, generator=generator)


def theirs(model: Any, x: torch.Tensor, transformers: Any) -> Any:
    """Return what the library makes of images, without us."""
    processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    pictures = [np.asarray(image.permute(1, 2, 0)) for image in x]
    with torch.inference_mode():
        return model.eval()(**processor(images=pictures, return_tensors="pt"))


def test_the_pooled_output_is_the_feature(transformers: Any, tmp_path: Path) -> None:
    model = transformers.ViTModel(transformers.ViTConfig(**SMALL))
    opened = open_backbone(f"hf:{saved(model, transformers, tmp_path)}")
    assert opened.features == 16 and not opened.network.training
    with torch.inference_mode():
        found = opened.network(opened.view(images()))
    torch.testing.assert_close(found, theirs(model, images(), transformers).pooler_output)


def test_a_pooling_layer_without_stored_weights_is_not_used(
    transformers: Any, tmp_path: Path
) -> None:
    """The library would draw its weights at random; the class token is the feature then."""
    model = transformers.ViTModel(transformers.ViTConfig(**SMALL), add_pooling_layer=False)
    folder = saved(model, transformers, tmp_path)
    before = torch.get_rng_state()
    opened = open_backbone(f"hf:{folder}")
    assert torch.equal(torch.get_rng_state(), before)  # though some were drawn
    with torch.inference_mode():
        found = opened.network(opened.view(images()))
    expected = theirs(model, images(), transformers).last_hidden_state[:, 0]
    torch.testing.assert_close(found, expected)


def test_pooled_maps_become_vectors(transformers: Any, tmp_path: Path) -> None:
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1])
    model = transformers.ResNetModel(config)
    opened = open_backbone(f"hf:{saved(model, transformers, tmp_path)}")
    with torch.inference_mode():
        found = opened.network(opened.view(images()))
    expected = theirs(model, images(), transformers).pooler_output.flatten(1)
    assert found.shape == (3, 12)
    torch.testing.assert_close(found, expected)


def test_a_model_of_images_and_texts_is_asked_for_its_images(
    transformers: Any, tmp_path: Path
) -> None:
    text = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 9}
    config = transformers.CLIPConfig(
        text_config=text | {"intermediate_size": 8}, vision_config=SMALL, projection_dim=6
    )
    model = transformers.CLIPModel(config)
    opened = open_backbone(f"hf:{saved(model, transformers, tmp_path)}")
    with torch.inference_mode():
        found = opened.network(opened.view(images()))
        x = opened.view(images())
        inner = model.eval().vision_model(pixel_values=x).pooler_output
        expected = model.visual_projection(inner)
    torch.testing.assert_close(found, expected)


def test_grey_images_are_seen_in_three_channels(transformers: Any, tmp_path: Path) -> None:
    model = transformers.ViTModel(transformers.ViTConfig(**SMALL))
    opened = open_backbone(f"hf:{saved(model, transformers, tmp_path)}")
    grey = images()[:, :1]
    assert torch.equal(opened.view(grey), opened.view(grey.expand(-1, 3, -1, -1)))


def no_features(transformers: Any, folder: Path) -> str:
    config = transformers.BertConfig(**{k: SMALL[k] for k in list(SMALL)[:4]}, vocab_size=9)
    saved(transformers.BertModel(config), transformers, folder)
    return "gives no features of images"


def damaged(transformers: Any, folder: Path) -> str:
    saved(transformers.ViTModel(transformers.ViTConfig(**SMALL)), transformers, folder)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    return "cannot be opened"


def pickled(transformers: Any, folder: Path) -> str:
    """Weights in a format that may carry code are not read."""
    model = transformers.ViTModel(transformers.ViTConfig(**SMALL))
    saved(model, transformers, folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return "cannot be opened"


def without_processor(transformers: Any, folder: Path) -> str:
    transformers.ViTModel(transformers.ViTConfig(**SMALL)).save_pretrained(folder)
    return "cannot be opened"


def without_a_block(transformers: Any, folder: Path) -> str:
    """A stored model of one block where two are announced: half of it would be random."""
    from safetensors.torch import load_file, save_file

    config = transformers.ViTConfig(**SMALL | {"num_hidden_layers": 2})
    saved(transformers.ViTModel(config), transformers, folder)
    file = folder / "model.safetensors"
    kept = {
        k: v for k, v in load_file(file).items() if "layer.1." not in k and "layers.1." not in k
    }
    save_file(kept, file, metadata={"format": "pt"})
    return "lacks weights"


def empty(transformers: Any, folder: Path) -> str:
    return "there is no model in"


WRONG = [no_features, damaged, pickled, without_processor, without_a_block, empty]


@pytest.mark.parametrize("make", WRONG, ids=lambda make: make.__name__)
def test_a_wrong_model_is_one_clear_line(make: Any, transformers: Any, tmp_path: Path) -> None:
    told = make(transformers, tmp_path)
    with pytest.raises(BackboneError, match=told) as error:
        open_backbone(f"hf:{tmp_path}")
    assert "\n" not in str(error.value)


def test_a_model_that_is_nowhere_is_one_clear_line(
    transformers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def load(where: str, **options: Any) -> None:
        calls.append(options.get("local_files_only", False))
        raise OSError("no connection\nand more")

    monkeypatch.setattr(transformers.AutoImageProcessor, "from_pretrained", load)
    with pytest.raises(BackboneError, match="neither in the cache") as error:
        open_backbone("hf:nobody/nothing")
    assert calls == [True, False]  # the cache is asked first, and without a connection
    assert "\n" not in str(error.value)


def test_a_summary_needs_hidden_states() -> None:
    with pytest.raises(BackboneError, match="neither"):
        summary(object(), pooled=True)


def test_without_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(BackboneError, match=r"earl-learn\[hf\]"):
        open_backbone("hf:nobody/nothing")


@pytest.mark.parametrize(
    ("name", "told"),
    [("efficientnet-lite1", "did you mean 'efficientnet-lite0'"), ("resnet18", "random")],
)
def test_a_name_without_weights_is_refused(name: str, told: str) -> None:
    with pytest.raises(EarlError, match=told) as error:
        open_backbone(name)
    assert isinstance(error.value, UnknownName | BackboneError)
