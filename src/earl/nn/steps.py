"""Steps of an optimiser that leave nothing behind if their loss or gradient is not finite."""

import math
import threading

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from earl.nn.freezing import all_parts

LARGEST = 1e19  # length of a gradient whose square, a second moment, still is a float32

Taken = bool | Tensor
"""Whether a step was taken; on devices that nobody waits for, a tensor that says so there."""


class Passes(threading.local):
    """Buffers of the networks that this thread has trained with since its last step, and copies."""

    def __init__(self) -> None:
        self.before: dict[nn.Module, list[tuple[list[Tensor], Tensor]]] = {}


_passes = Passes()


def remember(network: nn.Module) -> None:
    """Keep what a pass in training mode may move: the buffers of all parts that are in it.

    Of several passes before one step the first counts. Buffers of one kind are copied at once.
    """
    if network in _passes.before:
        return
    kinds: dict[object, list[Tensor]] = {}
    for part in all_parts(network):
        if part._buffers and part.training:
            for buffer in part._buffers.values():
                if buffer is not None:
                    kind = buffer.device, buffer.dtype, buffer.shape
                    kinds.setdefault(kind, []).append(buffer)
    _passes.before[network] = [(same, torch.stack(same)) for same in kinds.values()]


def forget_passes() -> None:
    """Let all passes stand that no step has followed."""
    _passes.before.clear()


def differentiate(loss: Tensor, optimizer: Optimizer) -> None:
    """Give the weights of an optimiser the gradients of a loss.

    Of several ranks all must decide alike whether to take a step. So a loss that is not finite, if
    only here, spoils the gradients, which are those of all ranks.
    """
    optimizer.zero_grad()
    if dist.is_available() and dist.is_initialized():
        loss = telling(loss)
    loss.backward()


def telling(loss: Tensor) -> Tensor:
    """Return the same loss, bit for bit, with gradients that are nan if it is not finite."""
    return loss * (1 + 0 * loss.detach())


def take_step(loss: Tensor, optimizer: Optimizer) -> Taken:
    """Take a step along the gradients of a loss, unless one of them is not finite.

    Then weights, moments and buffers are as before, bit for bit. On a CPU the numbers are there and
    can be looked at. On other devices that would mean to wait: there the device decides.
    """
    sound = is_sound(loss, optimizer)
    if isinstance(sound, Tensor):
        _step_where(sound, optimizer)
        _put_back(unless=sound)
    elif sound:
        optimizer.step()
    else:
        optimizer.zero_grad()
        _put_back()
    forget_passes()
    return sound


def is_sound(loss: Tensor, optimizer: Optimizer) -> Taken:
    """Tell whether a loss is finite, and the gradients of an optimiser and their squares are."""
    grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
    norm = get_total_norm([grad for grad in grads if grad is not None])
    if is_here(loss):
        return math.isfinite(loss.item()) and norm.item() < LARGEST
    return loss.detach().isfinite() & (norm < LARGEST)


def is_here(loss: Tensor) -> bool:
    """Tell whether a number can be looked at without waiting for a device."""
    return loss.is_cpu


def _put_back(unless: Taken = False) -> None:
    """Give buffers the values they had before the passes of this step."""
    with torch.no_grad():
        for kinds in _passes.before.values():
            for buffers, before in kinds:
                for now, then in zip(buffers, before, strict=True):
                    now.copy_(chosen(unless, now, then))


def _step_where(sound: Tensor, optimizer: Optimizer) -> None:
    """Take a step if `sound`, which nobody but the device knows.

    Optimisers that know `found_inf`, as torch's GradScaler tells it, leave all as it is. Those that
    do not take the step, and get back what they had.
    """
    if getattr(optimizer, "_step_supports_amp_scaling", False):
        optimizer.found_inf = 1 - sound.float()  # type: ignore[attr-defined]
        optimizer.step()
        del optimizer.found_inf  # type: ignore[attr-defined]
        return
    had = {id(t): t.detach().clone() for t in _tensors_of(optimizer)}
    optimizer.step()
    with torch.no_grad():
        for t in _tensors_of(optimizer):  # moments that a first step has made were zero before it
            if t.device == sound.device:  # else it is a count on the host, which goes on
                t.copy_(chosen(sound, t, had.get(id(t), torch.zeros_like(t))))


def _tensors_of(optimizer: Optimizer) -> list[Tensor]:
    """Return the weights and the moments of an optimiser."""
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    moments = [value for state in optimizer.state.values() for value in state.values()]
    return weights + [value for value in moments if isinstance(value, Tensor)]


def chosen(taken: Taken, new: Tensor, old: Tensor) -> Tensor:
    """Return new numbers if a step was taken, else old ones."""
    if isinstance(taken, Tensor):
        return torch.where(taken, new, old)
    return new if taken else old
