"""What a small model tells of a full one is what the full one then holds."""

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from earl.crashtest.small import of_images
from earl.estimator import EARLClassifier
from earl.estimator.answering import answering_copy
from earl.estimator.parameters import Parameters, must_be_told
from earl.estimator.rehearsal import needs_of
from earl.estimator.saving import model_state
from earl.experiments.catalogue import METHODS
from earl.learning.bytes_held import bytes_held
from earl.storage.state import flatten

FREE = [name for name in METHODS.names() if not must_be_told(name)]
USUAL = ("earl", "er", "slda")  # of the others each takes seconds: slow
MANY = 136  # classes: more than a rehearsal has, and more than d = 15 has vectors


def parameters_of(clf: EARLClassifier) -> Parameters:
    return Parameters(**clf.get_params())


def full(clf: EARLClassifier, classes: int) -> EARLClassifier:
    """Return a model that has learned a sample of each class."""
    rng = np.random.default_rng(0)
    for number in range(classes):
        image = rng.integers(256, size=(8, 8, 3), dtype=np.uint8)
        clf.learn_one(image, f"class {number}")
    return clf


def memory_of_tensors() -> dict[int, int]:
    """Return where all tensors of this process are, and their bytes."""
    tensors = [thing for thing in gc.get_objects() if type(thing) in (torch.Tensor, nn.Parameter)]
    storages = [tensor.untyped_storage() for tensor in tensors]
    return {storage.data_ptr(): storage.nbytes() for storage in storages}


def saved(clf: EARLClassifier) -> int:
    tensors, _ = flatten(model_state(clf._current()))
    return sum(tensor.nbytes for tensor in tensors.values())


@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=() if m in USUAL else pytest.mark.slow) for m in FREE]
)
def test_a_full_model_is_not_larger_than_its_rehearsal_said(method: str) -> None:
    clf = of_images(method, settings={"dimensions": 255} if method == "nc-fscil" else {})
    needs = needs_of(parameters_of(clf), MANY)
    model = full(clf, MANY)._current()
    assert model.learner is not None and needs.classes == len(model.learner.classes) == MANY
    held = sum(bytes_held(model.learner).values())
    small = 20_000  # bytes of labels, counts and curves
    assert held <= needs.network + needs.learning + needs.memory + small
    assert saved(clf) <= needs.state + small
    if method == "earl":
        assert needs.state <= 1.5 * saved(clf)
    before = memory_of_tensors()
    twin = answering_copy(model)
    new = sum(size for place, size in memory_of_tensors().items() if place not in before)
    assert twin is not model and new <= needs.copy + small


@pytest.mark.parametrize(
    "settings",
    [
        {"classifier": "learnable"},
        pytest.param({"d": 127}, marks=pytest.mark.slow),
        pytest.param({"correction": False}, marks=pytest.mark.slow),
    ],
)
def test_the_state_of_earl_is_told_to_a_half(settings: dict[str, Any]) -> None:
    clf = of_images(settings=settings)
    needs = needs_of(parameters_of(clf), MANY)
    assert saved(full(clf, MANY)) - 20_000 <= needs.state <= 1.5 * saved(clf)


def test_what_is_absurd_is_told_and_never_made() -> None:
    usual = parameters_of(of_images())
    absurd = replace(usual, memory_size=10**12)
    few = needs_of(usual, 4)
    assert needs_of(absurd, 4).memory == few.memory * 10**12 // usual.memory_size
    assert needs_of(usual, 10**9).state > 10**15
    wide = replace(usual, settings={**(usual.settings or {}), "batch_size": 10**9})
    assert needs_of(wide, 4).step > 10**10


def test_a_method_with_room_for_fewer_classes_is_full_with_these() -> None:
    bounded = of_images(settings={"growth": False})
    assert needs_of(parameters_of(bounded), 1000).classes == 16


def test_a_rehearsal_draws_nothing_from_the_global_random_state() -> None:
    before = torch.get_rng_state()
    needs_of(parameters_of(of_images()), 4)
    assert torch.equal(before, torch.get_rng_state())
