"""Adam on a CPU without copies: torch's lays out `channels_last` weights anew in each step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam


class Adam(torch.optim.Adam):
    """torch's fused Adam, bit for bit, in half the time for weights that are `channels_last`.

    Such a weight is handed over as what lies in memory one after the other. State, settings and
    what GPUs do are torch's.
    """

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, lr=lr, fused=True)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, without torch's bookkeeping, or fill them with zeros."""
        if not set_to_none:
            return super().zero_grad(set_to_none)
        for group in self.param_groups:
            for weight in group["params"]:
                weight.grad = None

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take a step along the gradients; there must be no closure."""
        assert closure is None
        moving = [[w for w in group["params"] if w.grad is not None] for group in self.param_groups]
        if not all(w.is_cpu and self.state[w] for weights in moving for w in weights):
            super().step()  # which also begins the state
            return
        for group, weights in zip(self.param_groups, moving, strict=True):
            if not weights:
                continue
            states = [self.state[w] for w in weights]
            pairs = zip(weights, states, strict=True)
            ordered = [in_order(w, w.grad, s["exp_avg"], s["exp_avg_sq"]) for w, s in pairs]
            params, grads, exp_avgs, exp_avg_sqs = map(list, zip(*ordered, strict=True))
            beta1, beta2 = group["betas"]
            adam(
                params,
                grads,
                exp_avgs,
                exp_avg_sqs,
                [],
                [state["step"] for state in states],
                fused=True,
                amsgrad=False,
                beta1=beta1,
                beta2=beta2,
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=group["maximize"],
            )


def in_order(weight: Tensor, *beside: Tensor) -> tuple[Tensor, ...]:
    """Return views of tensors (o, c, h, w), or of any shape, in the weight's order in memory."""
    if weight.is_contiguous() or weight.dim() != 4:
        return weight, *beside
    return tuple(t.permute(0, 2, 3, 1) for t in (weight, *beside))
