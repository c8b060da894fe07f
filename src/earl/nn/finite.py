"""Finite numbers: learning that has led to inf or nan is an error, never an answer."""

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from earl.errors import NotFinite

NORMS = nn.modules.batchnorm._NormBase
ADVICE = "learning has diverged, choose a smaller lr"


def most_likely(scores: Tensor) -> Tensor:
    """Return the first column with the highest score of each row, (B,); NotFinite if it is none."""
    top = scores.amax(dim=1)
    if not all_finite(top):
        worst = next(value for value in top.tolist() if not math.isfinite(value))
        raise NotFinite(f"the learner's scores are {worst}, so it cannot answer; {ADVICE}")
    return scores.argmax(dim=1)


def check_finite(parts: Mapping[str, object]) -> None:
    """Raise NotFinite if weights, running statistics or moments of a learner's parts are not."""
    found = {name: list(numbers_of(part)) for name, part in parts.items()}
    if all_finite(*(tensor for tensors in found.values() for tensor in tensors)):
        return
    wrong = [name for name, tensors in found.items() if not all_finite(*tensors)]
    raise NotFinite(f"numbers of {', '.join(wrong)} are inf or nan; {ADVICE}")


def numbers_of(part: object) -> Iterator[Tensor]:
    """Yield the numbers that learning changes in a module or an optimiser; others do not matter."""
    if isinstance(part, nn.Module):
        yield from (p.detach() for p in part.parameters())
        norms = (module for module in part.modules() if isinstance(module, NORMS))
        yield from (buffer for norm in norms for buffer in norm.buffers())
    elif isinstance(part, Optimizer):
        for moments in part.state.values():
            yield from (value for value in moments.values() if isinstance(value, Tensor))


def all_finite(*tensors: Tensor) -> bool:
    """Tell whether all numbers are finite. Their sum is looked at first, which is fast."""
    numbers = [tensor for tensor in tensors if tensor.is_floating_point()]
    sums: dict[torch.device, list[Tensor]] = {}
    for tensor in numbers:
        sums.setdefault(tensor.device, []).append(tensor.sum(dtype=torch.float32))
    if all(math.isfinite(float(torch.stack(there).sum())) for there in sums.values()):
        return True
    # The sum may have overflowed although every number is finite.
    return all(bool(tensor.isfinite().all()) for tensor in numbers)
