"""Rows about the estimator: what its conventions, saving and loading cost beside the bare thing."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count, cycle
from pathlib import Path

import numpy as np
import torch

from earl.bench.measured import Measured, ratio_of
from earl.bench.starts import running
from earl.bench.subjects import bare_pass, network_of
from earl.bench.timing import Effort, Thing, once, take_turns
from earl.estimator import EARLClassifier
from earl.estimator.model import Model
from earl.nn.backbones.weights import PACKAGE
from earl.storage.files import fsync_dir

SIZE = 96  # pixels, as by default
BEFORE = 24  # samples that were learned
LABELS = 4
FEATURES = 1024  # of a model whose state has some 50 MB


def estimator(effort: Effort) -> Iterator[Measured]:
    """Time `learn_one` beside `observe` of the same learner, `predict_one` beside its forward pass.

    `learn_one` asks before it learns, for the history; that is part of it.
    """
    images = np.random.default_rng(0).integers(256, size=(BEFORE, SIZE, SIZE, 3), dtype=np.uint8)
    clf, other = (EARLClassifier(device="cpu", threads=1) for _ in range(2))
    for each in (clf, other):
        for place, image in enumerate(images):
            each.learn_one(image, place % LABELS)
    things = {"learn_one": learning(clf, images), "observe": observing(behind(other), images)}
    times = take_turns(things, effort)
    yield ratio_of("ResNet-18, 96 px, B = 16", times, "learn_one", "observe", target=1.05)
    things = {"predict_one": asking(clf, images), "forward": passing(behind(clf))}
    times = take_turns(things, effort)
    yield ratio_of("ResNet-18, 96 px", times, "predict_one", "forward", target=1.10)


def eye(effort: Effort) -> Iterator[Measured]:
    """Time `learn_one` behind a frozen EfficientNet-Lite0 beside its forward pass of one image.

    Every image is a new one, already of the right size. Without the weights there is nothing to
    measure.
    """
    if find_spec(PACKAGE) is None:
        return
    for method, target in (("earl", 1.3), ("ncm", 1.3), ("knn", 1.3), ("slda", None)):
        clf = EARLClassifier(method=method, backbone="efficientnet-lite0", device="cpu", threads=1)
        learn = learning_new(clf)
        for _ in range(BEFORE):
            learn()
        encode = behind(clf).reader.encode  # type: ignore[union-attr]
        x = encode.setting.view(torch.zeros(1, *encode.setting.image_shape, dtype=torch.uint8))
        things = {"learn_one": learn, "forward": bare_pass(encode.network, x)}
        case = f"{method} behind EfficientNet-Lite0, 224 px"
        times = take_turns(things, effort)
        yield ratio_of(case, times, "learn_one", "forward", target=target)


def learning_new(clf: EARLClassifier) -> Thing:
    """Return what learns an image that was never seen, of the size that the model takes."""
    noise = np.random.default_rng(0).integers(256, size=(224, 224, 3), dtype=np.uint8)
    places = count()

    @once
    def learn() -> None:
        place = next(places)
        image = noise.copy()
        image.flat[:8] = np.frombuffer(place.to_bytes(8, "big"), dtype=np.uint8)
        clf.learn_one(image, place % LABELS)

    return learn


def behind(clf: EARLClassifier) -> Model:
    assert clf._model is not None
    return clf._model


def learning(clf: EARLClassifier, images: np.ndarray) -> Thing:
    coming = cycle(enumerate(images))

    def learn() -> float:
        place, image = next(coming)
        clf.learn_one(image, place % LABELS)
        return 1

    return learn


def observing(model: Model, images: np.ndarray) -> Thing:
    assert model.learner is not None
    learner, x = model.learner, model.reader.read(list(images))
    coming = cycle(range(len(images)))

    def observe() -> float:
        place = next(coming)
        learner.observe(x[place : place + 1], torch.tensor([place % LABELS]))
        return 1

    return observe


def asking(clf: EARLClassifier, images: np.ndarray) -> Thing:
    coming = cycle(images)
    return once(lambda: clf.predict_one(next(coming)))


def passing(model: Model) -> Thing:
    """Return a forward pass of one image that is ready."""
    assert model.learner is not None
    network = network_of(model.learner)
    x = torch.randn(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    return bare_pass(network, x.to(memory_format=torch.channels_last))


def saving(effort: Effort) -> Iterator[Measured]:
    """Time a save of 50 MB beside writing and syncing as many bytes; and a load beside torch."""
    few = Effort(seconds=0, turns=3 if effort.quick else 7)
    settings = {"d": FEATURES, "hidden": FEATURES, "projection": "random"}
    clf = EARLClassifier(backbone=None, device="cpu", threads=1, settings=settings)
    generator = np.random.default_rng(0)
    for place in range(BEFORE):
        clf.learn_one(generator.normal(size=FEATURES), place % LABELS)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        clf.save(model)
        (file,) = model.glob("snap-*/state.safetensors")
        size = file.stat().st_size
        things = {"save": saved(clf, model), "write": written(Path(folder) / "bytes", size)}
        times = take_turns(things, few, clock=time.perf_counter)
        case = f"save of {size / 1e6:.0f} MB ÷ write and fsync"
        yield ratio_of(case, times, "save", "write", target=3.0)
        load = f"from earl import EARLClassifier; EARLClassifier.load({str(model)!r})"
        scripts = {"load": load, "import torch": "import torch"}
        things = {name: running([sys.executable, "-c", text]) for name, text in scripts.items()}
        times = take_turns(things, few, clock=time.perf_counter)
        seconds = times.difference("load", "import torch")
        yield Measured(case="load − import torch", value=seconds, unit="s", target=1.0)


def saved(clf: EARLClassifier, folder: Path) -> Thing:
    @once
    def save() -> None:
        behind(clf).changes += 1  # a state that was never saved
        clf.save(folder)

    return save


def written(path: Path, size: int) -> Thing:
    """Return what writes so many bytes to a new file, and syncs it and its folder."""
    data = np.random.default_rng(0).bytes(size)

    def write() -> float:
        path.unlink(missing_ok=True)
        with path.open("wb", buffering=0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        fsync_dir(path.parent)
        return 1

    return write
