"""What is frozen: one rule, kept in every training pass, by whomever the part was frozen."""

import copy

import pytest
import torch
from torch import nn

from earl.nn.build import build
from earl.nn.freezing import begin_training, copy_frozen, frozen_parts, learning, let_learn
from earl.nn.modes import frozen_norm_stats, train_forward
from earl.nn.resnet import ResNet
from seeds import generator as seeded


def resnet(seed: int = 0) -> ResNet:
    return build(lambda: ResNet(depth=8, width=2), seeded(seed))


def images(n: int = 4) -> torch.Tensor:
    return torch.rand(n, 3, 8, 8, generator=seeded(1))


def frozen_names(network: nn.Module) -> set[str]:
    frozen = set(frozen_parts(network))
    return {name for name, part in network.named_modules() if part in frozen}


def test_a_part_is_frozen_if_none_of_its_parameters_requires_gradients() -> None:
    network = resnet()
    assert frozen_names(network) == set()
    network.eval()  # as pretrained networks often come, to be trained
    assert frozen_names(network) == set()
    network.stem.requires_grad_(False)
    network.blocks[1].norm1.requires_grad_(False)
    network.blocks[2].norm2.weight.requires_grad_(False)  # its bias still learns
    assert frozen_names(network) == {"stem", "blocks.1.norm1"}
    network.requires_grad_(False)
    assert frozen_names(network) == {""}  # with the parts that have no parameters


def test_a_network_without_parameters_is_not_frozen() -> None:
    assert list(frozen_parts(nn.Sequential(nn.Dropout(), nn.Flatten()))) == []


@pytest.mark.parametrize("mode", [True, False])
def test_training_begins_for_all_but_the_frozen_parts(mode: bool) -> None:
    network = nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2, affine=False), nn.Dropout()),
        nn.BatchNorm2d(2, affine=False),
        nn.Conv2d(2, 2, 3),
    ).train(mode)
    network[0].requires_grad_(False)
    begin_training(network)
    assert [part.training for part in network] == [False, True, True]
    assert not any(part.training for part in network[0].modules())
    begin_training(network[0])
    assert not network[0].training
    network.requires_grad_(True)
    begin_training(network)
    assert all(part.training for part in network.modules())


def test_a_module_that_sees_to_its_own_mode_is_asked() -> None:
    class Calm(nn.Linear):
        def train(self, mode: bool = True) -> "Calm":
            return super().train(False)

    network = nn.Sequential(Calm(2, 2), nn.Linear(2, 2)).eval()
    begin_training(network)
    assert not network[0].training and network[1].training


@pytest.mark.parametrize("n", [1, 4])
def test_a_frozen_network_answers_in_training_as_it_does_when_asked(n: int) -> None:
    network = resnet()
    for _ in range(3):
        train_forward(network, images())  # statistics that are not those of a new network
    before = copy.deepcopy(network.state_dict())
    expected = network.eval()(images(n)).detach()
    network.requires_grad_(False)
    network.train()
    torch.testing.assert_close(train_forward(network, images(n)), expected)
    with frozen_norm_stats(network):
        torch.testing.assert_close(train_forward(network, images(n)), expected)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_parameters_learn_again_as_they_did() -> None:
    network = resnet()
    network.stem.requires_grad_(False)
    given = learning(network)
    network.requires_grad_(False)
    let_learn(network, given)
    assert learning(network) == given and not all(given) and any(given)


def test_only_what_is_frozen_is_copied() -> None:
    source, target = resnet(1), resnet(2)
    train_forward(source, images())
    target.stem.requires_grad_(False)
    target.blocks[0].norm1.weight.requires_grad_(False)
    nn.init.constant_(source.blocks[0].norm1.weight, 3.0)
    expected = target.state_dict() | {
        name: value
        for name, value in source.state_dict().items()
        if name.startswith("stem.") or name == "blocks.0.norm1.weight"
    }
    expected = copy.deepcopy(expected)
    copy_frozen(source, target)
    assert all(torch.equal(value, expected[name]) for name, value in target.state_dict().items())


def test_a_frozen_layer_that_nobody_knows_how_to_draw_can_be_built() -> None:
    class Strange(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.ones(3))

    def make() -> nn.Module:
        network = nn.Sequential(Strange(), nn.Linear(2, 2))
        network[0].requires_grad_(False)
        return network

    network = build(make, seeded())
    alone = build(lambda: nn.Sequential(nn.Linear(2, 2)), seeded())
    assert torch.equal(network[1].weight, alone[0].weight)
