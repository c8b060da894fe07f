"""What learning costs: passes through networks are counted as they happen, and their FLOPs."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from earl.learning.progress import Progress
from earl.nn.optimizers import plain

COUNTED_ON = 2  # inputs; batch norm wants more than one


@dataclass(frozen=True)
class Pass:
    """One kind of pass that updates are made of: a module, the shape of an input, backward or not.

    Two passes of a name with different keys cost differently, as when the module has grown.
    """

    module: nn.Module
    shape: tuple[int, ...]
    trains: bool = True
    key: Hashable = None


class Work:
    """Counts what learning has cost: updates, passes by name, and their floating-point operations.

    `images` are those that were trained on, by a forward and a backward pass; `forwards` were only
    looked at, to choose or to compare. A method may have passes of other names. An update whose
    steps were undone is an update, too; `progress` counts those steps.
    """

    def __init__(self, passes: Callable[[], Mapping[str, Pass]]) -> None:
        self._passes = passes
        self._more: dict[str, Callable[[], Pass]] = {}
        self._flops_per_input: dict[str, tuple[Hashable, int]] = {}
        self._before = 0  # FLOPs up to the last update, or to the present one
        self.updates = 0
        self.flops = 0
        self.last = 0  # FLOPs of the last update
        self.counts = {"images": 0, "forwards": 0}
        self.progress = Progress()

    @property
    def images(self) -> int:
        return self.counts["images"]

    @property
    def forwards(self) -> int:
        return self.counts["forwards"]

    @property
    def pending(self) -> int:
        """FLOPs since the last update, or since the present one has begun."""
        return self.flops - self._before

    def begin_update(self) -> None:
        """Let what was counted since the last update be no part of this one; samples cost it."""
        self._before = self.flops

    def add(self, **passes: int) -> None:
        """Count one update, and the passes that it has taken."""
        self.count(**passes)
        self.updates += 1
        self.progress.end_update()
        self.last, self._before = self.pending, self.flops

    def count(self, **passes: int) -> None:
        """Count passes that have been made."""
        for name, n in passes.items():
            self.counts[name] = self.counts.get(name, 0) + n
            self.flops += n * self.flops_per_input(name)

    def also(self, name: str, one: Callable[[], Pass]) -> None:
        """Let there be another pass, of somebody who stands before the method."""
        self._more[name] = one

    def flops_per_input(self, name: str) -> int:
        """Return the FLOPs of one pass for one input, measured the first time it is asked for."""
        if name in self._more and name in self._flops_per_input:  # it never changes
            return self._flops_per_input[name][1]
        one = self._more[name]() if name in self._more else self._passes()[name]
        if name not in self._flops_per_input or self._flops_per_input[name][0] != one.key:
            self._flops_per_input[name] = (one.key, flops(one))
        return self._flops_per_input[name][1]

    def costs(self) -> dict[str, float]:
        own = {"flops": self.flops, "skipped_steps": self.progress.skipped_steps}
        return {"updates": self.updates, **self.counts, **own}

    def state_dict(self) -> dict[str, Any]:
        own = {"last": self.last, "before": self._before}
        return {**self.costs(), **self.progress.state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        counts = {"skipped_steps": 0, "in_a_row": 0, **state}  # which earlier versions lack
        self.progress.load_state_dict({n: counts.pop(n) for n in ("skipped_steps", "in_a_row")})
        self.updates, self.flops = counts.pop("updates"), counts.pop("flops")
        self.last, self._before = counts.pop("last"), counts.pop("before")
        self.counts = counts


def flops(one: Pass) -> int:
    """Return the floating-point operations of a pass for one input, by torch's own counter.

    The pass runs on blank inputs and on copies of the parameters, so that nothing changes.
    """
    tensors = {
        name: p.detach().clone().requires_grad_(p.requires_grad)
        for name, p in one.module.named_parameters()
    }
    tensors |= {name: buffer.clone() for name, buffer in one.module.named_buffers()}
    at = next(iter(tensors.values()), torch.empty(0)).device
    x = torch.zeros(COUNTED_ON, *one.shape, device=at)
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(one.trains):
        watching: Any = type(counter.mode)
        watching.__torch_dispatch__ = plain(watching.__torch_dispatch__)
        out = functional_call(one.module, tensors, (x,))
        if out.requires_grad:  # of a frozen network only the forward pass is left
            out.sum().backward()
    return int(counter.get_total_flops()) // COUNTED_ON
