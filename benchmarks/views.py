"""What other ways to look at an image would give: few samples through EfficientNet-Lite0.

    python benchmarks/views.py cifar10

120 training images of each class, and no test image: half to draw from, half to ask about. They are
resized in other ways, seen together with their mirror images, or their features are changed; `ncm`
answers, and some more methods. All numbers go to results/few-shot/views.json, of which `earl
results` makes a table; microseconds are those of encoding an image and learning it.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import torch
from few_shot import COUNTS, OUT, Ours, halves, measured, whole
from torch import Tensor, nn
from torch.nn import functional as F

from earl.experiments.catalogue import METHODS
from earl.experiments.loading import DataOptions, load_data
from earl.experiments.places import Places
from earl.learning import Setting
from earl.learning.encoder import on_features
from earl.nn.backbones import open_backbone
from earl.storage.files import replace_text

PER_CLASS = 120
SEEDS = range(11, 21)  # not those that are reported of test images
Look = Callable[[Tensor], Tensor]


class Euclidean(Ours):
    """The nearest class mean by distances in place of angles."""

    def __init__(self, size: int, seed: int) -> None:
        plain = Setting(image_shape=(size, 1, 1), view=torch.abs, augment=torch.add, seed=seed)
        setting = on_features(plain, plain.image_shape)
        self.learner = METHODS["ncm"](nn.Flatten(), setting, distance="euclidean")


def resized(side: int, mode: str = "bicubic", smooth: bool = True) -> Look:
    """Return what enlarges an image to a square."""

    def look(x: Tensor) -> Tensor:
        out = F.interpolate(x, (side, side), mode=mode, antialias=smooth, align_corners=False)
        return out.clamp(0, 255)

    return look


LOOKS: Mapping[str, Look] = {
    "as it is": resized(224),
    "bilinear": resized(224, "bilinear"),
    "no antialias": resized(224, smooth=False),
    "160 px": resized(160),
    "192 px": resized(192),
    "256 px": resized(256),
    "mirror image": lambda x: resized(224)(x.flip(3)),
}


def encoded(images: Tensor, look: Look) -> tuple[Tensor, float]:
    """Return the features of all images, and the microseconds of one."""
    network, start = open_backbone("efficientnet-lite0").network, time.process_time()
    with torch.inference_mode():
        seen = [network((look(x.float()) - 127) / 128) for x in images.split(1)]
    return torch.cat(seen), 1e6 * (time.process_time() - start) / len(images)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("images", help="a data set")
    parser.add_argument("--data-root", type=Path, help="where it lies")
    parser.add_argument("--out", type=Path, default=OUT, help="where to write all numbers")
    given = parser.parse_args()
    torch.set_num_threads(1)
    chosen = DataOptions(per_class=PER_CLASS, exam_per_class=1)
    images, labels, _, _ = whole(load_data(given.images, chosen, Places.find(given.data_root)))
    seen = {name: encoded(images, look) for name, look in LOOKS.items()}
    plain, spent = seen["as it is"]
    seen["mirror image"] = (plain + seen["mirror image"][0]) / 2, 2 * spent
    every = {f"ncm, {name}": (partial(Ours, "ncm"), *one) for name, one in seen.items()}
    every["ncm, Euclidean"] = (Euclidean, plain, spent)
    for name in ("ncm", "slda", "knn", "earl"):
        every[f"{name}, as it is"] = (partial(Ours, name), plain, spent)
        every[f"{name}, square roots"] = (partial(Ours, name), plain.sqrt(), spent)
    curves = [
        measured(name, make, halves(features, labels), 10, SEEDS, encoding)
        for name, (make, features, encoding) in every.items()
    ]
    half = len(labels) // 2
    facts = {"images": given.images, "train": half, "test": half, "counts": COUNTS}
    text = json.dumps({**facts, "curves": curves}, indent=1)
    replace_text(given.out / "views.json", text + "\n")


if __name__ == "__main__":
    main()
