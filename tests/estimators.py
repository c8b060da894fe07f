"""Small estimators for tests: four separable classes of 8-pixel images, and blobs of vectors."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from earl import EARLClassifier
from earl.data.sets import shapes

DATA = shapes.load()
ORDER = torch.randperm(len(DATA.train), generator=torch.Generator().manual_seed(0))
TRAIN: NDArray[np.uint8] = DATA.train.images[ORDER].permute(0, 2, 3, 1).numpy()  # (N, H, W, C)
LABELS = [f"class {c}" for c in DATA.train.labels[ORDER].tolist()]
TEST: NDArray[np.uint8] = DATA.test.images[torch.arange(80)].permute(0, 2, 3, 1).numpy()
TEST_LABELS = [f"class {c}" for c in DATA.test.labels[:80].tolist()]

TRAINING = {"batch_size": 8, "lr": 3e-3}
PLAIN = {"padding": 1, "flip": False, "rand_augment": False}
NETWORK = {"depth": 8, "width": 4}
OWN = {  # of each method, in proportion to such images
    "earl": {"d": 15, "hidden": 16},
    "oddl": {"latent": 8, "vae_hidden": 32},
    "remind": {"base": 20, "codebooks": 2, "codewords": 16},
    "nc-fscil": {"base": 20, "codebooks": 2, "codewords": 16},
}


def of_images(method: str = "earl", **given: Any) -> EARLClassifier:
    """Return a small estimator of images; keywords are its parameters."""
    own = OWN["earl"] if method.startswith("earl") or "etf" in method else OWN.get(method, {})
    if method == "earl":
        own = {**own, "correction": True}  # as the paper has it
    settings = {**TRAINING, **PLAIN, **NETWORK, **own, **given.pop("settings", {})}
    if not isinstance(given.get("backbone", ""), str):
        settings = {name: v for name, v in settings.items() if name not in NETWORK}
    usual = {"image_size": 8, "memory_size": 20, "device": "cpu", "threads": 1}
    return EARLClassifier(method=method, **(usual | given), settings=settings)


def of_vectors(method: str = "earl", **given: Any) -> EARLClassifier:
    """Return a small estimator of vectors; keywords are its parameters."""
    own = OWN["earl"] if method.startswith("earl") or "etf" in method else {}
    settings = {**TRAINING, **own, **given.pop("settings", {})}
    usual = {"backbone": None, "memory_size": 20, "device": "cpu", "threads": 1}
    return EARLClassifier(method=method, **(usual | given), settings=settings)


def blobs(n: int, classes: int = 3, length: int = 5) -> tuple[NDArray[np.float64], list[int]]:
    """Return n vectors around as many centres as there are classes, and their labels."""
    generator = np.random.default_rng(0)
    centres = 3 * generator.normal(size=(classes, length))
    labels = generator.integers(classes, size=n)
    return centres[labels] + generator.normal(size=(n, length)), labels.tolist()


def taught(n: int = 60, **given: Any) -> EARLClassifier:
    """Return a small estimator that has learned n images, each under its number as a key."""
    clf = of_images(**given)
    clf.learn_many(TRAIN[:n], LABELS[:n], keys=range(n))
    return clf
