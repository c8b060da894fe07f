"""Runs behind a frozen front: its maps are kept, and the last stage of the network learns."""

import pytest
import torch
from test_embedding import backbone
from torch import Tensor, nn

from earl.data.dataset import Dataset
from earl.experiments import learners
from earl.experiments.experiment import Experiment
from earl.learning.bytes_held import bytes_held
from earl.learning.encoded import Encoded
from earl.nn import ResNet, build
from earl.nn.backbones import halves, open_backbone
from earl.nn.backbones import weights as stored_weights
from earl.randomness import Randomness


class Halved(nn.Module):
    """A network of which a front can be frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.net = build(lambda: ResNet(depth=8, width=4), Randomness(3).at(0, "backbone"))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x)
        return out

    def halves(self) -> tuple[nn.Module, nn.Module]:
        pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return self.net.stem, nn.Sequential(self.net.blocks, pool)


@pytest.mark.parametrize("method", ["er", "earl"])
def test_behind_a_frozen_front_the_last_stage_learns(
    method: str, monkeypatch: pytest.MonkeyPatch, dataset: Dataset
) -> None:
    monkeypatch.setattr(learners, "open_backbone", lambda name: backbone(Halved()))
    settings = {"backbone": "efficientnet-lite0", "frozen": "front", "memory_size": 9}
    experiment = Experiment(method=method, dataset="shapes", stream="iid", settings=settings)
    run = experiment.build(dataset=dataset)
    assert isinstance(run.learner, Encoded)
    before = {name: t.clone() for name, t in run.learner.encode.network.state_dict().items()}
    first = [p.detach().clone() for p in run.learner.inner.parts()["network"].parameters()]
    rows = torch.arange(20) * 7
    run.learner.observe(dataset.train.images[rows], dataset.train.labels[rows])
    held = bytes_held(run.learner)
    assert held["images"] == 9 * run.learner.encode.shape[0] * 8 * 8 * 4
    now = run.learner.encode.network.state_dict()
    assert all(torch.equal(now[name], before[name]) for name in before)
    then = zip(first, run.learner.inner.parts()["network"].parameters(), strict=True)
    assert any(not torch.equal(p, q) for p, q in then)


def test_the_halves_of_efficientnet_are_the_whole() -> None:
    pytest.importorskip(stored_weights.PACKAGE)
    opened = open_backbone("efficientnet-lite0")
    front, last = halves(opened.network)
    x = opened.view(torch.randint(256, (1, 3, 40, 40), dtype=torch.uint8))
    with torch.inference_mode():
        maps = front(x)
        torch.testing.assert_close(last(maps), opened.network(x))
    assert tuple(maps.shape) == (1, 192, 7, 7)
