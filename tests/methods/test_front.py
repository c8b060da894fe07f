"""A split ResNet: the same answers as the whole, a front that never moves again, fair bytes."""

import copy

import pytest
import torch
from torch import nn

from earl.errors import InvalidSetting
from earl.learning.memory import Memory
from earl.learning.policies import greedy_balanced
from earl.learning.setting import Setting
from earl.learning.work import Work
from earl.methods.frozen.front import PER_CODEWORD, Encoder, SplitResNet, length_of_base
from earl.methods.frozen.quantizer import LLOYD, ProductQuantizer, vectors_of
from earl.nn.augment import View
from earl.nn.build import build
from earl.nn.modes import train_forward
from earl.nn.resnet import ResNet
from seeds import generator as seeded


def resnet(**given: object) -> ResNet:
    return build(lambda: ResNet(**given), seeded())  # type: ignore[arg-type]


def split_resnet(blocks: int = -1, codebooks: int = 2, codewords: int = 8) -> SplitResNet:
    network = SplitResNet(resnet(depth=8, width=2), blocks, (3, 8, 8))
    network.quantizer = ProductQuantizer(network.map_shape[0], codebooks, codewords)
    return network


def setting(side: int = 8, **given: object) -> Setting:
    """Its augmentation is unlike its view: what is fitted or stored must be seen as it is."""
    view = View((0.5,) * 3, (0.3,) * 3)
    return Setting(
        image_shape=(3, side, side),
        view=view,
        augment=lambda x, g: view(x).roll(int(torch.randint(1, 8, (), generator=g)), 3).neg(),
        **given,  # type: ignore[arg-type]
    )


def stored(n: int) -> Memory:
    memory = Memory(n, greedy_balanced)
    x = torch.randint(256, (n, 3, 8, 8), dtype=torch.uint8, generator=seeded(1))
    memory.add(seeded(), x=x, y=torch.arange(n) % 3)
    return memory


def encoder(network: SplitResNet, work: Work | None = None, **given: object) -> Encoder:
    return Encoder(network, setting(**given), work or no_work())  # type: ignore[arg-type]


def no_work() -> Work:
    return Work(lambda: encoder(split_resnet()).passes(nn.Identity(), nn.Identity()))


@pytest.mark.parametrize(
    ("depth", "blocks", "front"), [(8, -1, 2), (10, -1, 3), (14, -1, 4), (18, -1, 6), (18, 7, 7)]
)
def test_the_parts_of_a_network_answer_as_the_whole(depth: int, blocks: int, front: int) -> None:
    backbone = resnet(depth=depth, width=2)
    x = torch.rand(3, 3, 16, 16, generator=seeded(1))
    expected = copy.deepcopy(backbone).eval()(x)
    network = SplitResNet(backbone, blocks, (3, 16, 16))
    assert len(network.front[1]) == front
    torch.testing.assert_close(network.eval()(x), expected)
    assert network.front(x).shape[1:] == network.map_shape


def test_a_frozen_front_stays_in_evaluation_mode_and_gets_no_gradients() -> None:
    network = split_resnet()
    x = torch.rand(4, 3, 8, 8, generator=seeded(1))
    train_forward(network, x).sum().backward()
    assert all(p.grad is not None for p in network.parameters())
    network.freeze()
    assert all(p.grad is None for p in network.parameters())
    before = {name: value.clone() for name, value in network.front.state_dict().items()}
    assert not any(part.training for part in network.front.modules())  # at once
    train_forward(network, x).sum().backward()
    assert all(p.grad is None and not p.requires_grad for p in network.front.parameters())
    assert all(p.grad is not None for p in network.rest.parameters())
    assert network.rest.training and not any(part.training for part in network.front.modules())
    for name, value in network.front.state_dict().items():
        assert torch.equal(value, before[name]), name
    network.freeze(False)
    train_forward(network, x)
    assert network.front.training and all(p.requires_grad for p in network.parameters())


