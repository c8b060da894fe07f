"""What is built depends on its generator alone, and has a value everywhere."""

import contextlib
import math

import pytest
import torch
from torch import nn

from earl.errors import EarlError, InvalidSetting
from earl.nn.build import build, feature_size, resnet_for
from earl.nn.heads import GrowingLinear, Projection
from earl.nn.resnet import ResNet
from seeds import generator
from small_networks import flags, mixed, random, small

# ---- build


def everything():
    return nn.Sequential(ResNet(depth=10, width=4), Projection(32, 8, 16), GrowingLinear(8, rows=5))


def test_build_leaves_the_global_random_state_untouched():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    build(everything, generator())
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_built_depends_on_the_generator_alone():
    torch.manual_seed(0)
    one = build(everything, generator(1)).state_dict()
    torch.manual_seed(9)
    junk = [torch.full((4096,), float("nan")) for _ in range(64)]  # memory to be reused
    del junk
    same = build(everything, generator(1)).state_dict()
    other = build(everything, generator(2)).state_dict()
    assert list(one) == list(same)
    for name, value in one.items():
        assert torch.equal(value, same[name]), name
    drawn = [name for name, value in one.items() if len(value.unique()) > 1]
    assert drawn and not any(torch.equal(one[name], other[name]) for name in drawn)


@pytest.fixture
def fresh_memory_is_nan():
    """Tensors without values are filled with NaN, so that one left as it is shows."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


def test_build_gives_every_parameter_and_buffer_a_value(fresh_memory_is_nan):
    for name, value in build(everything, generator()).state_dict().items():
        assert value.isfinite().all(), name


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.BatchNorm1d(3),
        lambda: nn.GroupNorm(1, 3),
        lambda: nn.Conv1d(2, 3, 1),
        lambda: nn.Embedding(2, 3),
        lambda: nn.Conv2d(2, 3, 1, bias=True),
    ],
    ids=["BatchNorm1d", "GroupNorm", "Conv1d", "Embedding", "Conv2d with bias"],
)
def test_build_refuses_a_layer_rather_than_leave_it_without_values(make, fresh_memory_is_nan):
    with contextlib.suppress(EarlError):
        for name, value in build(make, generator()).state_dict().items():
            assert value.isfinite().all(), name


def test_layers_start_as_published():
    network = build(
        lambda: nn.Sequential(ResNet(depth=10, width=32), nn.Linear(64, 50)), generator()
    )
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            fan_out = part.out_channels * part.kernel_size[0] ** 2
            std, mean = torch.std_mean(part.weight.detach())
            assert float(std) == pytest.approx(math.sqrt(2 / fan_out), rel=0.1)
            assert abs(mean) < 4 * std / part.weight.numel() ** 0.5
        elif isinstance(part, nn.BatchNorm2d):
            assert part.weight.eq(1).all() and part.bias.eq(0).all()
            assert part.running_mean.eq(0).all() and part.running_var.eq(1).all()
            assert part.num_batches_tracked == 0
        elif isinstance(part, nn.Linear):
            for p in (part.weight.detach(), part.bias.detach()):  # uniform within 1/sqrt(64)
                assert p.abs().max() <= 1 / 8
                assert float(p.std()) == pytest.approx(1 / 8 / 3**0.5, rel=0.3)


def test_a_built_module_is_trainable_and_in_training_mode():
    network = build(everything, generator())
    assert network.training and all(p.requires_grad for p in network.parameters())
    network(random(4, 3, 8, 8)).sum().backward()
    assert all(p.grad.isfinite().all() for p in network.parameters())


# ---- modes


# ---- feature_size


def test_feature_size_is_the_length_of_the_features():
    assert feature_size(small(), (3, 8, 8)) == 32
    assert feature_size(nn.Flatten(), (1, 4, 5)) == 20


def test_asking_for_the_feature_size_changes_nothing():
    network = mixed()
    state = {k: v.clone() for k, v in network.state_dict().items()}
    before = flags(network)
    feature_size(network, (3, 8, 8))
    assert flags(network) == before
    assert all(torch.equal(v, state[k]) for k, v in network.state_dict().items())


@pytest.mark.parametrize("wrong", [nn.Identity(), nn.Flatten(0), nn.Flatten(0, 1)])
def test_a_backbone_without_one_vector_per_image_is_refused(wrong):
    with pytest.raises(InvalidSetting, match="flatten"):
        feature_size(wrong, (3, 4, 4))


@pytest.mark.parametrize(("side", "stem"), [(1, 3), (64, 3), (65, 7), (224, 7)])
def test_a_resnet_for_large_images_has_the_large_stem_unless_another_is_asked_for(side, stem):
    assert resnet_for((1, side, side), width=2).stem[0].weight.shape == (2, 1, stem, stem)
    assert resnet_for((1, 2, side), width=2).stem[0].weight.shape[2:] == (stem, stem)
    assert resnet_for((3, side, side), width=2, stem="small").stem[0].weight.shape[1:] == (3, 3, 3)
    assert resnet_for((3, side, side), width=2, stem="large").stem[0].weight.shape[1:] == (3, 7, 7)


def test_a_layer_may_say_how_its_parameters_are_drawn(fresh_memory_is_nan):
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(3))

        def draw_parameters(self, generator):
            nn.init.uniform_(self.weight, 1, 2, generator=generator)

    made = build(lambda: nn.Sequential(Constant()), generator())
    assert ((made[0].weight >= 1) & (made[0].weight <= 2)).all()
