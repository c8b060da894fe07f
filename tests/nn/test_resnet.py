"""ResNets have the published sizes and costs, and blocks that any batch can train."""

import pytest
import torch
from torch.nn import functional as F

from earl.errors import InvalidSetting
from earl.nn.build import build
from earl.nn.modes import train_forward
from earl.nn.resnet import BLOCKS, BasicBlock, ResNet
from seeds import generator
from small_networks import macs, on_paper, parameters, random, small

close = torch.testing.assert_close


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
        everywhere = F.conv2d(x_twin, convolution.weight)  # its strided form crashes in oneDNN
        shortcut = normed(norm, everywhere[:, :, ::stride, ::stride])
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
