"""Numbers that are numbers: what a learner cannot go on from, or must not answer, is told."""

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from earl.errors import NotFinite

NORMS = nn.modules.batchnorm._NormBase
ADVICE = "learning has diverged, choose a smaller lr"


def differentiate(loss: Tensor, optimizer: Optimizer) -> None:
    """Give the weights of an optimiser the gradients of a loss; NotFinite if it is inf or nan.

    Only a CPU knows the loss at once. Elsewhere nobody waits for it: if it is not finite, all
    gradients become nan, the weights with them, and the next look at the learner tells.
    """
    if not loss.is_cpu:
        loss = telling(loss)
    elif not math.isfinite(value := loss.item()):
        raise NotFinite(f"the loss is {value}; {ADVICE}")
    optimizer.zero_grad()
    loss.backward()


def telling(loss: Tensor) -> Tensor:
    """Return the same loss, bit for bit, with gradients that are nan if it is not finite."""
    return loss * (1 + 0 * loss.detach())


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
    """Yield what learning moves in a module or an optimiser; all else may hold what it likes."""
    if isinstance(part, nn.Module):
        yield from (p.detach() for p in part.parameters())
        norms = (module for module in part.modules() if isinstance(module, NORMS))
        yield from (buffer for norm in norms for buffer in norm.buffers())
    elif isinstance(part, Optimizer):
        for moments in part.state.values():
            yield from (value for value in moments.values() if isinstance(value, Tensor))


def all_finite(*tensors: Tensor) -> bool:
    """Tell whether all numbers are finite; a sum shows it fast, unless it overflows itself."""
    numbers = [tensor for tensor in tensors if tensor.is_floating_point()]
    sums: dict[torch.device, list[Tensor]] = {}
    for tensor in numbers:
        sums.setdefault(tensor.device, []).append(tensor.sum(dtype=torch.float32))
    if all(math.isfinite(float(torch.stack(there).sum())) for there in sums.values()):
        return True
    return all(bool(tensor.isfinite().all()) for tensor in numbers)