def test_what_was_frozen_before_is_not_thawed() -> None:
    backbone = resnet(depth=8, width=2)
    backbone.stem.requires_grad_(False)
    network = SplitResNet(backbone, -1, (3, 8, 8))
    for frozen in (False, True, False):
        network.freeze(frozen)
        assert not any(p.requires_grad for p in backbone.stem.parameters())
        assert all(p.requires_grad is not frozen for p in backbone.blocks[:2].parameters())
        assert all(p.requires_grad for p in network.rest.parameters())


def test_behind_a_frozen_front_stands_the_quantizer() -> None:
    network = split_resnet().eval()
    x = torch.rand(5, 3, 8, 8, generator=seeded(1))
    assert network.quantizer is not None
    plain = network(x)
    network.quantizer.fit(vectors_of(network.front(x).detach()), seeded())
    assert torch.equal(network(x), plain)  # not frozen yet
    network.freeze()
    assert not torch.allclose(network(x), plain)
    maps = network.quantizer.decode(network.quantizer(network.front(x)))
    torch.testing.assert_close(network(x), network.rest(maps))
    network.quantizer = None
    assert torch.equal(network(x), plain)


# Bytes of M images over those of one code, s²·m (methods of the paper's tables; s, c as noted).
SETS = [
    ("CIFAR-10", 32, 500, -1, (256, 8, 8), 750),
    ("CIFAR-100", 32, 2000, -1, (256, 8, 8), 3000),
    ("TinyImageNet", 64, 4000, -1, (256, 16, 16), 6000),
    ("CLEAR-10", 224, 500, -1, (256, 14, 14), 12000),
    ("ImageNet-1K", 224, 10000, 7, (512, 7, 7), 960000),
]


@pytest.mark.parametrize(("name", "side", "images", "blocks", "shape", "codes"), SETS)
def test_codes_take_the_bytes_of_the_images_they_replace(
    name: str, side: int, images: int, blocks: int, shape: tuple[int, ...], codes: int
) -> None:
    backbone = resnet(depth=18, stem="small" if side <= 64 else "large")
    network = SplitResNet(backbone, blocks, (3, side, side))
    assert network.map_shape == shape
    network.quantizer = ProductQuantizer(shape[0], 32, 256)
    assert encoder(network, side=side, memory_size=images).room_for_codes() == codes
    network.quantizer = ProductQuantizer(shape[0], 32, 257)  # two bytes each
    assert encoder(network, side=side, memory_size=images).room_for_codes() == codes // 2


def test_there_is_room_for_one_code_at_least() -> None:
    network = SplitResNet(resnet(depth=8, width=2), 1, (3, 8, 8))
    network.quantizer = ProductQuantizer(2, 2, 257)  # 64 · 2 · 2 bytes, and an image has 192
    assert encoder(network, memory_size=1).room_for_codes() == 1


def test_the_codebooks_are_fitted_to_the_vectors_of_all_stored_images() -> None:
    network, images, work = (
        split_resnet(),
        stored(70),
        no_work(),
    )  # more than pass the front at once
    network.freeze()
    encoder(network, work).fit_quantizer(images, seeded(5))
    (x,) = images.take(torch.arange(70), "x")
    vectors = vectors_of(network.front(setting().view(x)))
    assert network.quantizer is not None
    assert work.counts["encoded"] == 70 and work.counts["quantized"] == LLOYD * 70
    fitted = network.quantizer.codebooks.clone()
    draw = seeded(5)
    torch.randperm(70 * 16, generator=draw)  # where none is left out
    network.quantizer.fit(vectors, draw)
    torch.testing.assert_close(network.quantizer.codebooks, fitted)


def test_of_many_vectors_a_draw_is_enough() -> None:
    network, images, work = split_resnet(codewords=2), stored(70), no_work()
    network.freeze()
    encoder(network, work).fit_quantizer(images, seeded(5))
    assert work.counts["quantized"] == LLOYD * 2 * PER_CODEWORD / 16 < LLOYD * 70


