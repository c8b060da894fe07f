"""Networks: the published sizes and costs, and a head whose growth nobody else notices."""

import contextlib
import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from earl.errors import EarlError, InvalidSetting
from earl.learning.passes import adam
from earl.nn.build import build, feature_size
from earl.nn.heads import Classifier, GrowingLinear, Projection
from earl.nn.modes import evaluating, train_forward
from earl.nn.resnet import BLOCKS, BasicBlock, ResNet

close = torch.testing.assert_close


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed))


def on_paper(make):
    """Return a module that has shapes but no memory."""
    with torch.device("meta"):
        return make()


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def macs(module, *shape):
    """Return the multiply-adds of one forward pass."""
    with FlopCounterMode(display=False) as counter:
        module(torch.empty(*shape, device="meta"))
    return counter.get_total_flops() / 2


def small(seed=0, depth=10, width=4):
    return build(lambda: ResNet(depth=depth, width=width), generator(seed))


# ---- ResNet-18: the published table

TABLE = [("small", 32, 11_168_832, 0.555e9), ("small", 64, 11_168_832, 2.222e9)]
TABLE += [("large", 224, 11_176_512, 1.814e9)]
SIZES = {32: (32, 16, 8, 4), 64: (64, 32, 16, 8), 224: (56, 28, 14, 7)}


@pytest.mark.parametrize(("stem", "size", "count", "cost"), TABLE)
def test_resnet18_has_the_published_parameters_and_cost(stem, size, count, cost):
    network = on_paper(lambda: ResNet(depth=18, stem=stem))
    assert parameters(network) == count
    assert macs(network, 1, 3, size, size) == pytest.approx(cost, rel=0.01)
    assert network(torch.empty(2, 3, size, size, device="meta")).shape == (2, 512)


@pytest.mark.parametrize(("stem", "size"), [(stem, size) for stem, size, _, _ in TABLE])
def test_the_four_stages_have_the_published_spatial_sizes(stem, size):
    network = on_paper(lambda: ResNet(depth=18, stem=stem))
    x = network.stem(torch.empty(1, 3, size, size, device="meta"))
    shapes = [(x := block(x)).shape for block in network.blocks]
    ends = [tuple(shape[1:]) for shape in shapes[1::2]]  # two blocks per stage
    widths = (64, 128, 256, 512)
    assert ends == [(c, s, s) for c, s in zip(widths, SIZES[size], strict=True)]


@pytest.mark.parametrize(("size", "share", "last"), [(32, 0.242, 0.136), (224, 0.227, 0.127)])
def test_the_last_stage_has_the_published_share_of_parameters_and_cost(size, share, last):
    network = on_paper(lambda: ResNet(stem="small" if size == 32 else "large"))
    assert parameters(network.blocks[6:]) == 8_393_728
    side = SIZES[size]
    total = macs(network, 1, 3, size, size)
    stage = macs(network.blocks[6:], 1, 256, side[2], side[2])
    block = macs(network.blocks[7], 1, 512, side[3], side[3])
    assert stage / total == pytest.approx(share, abs=0.001)
    assert block / total == pytest.approx(last, abs=0.001)


@pytest.mark.parametrize("depth", BLOCKS)
def test_every_depth_gives_features_of_its_last_width(depth):
    network = on_paper(lambda: ResNet(depth=depth, width=6, channels=1))
    assert len(network.blocks) == sum(BLOCKS[depth])
    # a basic block has two convolutions; with the stem and a classifier that is the depth
    assert 2 * len(network.blocks) + 2 == depth
    out = network(torch.empty(3, 1, 16, 16, device="meta"))
    assert out.shape == (3, 6 * 2 ** (len(BLOCKS[depth]) - 1))


