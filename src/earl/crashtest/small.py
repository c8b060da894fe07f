"""Small learners: estimators and experiments whose samples take milliseconds."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from earl.data.dataset import Dataset
from earl.data.sets import shapes
from earl.estimator import EARLClassifier
from earl.experiments.experiment import Experiment

CLASSES = 4
TRAINING = {"batch_size": 8, "lr": 3e-3}
PLAIN = {"padding": 1, "flip": False, "rand_augment": False}
NETWORK = {"depth": 4, "width": 16}
DIVIDED = {"depth": 6, "width": 8}  # for methods that freeze the first of its blocks
OWN: dict[str, dict[str, Any]] = {  # of each method, in proportion to such images
    "earl": {"d": 15, "hidden": 16},
    "oddl": {"latent": 8, "vae_hidden": 32},
    "remind": {"base": 20, "codebooks": 2, "codewords": 16, **DIVIDED},
    "nc-fscil": {"base": 20, "codebooks": 2, "codewords": 16, **DIVIDED},
    "ranpac": {"projected": 200},
}


def of_images(method: str = "earl", **given: Any) -> EARLClassifier:
    """Return a small estimator of images; keywords are its parameters."""
    own = OWN["earl"] if method.startswith("earl") or "etf" in method else OWN.get(method, {})
    if method == "earl":
        own = {**own, "correction": True}  # as the paper has it
    settings = {**TRAINING, **PLAIN, **NETWORK, **own, **given.pop("settings", {})}
    if not isinstance(given.get("backbone", ""), str):
        settings = {name: v for name, v in settings.items() if name not in NETWORK}
    usual: dict[str, Any] = {"image_size": 8, "memory_size": 20, "device": "cpu", "threads": 1}
    return EARLClassifier(method=method, **(usual | given), settings=settings)


def of_vectors(method: str = "earl", **given: Any) -> EARLClassifier:
    """Return a small estimator of vectors; keywords are its parameters."""
    own = OWN["earl"] if method.startswith("earl") or "etf" in method else OWN.get(method, {})
    own = {name: value for name, value in own.items() if name not in NETWORK}
    settings = {**TRAINING, **own, **given.pop("settings", {})}
    usual: dict[str, Any] = {"backbone": None, "memory_size": 20, "device": "cpu", "threads": 1}
    return EARLClassifier(method=method, **(usual | given), settings=settings)


def ready() -> None:
    """Learn a little with one thread: what every life would import or compile is then there."""
    torch.set_num_threads(1)
    warm, samples = of_images(), stream(8)
    for image, label in zip(samples.images, samples.labels, strict=True):
        warm.learn_one(image, label)
    warm.predict(samples.probes[:2])


@dataclass(frozen=True)
class Samples:
    """Images (n, H, W, C) in a mixed order, their labels, and images to ask about."""

    images: NDArray[np.uint8]
    labels: list[str]
    probes: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.labels)


@cache
def data(samples: int) -> Dataset:
    """Return four separable classes of 8-pixel images, at least so many to learn."""
    return shapes.load(train=-(-samples // CLASSES))


def stream(samples: int, seed: int = 0) -> Samples:
    """Return so many images for an estimator."""
    dataset = data(samples)
    order = torch.randperm(len(dataset.train), generator=torch.Generator().manual_seed(seed))
    order = order[:samples]
    return Samples(
        as_pictures(dataset.train.images[order]),
        [f"class {c}" for c in dataset.train.labels[order].tolist()],
        as_pictures(dataset.test.images[torch.arange(len(dataset.test))]),
    )


def as_pictures(images: torch.Tensor) -> NDArray[np.uint8]:
    pictures: NDArray[np.uint8] = images.permute(0, 2, 3, 1).contiguous().numpy()
    return pictures


def experiment(method: str = "earl", *, seed: int = 1, **settings: Any) -> Experiment:
    """Return a small experiment, which is run on a data set of `data`."""
    own = {"memory_size": 20, "every": 50} | settings
    return Experiment(method=method, dataset="shapes", stream="gaussian", seed=seed, settings=own)
