"""Folding: the same answers up to rounding, and networks that are as before."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from earl.catalogue import METHOD_FACTS
from earl.datasets.dataset import Dataset
from earl.experiment import Experiment
from earl.folding import folded, followed, suits_winograd
from earl.learner import Learner
from earl.networks import ResNet, build
from earl.randomness import Randomness
from earl.run import Exam
from earl.state import digest


def restless(network: nn.Module) -> nn.Module:
    """Give batch norm statistics and weights that are not those of a new network."""
    generator = Randomness(3).at(0, "statistics")
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            for tensor in (part.weight.data, part.bias.data, part.running_mean):
                tensor.normal_(generator=generator)
            part.running_var.uniform_(0.2, 2.0, generator=generator)
    return network.eval()


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "small": lambda: ResNet(depth=10, width=4),
    "wide": lambda: ResNet(depth=8, width=64),  # wide enough for Winograd's convolution
    "large": lambda: ResNet(depth=8, width=4, stem="large"),
    "own": lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, groups=1),  # with a bias
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4, bias=False),
        nn.BatchNorm2d(8, eps=0.1),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_folded_network_answers_the_same_and_is_afterwards_as_before(name: str) -> None:
    network = restless(build(NETWORKS[name], Randomness(1).at(0, "network"))).double()
    x = torch.randn(5, 3, 32, 32, generator=Randomness(2).at(0, "x"), dtype=torch.float64)
    before, keys = digest(network.state_dict()), {id(p): dict(vars(p)) for p in network.modules()}
    with torch.no_grad():
        plain = network(x)
        with folded(network):
            torch.testing.assert_close(network(x), plain, rtol=1e-9, atol=1e-9)
            for norm in [part for part in network.modules() if isinstance(part, nn.BatchNorm2d)]:
                assert norm(x) is x  # it has nothing left to do
        assert torch.equal(network(x), plain)
    assert digest(network.state_dict()) == before
    assert all(vars(part).keys() == keys[id(part)].keys() for part in network.modules())


def test_what_cannot_be_folded_is_left_alone() -> None:
    mirrored = nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect")
    forgetful = nn.BatchNorm2d(3, track_running_stats=False)
    network = nn.Sequential(mirrored, nn.BatchNorm2d(3), nn.Conv2d(3, 3, 1), forgetful)
    assert list(followed(network)) == []


def test_only_many_channels_are_convolved_winograds_way() -> None:
    network = build(NETWORKS["wide"], Randomness(1).at(0, "network"))
    chosen = [conv for conv, _ in followed(network) if suits_winograd(conv)]
    assert [(c.in_channels, c.out_channels) for c in chosen] == [(256, 256)]
    for other in (
        nn.Conv2d(256, 256, 3, padding=1, stride=2),
        nn.Conv2d(256, 256, 3, padding=1, groups=2),
        nn.Conv2d(256, 256, 3, padding=2, dilation=2),
        nn.Conv2d(256, 256, 3),
        nn.Conv2d(256, 256, 1),
        nn.Conv2d(128, 256, 3, padding=1),
    ):
        assert not suits_winograd(other)


@pytest.mark.usefixtures("bfloat16")
def test_half_precision_is_left_to_torch() -> None:
    """Winograd's sums of few bits would be far from the products of few bits."""
    network = restless(build(NETWORKS["wide"], Randomness(1).at(0, "network")))
    x = torch.randn(2, 3, 16, 16, generator=Randomness(2).at(0, "x"))
    conv = next(conv for conv, _ in followed(network) if suits_winograd(conv))
    seen: list[torch.dtype] = []
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), folded(network):
        inner = conv.forward
        conv.forward = lambda x: seen.append(inner(x).dtype) or inner(x)
        network(x)
    assert seen == [torch.bfloat16]


SOME = ("er", "earl", "memo", "remind")  # a network, a projection, several extractors, two halves


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in SOME else pytest.mark.slow) for n in METHOD_FACTS]
)
def test_an_exam_with_folding_gives_the_same_marks_and_changes_nothing(
    name: str, make: Callable[..., Learner], dataset: Dataset
) -> None:
    learner = make(name)
    for i in torch.arange(160).view(4, 40).T.flatten()[:24].split(1):
        learner.observe(dataset.train.images[i], dataset.train.labels[i])
    before, asked = digest(learner.state_dict()), torch.arange(len(dataset.test))
    marks = [Exam(dataset.test, fold=fold).grade(learner, asked) for fold in (False, True)]
    assert marks[0] == marks[1]
    assert digest(learner.state_dict()) == before


def test_a_run_can_be_told_to_fold(dataset: Dataset) -> None:
    settings = {"fold": "true"}
    experiment = Experiment(method="er", dataset="shapes", stream="disjoint", settings=settings)
    assert experiment.build(dataset=dataset).exam.fold
    assert not replace(experiment, settings={}).build(dataset=dataset).exam.fold
