"""Optimisers that are torch's own, made, saved and loaded without its compiler."""

import copy
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from earl.nn.build import allocate
from earl.nn.optimizers import PlainAdam, PlainRMSprop
from earl.storage.state import digest

PAIRS = {"adam": (PlainAdam, torch.optim.Adam), "rmsprop": (PlainRMSprop, torch.optim.RMSprop)}


@pytest.mark.parametrize("name", PAIRS)
def test_it_does_what_torch_s_own_does_bit_for_bit(name: str) -> None:
    states = []
    for kind in PAIRS[name]:
        w = nn.Parameter(torch.arange(4.0))
        optimizer: Optimizer = kind([w], lr=0.1)
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))], "lr": 0.2})
        for _ in range(3):
            w.grad = w.detach().sin()
            optimizer.step()
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        states.append(digest([w, optimizer.state_dict()]))
    assert states[0] == states[1]


MAKE = """
import sys
import torch
from earl.experiments.experiment import Experiment
from earl.experiments.prepare import rehearse
from earl.learning import adam
from earl.nn import build, resnet_for
from earl.nn.optimizers import PlainRMSprop
network = build(lambda: resnet_for((3, 8, 8), depth=8, width=4), torch.Generator())
for optimizer in (adam(network.parameters(), 1e-3), PlainRMSprop(network.parameters(), 1e-3)):
    network(torch.ones(2, 3, 8, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
experiment = Experiment(method="earl", dataset="shapes", stream="disjoint", settings={"limit": 12})
rehearse(experiment)
run = experiment.build()
for x, y in run.stream:
    run.learner.observe(x, y)
assert run.learner.work.flops
print(sorted({"torch._dynamo", "sympy"} & set(sys.modules)))
"""


def test_making_loading_and_learning_import_no_compiler() -> None:
    """Which takes as long as torch, in every process that learns."""
    done = subprocess.run([sys.executable, "-c", MAKE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_allocated_has_shapes_strides_flags_and_what_is_shared() -> None:
    with torch.device("meta"):
        module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(4, 4, bias=False))
        module.append(nn.Linear(4, 4, bias=False))
        module[3].weight = module[2].weight
        module[0].weight.requires_grad_(False)
        module.to(memory_format=torch.channels_last)
    other = copy.deepcopy(module).to_empty(device="cpu")
    allocate(module)
    for (name, a), (_, b) in zip(
        module.state_dict(keep_vars=True).items(),
        other.state_dict(keep_vars=True).items(),
        strict=True,
    ):
        assert not a.is_meta and type(a) is type(b), name
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype), name
        assert a.requires_grad == b.requires_grad, name
    assert module[3].weight is module[2].weight