@pytest.mark.parametrize("wrong", [{"depth": 19}, {"width": 0}])
def test_networks_that_do_not_exist_are_refused(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(InvalidSetting, match=f"{name} = {value}"):
        ResNet(**wrong)


# ---- the projection: the published presets

PRESETS = [(2048, 1024, 7_877_632, 7.9), (4096, 2048, 28_338_176, 28.3)]
PRESETS += [(2048, 4096, 15_745_024, 15.7), (8192, 4096, 107_008_000, 107)]
PRESETS += [(1024, 512, 2_365_952, 2.4)]


@pytest.mark.parametrize(("hidden", "d", "count", "million"), PRESETS)
def test_projection_presets_have_the_published_parameters_and_cost(hidden, d, count, million):
    p = on_paper(lambda: Projection(512, d, hidden))
    assert parameters(p) == count
    assert macs(p, 1, 512) / 1e6 == pytest.approx(million, abs=0.05)
    assert p(torch.empty(3, 512, device="meta")).shape == (3, d)


def test_projection_is_a_linear_map_plus_a_three_layer_network():
    p = build(lambda: Projection(5, 4, 6), generator())
    x = random(3, 5)
    first, norm1, _, second, norm2, _, third = p.mlp
    y = F.leaky_relu(F.layer_norm(F.linear(x, first.weight, first.bias), (6,), eps=1e-6), 0.1)
    y = F.leaky_relu(F.layer_norm(F.linear(y, second.weight, second.bias), (6,), eps=1e-6), 0.1)
    expected = x @ p.linear.weight.T + F.linear(y, third.weight, third.bias)
    assert p.linear.bias is None and norm1.eps == norm2.eps == 1e-6
    close(p(x), expected)


def test_projection_without_hidden_units_is_the_linear_map_alone():
    p = build(lambda: Projection(5, 4, 0), generator())
    assert parameters(p) == 20
    x = random(3, 5)
    close(p(x), x @ p.linear.weight.T)


# ---- the basic block


@pytest.mark.parametrize(("channels", "out", "stride"), [(4, 4, 1), (4, 8, 1), (4, 8, 2)])
@pytest.mark.parametrize("size", [1, 7, 8])
def test_a_block_equals_one_with_a_strided_shortcut_convolution(channels, out, stride, size):
    block = build(lambda: BasicBlock(channels, out, stride), generator())
    twin = build(lambda: BasicBlock(channels, out, stride), generator())
    x = random(3, channels, size, size).requires_grad_()
    x_twin = x.detach().clone().requires_grad_()

    def normed(norm, y):
        return F.batch_norm(y, None, None, norm.weight, norm.bias, training=True)

    y = F.conv2d(x_twin, twin.conv1.weight, stride=stride, padding=1)
    y = F.conv2d(F.relu(normed(twin.norm1, y)), twin.conv2.weight, padding=1)
    shortcut = x_twin
    if len(twin.shortcut):
        convolution, norm = twin.shortcut
        shortcut = normed(norm, F.conv2d(x_twin, convolution.weight, stride=stride))
    expected = F.relu(normed(twin.norm2, y) + shortcut)
    result = block(x)
    close(result, expected, atol=1e-5, rtol=1e-5)

    slope = random(*expected.shape, seed=1)
    result.backward(slope)
    expected.backward(slope)
    close(x.grad, x_twin.grad, atol=1e-4, rtol=1e-4)
    for (name, p), q in zip(block.named_parameters(), twin.parameters(), strict=True):
        close(p.grad, q.grad, atol=1e-4, rtol=1e-4, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_small_batch_in_channels_last_can_be_trained(batch):
    network = small(width=8).to(memory_format=torch.channels_last)
    x = random(batch, 3, 16, 16).to(memory_format=torch.channels_last)
    train_forward(network, x).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in network.parameters())


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


# ---- a head that grows


def head(rows, size=6, seed=0):
    return build(lambda: GrowingLinear(size, rows=rows), generator(seed))


def train(part, optimizer, classes, steps, seed):
    """Take steps of cross-entropy over the first `classes` rows on random samples."""
    for step in range(steps):
        x = random(8, part.weight.shape[1], seed=1000 * seed + step)
        y = torch.randint(classes, (8,), generator=generator(1000 * seed + step))
        optimizer.zero_grad()
        F.cross_entropy(part(x)[:, :classes], y).backward()
        optimizer.step()


def test_a_head_is_a_linear_map_with_bias():
    part = head(5)
    x = random(3, 6)
    close(part(x), x @ part.weight.T + part.bias)


def test_rows_not_in_use_keep_their_first_values():
    part = head(8)
    optimizer = adam(part.parameters(), 0.01)
    before = part.weight.detach().clone(), part.bias.detach().clone()
    train(part, optimizer, classes=3, steps=5, seed=0)
    assert torch.equal(part.weight[3:], before[0][3:]) and torch.equal(part.bias[3:], before[1][3:])
    assert not torch.equal(part.weight[:3], before[0][:3])


@pytest.mark.parametrize(("n", "rows"), [(3, 4), (4, 4), (5, 8), (8, 8), (9, 9), (30, 30)])
def test_growing_makes_at_least_double_room_and_only_when_needed(n, rows):
    part = head(4)
    part.grow(n, adam(part.parameters(), 0.01), generator())
    assert part.weight.shape == (rows, 6) and part.bias.shape == (rows,)


def test_growing_without_need_changes_and_draws_nothing():
    part, g = head(4), generator()
    optimizer = adam(part.parameters(), 0.01)
    train(part, optimizer, classes=4, steps=1, seed=0)
    before, state = part.weight.detach().clone(), g.get_state()
    part.grow(4, optimizer, g)
    assert torch.equal(part.weight, before) and torch.equal(g.get_state(), state)
    assert part.weight.grad is not None


def test_growing_leaves_old_rows_and_moments_and_starts_new_ones_afresh():
    part = head(4)
    optimizer = adam(part.parameters(), 0.01)
    train(part, optimizer, classes=4, steps=3, seed=0)
    identity = [id(p) for p in part.parameters()]
    values = [p.detach().clone() for p in part.parameters()]
    moments = [{k: v.clone() for k, v in optimizer.state[p].items()} for p in part.parameters()]
    part.grow(6, optimizer, generator(7))
    assert [id(p) for p in part.parameters()] == identity
    assert [id(p) for p in optimizer.param_groups[0]["params"]] == identity
    for p, value, moment in zip(part.parameters(), values, moments, strict=True):
        assert torch.equal(p[:4], value)
        assert p[4:].abs().max() <= 1 / math.sqrt(6) and p[4:].std() > 0
        assert set(optimizer.state[p]) == set(moment) == {"step", "exp_avg", "exp_avg_sq"}
        assert torch.equal(optimizer.state[p]["step"], moment["step"])
        for name in ("exp_avg", "exp_avg_sq"):
            assert optimizer.state[p][name].shape == p.shape
            assert torch.equal(optimizer.state[p][name][:4], moment[name])
            assert not optimizer.state[p][name][4:].any()
        assert p.grad is None or p.grad.shape == p.shape  # an old gradient would not fit
    optimizer.step()


def test_new_rows_share_the_step_counter_so_that_their_updates_are_large_for_a_while():
    """As the pages say: 3.2 times the learning rate at first, 6.5 at most, 3.2 after a hundred."""
    part = head(4)
    optimizer = adam(part.parameters(), 0.01)
    train(part, optimizer, classes=4, steps=1, seed=0)
    for p in part.parameters():
        optimizer.state[p]["step"].fill_(100_000)
    part.grow(8, optimizer, generator(1))
    steps = []
    for _ in range(100):
        before = part.bias.detach().clone()
        for p in part.parameters():
            p.grad = torch.ones_like(p)
        optimizer.step()
        steps.append(float(before[-1] - part.bias[-1].detach()) / 0.01)
    close(torch.tensor(steps[0]), torch.tensor(3.16), atol=0.01, rtol=0)
    close(torch.tensor(max(steps)), torch.tensor(6.57), atol=0.01, rtol=0)
    assert 8 <= steps.index(max(steps)) <= 16  # counted from 0
    close(torch.tensor(steps[-1]), torch.tensor(3.24), atol=0.01, rtol=0)


def test_new_rows_depend_on_the_generator_alone():
    def grown(seed):
        part = head(4)
        part.grow(5, adam(part.parameters(), 0.01), generator(seed))
        return part.weight.detach()

    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert torch.equal(grown(1), grown(1))
    assert not torch.equal(grown(1)[4:], grown(2)[4:])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_head_that_grew_learns_exactly_like_one_that_was_large_from_the_start():
    growing, large = head(2), head(8)
    with torch.no_grad():  # the rows that `growing` will draw
        draws = head(2)
        draws.grow(4, adam(draws.parameters(), 0.01), generator(1))
        draws.grow(8, adam(draws.parameters(), 0.01), generator(2))
        large.weight.copy_(draws.weight)
        large.bias.copy_(draws.bias)
    optimizers = [adam(part.parameters(), 0.01) for part in (growing, large)]
    for n, seed in ((2, 0), (4, 1), (8, 2)):
        growing.grow(n, optimizers[0], generator(seed))
        for step in range(4):
            slope = random(n, 6, seed=10 * seed + step), random(n, seed=step)
            for part, optimizer in zip((growing, large), optimizers, strict=True):
                rows = len(part.weight)
                part.weight.grad = F.pad(slope[0], (0, 0, 0, rows - n))
                part.bias.grad = F.pad(slope[1], (0, rows - n))
                optimizer.step()
        assert torch.equal(growing.weight[:n], large.weight[:n])
        assert torch.equal(growing.bias[:n], large.bias[:n])


def test_cross_entropy_over_seen_classes_trains_a_grown_and_a_large_head_alike():
    growing, large = head(3), head(6)
    with torch.no_grad():
        draws = head(3)
        draws.grow(6, adam(draws.parameters(), 0.01), generator(1))
        large.weight.copy_(draws.weight)
        large.bias.copy_(draws.bias)
    for part in (growing, large):
        optimizer = adam(part.parameters(), 0.01)
        train(part, optimizer, classes=3, steps=5, seed=0)
        part.grow(6, optimizer, generator(1))
        train(part, optimizer, classes=5, steps=5, seed=1)
    close(growing.weight, large.weight, atol=1e-6, rtol=1e-6)
    close(growing.bias, large.bias, atol=1e-6, rtol=1e-6)


def test_a_grown_head_and_its_optimiser_load_into_a_fresh_smaller_one():
    old = head(2)
    optimizer = adam(old.parameters(), 0.01)
    train(old, optimizer, classes=2, steps=2, seed=0)
    old.grow(5, optimizer, generator(1))
    train(old, optimizer, classes=5, steps=2, seed=1)

    new = head(2, seed=9)
    fresh = adam(new.parameters(), 0.01)
    new.load_state_dict({k: v.clone() for k, v in old.state_dict().items()})
    fresh.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for part, one in ((old, optimizer), (new, fresh)):
        train(part, one, classes=5, steps=3, seed=2)
        part.grow(11, one, generator(3))
        train(part, one, classes=11, steps=3, seed=3)
    assert torch.equal(old.weight, new.weight) and torch.equal(old.bias, new.bias)


def test_a_classifier_with_a_grown_head_loads_into_a_fresh_one():
    def classifier(seed):
        return Classifier(small(seed), 32, generator(seed)).eval()

    old, new = classifier(0), classifier(1)
    rows = len(old.head.weight) + 1
    old.head.grow(rows, adam(old.parameters(), 0.01), generator())
    new.load_state_dict(old.state_dict())
    x = random(2, 3, 8, 8)
    assert new(x).shape[0] == 2 and new(x).shape[1] >= rows
    assert torch.equal(new(x), old(x))


def test_a_head_for_other_features_does_not_load():
    with pytest.raises(RuntimeError, match="size mismatch"):
        head(2, size=6).load_state_dict(head(2, size=7).state_dict())


# ---- modes


def flags(module):
    return {name: part.training for name, part in module.named_modules()}


def mixed():
    network = small()
    network.blocks[0].eval()
    network.blocks[1].norm1.eval()
    return network


def test_evaluating_restores_the_mode_of_every_part():
    network = mixed()
    before = flags(network)
    with evaluating(network):
        assert not any(flags(network).values())
        with evaluating(network):
            pass
        assert not any(flags(network).values())
    assert flags(network) == before and len(set(before.values())) == 2


def test_evaluating_restores_modes_after_an_error():
    network = mixed()
    before = flags(network)
    with pytest.raises(ZeroDivisionError), evaluating(network):
        raise ZeroDivisionError
    assert flags(network) == before


def test_evaluating_restores_modes_even_if_they_were_changed_meanwhile():
    network = mixed()
    before = flags(network)
    with evaluating(network):
        network.train()
    assert flags(network) == before


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


# ---- train_forward


def test_one_image_alone_can_be_trained_on_even_when_its_last_map_is_one_pixel():
    network = small(depth=10)
    out = train_forward(network, random(1, 3, 8, 8))  # 8 / 2 / 2 / 2 = 1 pixel
    assert out.shape == (1, 32) and out.isfinite().all()
    out.sum().backward()
    assert all(p.grad.isfinite().all() for p in network.parameters())
    assert all(b.isfinite().all() for b in network.buffers())


def test_one_image_alone_has_the_features_of_the_same_image_twice():
    network, twin = small(), small()
    x = random(1, 3, 16, 16)
    close(train_forward(network, x)[0], twin.train()(x.expand(2, -1, -1, -1))[1])


def test_a_batch_runs_through_the_network_in_training_mode():
    network, twin = small().eval(), small()
    x = random(5, 3, 8, 8)
    close(train_forward(network, x), twin.train()(x))
    assert all(flags(network).values())
    assert all(int(m.num_batches_tracked) == 1 for m in network.modules() if hasattr(m, "momentum"))
