"""Classifiers of other libraries, as benchmarks/outsiders.py has them, go on exactly."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch import nn

from earl.experiments.catalogue import METHODS
from earl.learning import Setting
from earl.learning.encoder import on_features
from earl.learning.learner import Learner

FILE = Path(__file__).parents[2] / "benchmarks" / "outsiders.py"
SIZE = 6


@pytest.fixture(scope="module", params=["SklearnSGD", "RiverSoftmax"])
def kind(request: pytest.FixtureRequest) -> type[Learner]:
    pytest.importorskip("sklearn")
    pytest.importorskip("river")
    described = importlib.util.spec_from_file_location("outsiders", FILE)
    assert described is not None and described.loader is not None
    module, before = importlib.util.module_from_spec(described), dict(METHODS._entries)
    described.loader.exec_module(module)
    METHODS._entries.clear()
    METHODS._entries.update(before)  # other tests go through all methods
    found: type[Learner] = getattr(module, request.param)
    return found


def fresh(kind: type[Learner]) -> Learner:
    shape = (SIZE, 1, 1)
    plain = Setting(image_shape=shape, view=torch.abs, augment=torch.add, seed=1)
    return kind(nn.Flatten(), on_features(plain, shape))  # type: ignore[call-arg]


def test_an_outsider_learns_and_goes_on_from_its_state(kind: type[Learner]) -> None:
    labels = torch.arange(60) % 3 + 5
    x = (torch.eye(SIZE)[labels - 5] + 0.1 * torch.rand(60, SIZE)).reshape(60, SIZE, 1, 1)
    whole, first, second = fresh(kind), fresh(kind), fresh(kind)
    second.load_state_dict(first.state_dict())  # before anything was learned
    whole.observe(x, labels)
    first.observe(x[:25], labels[:25])
    second.load_state_dict(first.state_dict())
    second.observe(x[25:], labels[25:])
    assert torch.equal(second.scores(x), whole.scores(x))
    assert float((whole.predict(x) == labels).float().mean()) > 0.9
    assert "flops" not in whole.costs()
