"""EfficientNet-Lite0: every layer against the stored weights, and photographs that it must know."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from earl.errors import BackboneError, InvalidInput
from earl.nn import feature_size
from earl.nn.backbones import Backbone, open_backbone
from earl.nn.backbones import weights as stored_weights
from earl.nn.backbones.efficientnet import EfficientNetLite0, SameConv
from earl.nn.backbones.views import ResizedView
from earl.nn.backbones.weights import read_weights, weight_file

PHOTOGRAPHS = {  # what scikit-image brings along, and its class of ImageNet
    "chelsea.png": 285,  # Egyptian cat
    "coffee.png": 967,  # espresso
    "rocket.jpg": 657,  # missile
    "motorcycle_left.png": 665,  # moped
}


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    pytest.importorskip(stored_weights.PACKAGE)
    return read_weights()


@pytest.fixture(scope="module")
def backbone(weights: dict[str, Tensor]) -> Backbone:
    return open_backbone("efficientnet-lite0")


def test_every_layer_has_the_name_and_the_shape_of_a_stored_one(
    weights: dict[str, Tensor],
) -> None:
    ours = {name: t.shape for name, t in EfficientNetLite0().state_dict().items()}
    stored = {name: t.shape for name, t in weights.items()}
    assert {name: stored.pop(name, None) for name in ours} == ours
    assert set(stored) == {"fc.weight", "fc.bias"}


def test_without_its_head_it_has_3_371_008_parameters_and_1280_features(backbone: Backbone) -> None:
    assert sum(p.numel() for p in backbone.network.parameters()) == 3_371_008
    assert feature_size(backbone.network, (3, 64, 64)) == backbone.features == 1280
    assert not backbone.network.training


@pytest.mark.parametrize(("file", "class_id"), PHOTOGRAPHS.items())
def test_a_photograph_is_recognised(
    file: str, class_id: int, backbone: Backbone, weights: dict[str, Tensor]
) -> None:
    """Its central square, in the preparation that the backbone carries, through the stored head."""
    skimage = pytest.importorskip("skimage")
    from PIL import Image

    image = Image.open(Path(skimage.__file__).parent / "data" / file).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = np.asarray(image.crop((left, top, left + side, top + side)))
    x = torch.from_numpy(square.copy()).permute(2, 0, 1)[None]
    with torch.inference_mode():
        h = backbone.network(backbone.view(x))
    assert int(F.linear(h, weights["fc.weight"], weights["fc.bias"]).argmax()) == class_id


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [6, 7, 8, 9])
def test_padding_keeps_every_windows_start_and_puts_the_odd_pixel_last(
    kernel: int, stride: int, side: int
) -> None:
    """The oracle adds the padding pixel by pixel and slides a window of ones."""
    layer = SameConv(1, 1, kernel, stride, bias=False)
    x = torch.arange(1.0, side * side + 1).view(1, 1, side, side)
    with torch.no_grad():
        layer.weight.fill_(1)
        found = layer(x)[0, 0]
    out = -(-side // stride)
    first = max(0, (out - 1) * stride + kernel - side) // 2  # pixels of padding before the image
    for i in range(out):
        for j in range(out):
            rows = range(i * stride - first, i * stride - first + kernel)
            columns = range(j * stride - first, j * stride - first + kernel)
            inside = [
                float(x[0, 0, r, c])
                for r in rows
                for c in columns
                if 0 <= r < side and 0 <= c < side
            ]
            assert float(found[i, j]) == sum(inside)
    assert found.shape == (out, out)


def test_images_of_the_right_size_are_only_scaled() -> None:
    view = ResizedView((127 / 255,) * 3, (128 / 255,) * 3, size=4)
    x = torch.randint(256, (2, 3, 4, 4), dtype=torch.uint8)
    torch.testing.assert_close(view(x), (x.float() - 127) / 128, check_stride=False)


@pytest.mark.parametrize("shape", [(1, 3, 9, 5), (2, 1, 4, 4), (1, 3, 2, 2)])
def test_images_of_other_sizes_are_resized_as_pillow_does(shape: tuple[int, ...]) -> None:
    from PIL import Image

    draw = torch.Generator().manual_seed(0)
    x = torch.randint(90, 160, shape, dtype=torch.uint8, generator=draw)  # no curve leaves 0 … 255
    found = ResizedView((0.0,) * 3, (1.0,) * 3, size=6)(x) * 255
    assert found.shape == (shape[0], 3, 6, 6)
    for image, ours in zip(x, found, strict=True):
        pixels = image.expand(3, -1, -1).permute(1, 2, 0).numpy()
        theirs = np.asarray(Image.fromarray(pixels).resize((6, 6), Image.Resampling.BICUBIC))
        assert np.abs(ours.permute(1, 2, 0).numpy() - theirs).max() <= 1.5  # Pillow rounds twice


@pytest.mark.parametrize(
    "x",
    [torch.zeros(1, 3, 4, 4), torch.zeros(1, 4, 4, 4, dtype=torch.uint8)],
    ids=["float", "four channels"],
)
def test_what_is_no_raw_image_is_refused(x: Tensor) -> None:
    with pytest.raises(InvalidInput, match="grey ones"):
        ResizedView((0.0,) * 3, (1.0,) * 3)(x)


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_weights, "PACKAGE", "no_such_package")
    with pytest.raises(BackboneError, match=r"earl-learn\[pretrained\]") as told:
        open_backbone("efficientnet-lite0")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("damage", ["one bit", "cut short", "missing", "another file"])
def test_a_damaged_weight_file_is_refused_before_it_is_read(damage: str, tmp_path: Path) -> None:
    pytest.importorskip(stored_weights.PACKAGE)
    data = bytearray(weight_file().read_bytes())
    file = tmp_path / "weights.pth"
    if damage == "one bit":
        data[len(data) // 2] ^= 1
    if damage != "missing":
        file.write_bytes({"cut short": data[:-1], "another file": b"evil"}.get(damage, data))
    with pytest.raises(BackboneError, match="force-reinstall") as told:
        read_weights(file)
    assert "\n" not in str(told.value)
    assert ("SHA-256" in str(told.value)) == (damage != "missing")
