"""Small networks for tests, and what can be counted of any."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from earl.nn.build import build
from earl.nn.resnet import ResNet
from seeds import generator

THREE_STAGES = {"depth": 8, "width": 4}
ONE_BLOCK = {"depth": 4, "width": 16}  # 16 features; what is asked of any network needs no more
DIVIDED = {"depth": 6, "width": 8}  # as many, for methods that divide a network between blocks


def random(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed))


def small(seed=0, depth=10, width=4):
    return build(lambda: ResNet(depth=depth, width=width), generator(seed))


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


def flags(module):
    return {name: part.training for name, part in module.named_modules()}


def mixed():
    network = small()
    network.blocks[0].eval()
    network.blocks[1].norm1.eval()
    return network