@pytest.mark.parametrize("quantized", [True, False])
def test_what_is_kept_of_images_does_not_depend_on_their_company(quantized: bool) -> None:
    network, images, work = split_resnet(), stored(70), no_work()
    network.freeze()
    encoder(network, work).fit_quantizer(images, seeded(5))
    network.quantizer = network.quantizer if quantized else None
    x, y = images.take(torch.arange(70), "x", "y")
    alone = torch.cat([network.encode(setting().view(one)) for one in x.split(1)])
    together = encoder(network, work).encode(x)
    parts = list(encoder(network, work).encode_stored(images))
    assert torch.equal(torch.cat([labels for _, labels in parts]), y)
    for kept in (together, torch.cat([kept for kept, _ in parts])):
        assert kept.dtype == (torch.uint8 if quantized else torch.float32)
        assert not kept.requires_grad
        same = (kept == alone) if quantized else torch.isclose(kept, alone, atol=1e-5)
        assert same.float().mean() > 0.99  # a tie may turn with the last bit
    assert work.counts["encoded"] == 3 * 70


@pytest.mark.parametrize("quantized", [True, False])
def test_a_block_is_encoded_once_as_it_is_or_augmented_for_every_look(quantized: bool) -> None:
    network, images, work = split_resnet(), stored(5), no_work()
    network.freeze()
    encoder(network).fit_quantizer(images, seeded(5))
    network.quantizer = network.quantizer if quantized else None
    (x,) = images.take(torch.arange(5), "x")
    plain = network.encode(setting().view(x))
    augmented = [network.encode(setting().augment(x, seeded(i))) for i in range(3)]

    once = encoder(network, work).block(x, augmented=False)
    assert work.counts["encoded"] == 5  # before any update: its cost is the first one's
    assert all(torch.equal(once.look(seeded(i)), plain) for i in range(3))
    assert torch.equal(once.kept(seeded(9)), plain) and work.counts["encoded"] == 5

    anew = encoder(network, work).block(x, augmented=True)
    assert all(torch.equal(anew.look(seeded(i)), augmented[i]) for i in range(3))
    assert not torch.equal(augmented[0], augmented[1])
    assert torch.equal(anew.kept(seeded(9)), augmented[0])  # what the first look has seen
    assert work.counts["encoded"] == 5 + 3 * 5
    assert work.counts.get("quantized", 0) == (20 if quantized else 0)

    never = encoder(network, work).block(x, augmented=True)
    assert torch.equal(never.kept(seeded(2)), augmented[2])
    assert work.counts["encoded"] == 5 + 4 * 5


def test_the_base_phase_is_a_number_of_samples_or_a_share_of_the_stream() -> None:
    assert length_of_base(1, setting()) == 1
    assert length_of_base(250.0, setting(samples=10)) == 250
    assert length_of_base(0.6, setting(samples=50_000)) == 30_000
    assert length_of_base(0.1, setting(samples=3)) == 1
    with pytest.raises(InvalidSetting, match=r"base = 0\.6 is a share.*base = 1000"):
        length_of_base(0.6, setting())
    for base in (0.0, -1.0, 2.5, float("nan"), float("inf")):
        with pytest.raises(InvalidSetting, match="must be a share"):
            length_of_base(base, setting(samples=100))


def test_impossible_divisions_are_refused() -> None:
    for blocks in (0, 3, 8, -2):
        with pytest.raises(InvalidSetting, match=r"from 1 to 2, since the network has 3 blocks"):
            SplitResNet(resnet(depth=8, width=2), blocks, (3, 8, 8))
    with pytest.raises(InvalidSetting, match=r"a ResNet of earl.nn, not Sequential"):
        SplitResNet(nn.Sequential(nn.Flatten(), nn.Linear(192, 8)), 1, (3, 8, 8))
