"""How a network runs for a while: in training mode, in evaluation mode, or with parts replaced."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from earl.nn.freezing import begin_training
from earl.nn.steps import remember


def train_forward(network: nn.Module, x: Tensor) -> Tensor:
    """Run the network in training mode; an image that comes alone is doubled for batch norm.

    What is frozen stays in evaluation mode. What the pass moves is remembered until the next step.
    """
    begin_training(network)
    remember(network)
    if len(x) > 1:
        out: Tensor = network(x)
        return out
    single: Tensor = network(x.repeat(2, 1, 1, 1))[:1]
    return single


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Have a module in evaluation mode; afterwards every part is in the mode it was in before."""
    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


@contextmanager
def replaced(forwards: Iterable[tuple[nn.Module, Callable[[Tensor], Tensor]]]) -> Iterator[None]:
    """Have modules calculate with other functions than their own `forward`."""
    forwards = list(forwards)
    for module, function in forwards:
        module.forward = function
    try:
        yield
    finally:
        for module, _ in forwards:
            del module.forward  # the one of its class is found again


@contextmanager
def frozen_norm_stats(module: nn.Module) -> Iterator[None]:
    """Have batch norm train on its batch as always, but keep its running statistics."""
    norms = nn.modules.batchnorm._NormBase
    parts = [part for part in module.modules() if isinstance(part, norms)]
    before = [part.track_running_stats for part in parts]
    for part in parts:
        part.track_running_stats = False
    try:
        yield
    finally:
        for part, tracking in zip(parts, before, strict=True):
            part.track_running_stats = tracking
