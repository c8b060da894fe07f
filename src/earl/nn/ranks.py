"""Ranks: processes that train one learner together, each on its share of every batch.

Every rank holds the same learner, sees the same samples and draws the same random numbers. Only the
passes of batches through networks are shared: each rank takes its rows, batch norm uses the rows of
all ranks, the outputs are gathered, and PyTorch's DistributedDataParallel averages the gradients.
So a method need not know that there are ranks, and learns the same as in one process.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from earl.errors import EarlError
from earl.nn.modes import replaced, train_forward

TIMEOUT = 60.0  # seconds without a sign of life until a rank is taken for lost
PREPARING = timedelta(hours=12)  # that one rank may prepare data while the others wait
NETWORKS = 8  # that are trained by turns; the least recent one is forgotten
T = TypeVar("T")
Norm = nn.modules.batchnorm._BatchNorm


class Alone:
    """A process that learns by itself: whatever `Ranks` do together, it does without others."""

    rank, size = 0, 1

    @property
    def first(self) -> bool:
        """Whether this is the rank that keeps the run's directory and speaks to the user."""
        return self.rank == 0

    def leave(self) -> None:
        """Part from the others."""

    def one_by_one(self, act: Callable[[], T]) -> T:
        """Do something that leaves files behind first on one rank of each machine, then on all."""
        return act()

    def share(self, value: Any = None) -> Any:
        """Return the first rank's value on every rank."""
        return value

    def total(self, values: Tensor) -> Tensor:
        """Return the sum of all ranks' values."""
        return values

    def largest(self, number: int) -> int:
        """Return the largest of all ranks' numbers."""
        return number

    def check_equal(self, networks: list[nn.Module]) -> None:
        """Raise EarlError unless all ranks hold the same weights."""

    def forward(self, network: nn.Module, x: Tensor) -> Tensor:
        """Run a network in training mode."""
        return train_forward(network, x)


ALONE = Alone()


class Ranks(Alone):
    """The processes of one run, this one among them; made by `torchrun`."""

    def __init__(
        self,
        store: dist.Store,  # type: ignore[name-defined]
        rank: int,
        size: int,
        *,
        local_rank: int,  # among those of this machine
        device: str,
        timeout: float = TIMEOUT,
    ) -> None:
        """Meet the others, all of whom know the same store."""
        # An optimiser would import it, too late: its default arguments hold on to a group.
        import torch.distributed.optim

        backend = "nccl" if device == "cuda" else "gloo"
        if device == "cuda":
            torch.cuda.set_device(local_rank)
        patience = timedelta(seconds=timeout)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=patience)
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self.device = torch.device(device)
        self.group = dist.group.WORLD
        self._patient = dist.new_group(timeout=PREPARING)
        self._wrapped: dict[int, tuple[object, DistributedDataParallel]] = {}

    def leave(self) -> None:
        """Part from the others.

        The groups go with it: their threads, if they live until the process ends, may abort it.
        """
        self._wrapped.clear()
        dist.destroy_process_group()
        del self.group, self._patient

    def one_by_one(self, act: Callable[[], T]) -> T:
        """Do something that leaves files behind first on one rank of each machine, then on all."""
        done = act() if self.local_rank == 0 else None
        dist.barrier(self._patient)
        return act() if done is None else done

    def share(self, value: Any = None) -> Any:
        """Return the first rank's value on every rank."""
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self.group, device=self.device)
        return values[0]

    def total(self, values: Tensor) -> Tensor:
        """Return the sum of all ranks' values."""
        values = values.to(self.device, copy=True)
        dist.all_reduce(values, group=self.group)
        return values.cpu()

    def largest(self, number: int) -> int:
        """Return the largest of all ranks' numbers."""
        value = torch.tensor(number, device=self.device)
        dist.all_reduce(value, dist.ReduceOp.MAX, group=self.group)
        return int(value)

    def check_equal(self, networks: list[nn.Module]) -> None:
        """Raise EarlError unless all ranks hold the same weights."""
        sums = [p.detach().double().sum() for network in networks for p in network.parameters()]
        if not sums:
            return
        own = torch.stack(sums)
        first = own.clone()
        dist.broadcast(first, src=0, group=self.group)
        if int(self.total((own != first).any().long())):
            raise EarlError(
                "the ranks have come to hold different weights, so their machines calculate "
                "differently; use machines of one kind, with one version of PyTorch"
            )

    def forward(self, network: nn.Module, x: Tensor) -> Tensor:
        """Run a network in training mode on this rank's rows of x; return what comes of all rows.

        With less than two rows for each rank, every rank takes all of them.
        """
        shared = self._averaging(network)
        if len(x) < 2 * self.size:
            return train_forward(shared, x)
        shares = x.tensor_split(self.size)
        sizes = [len(share) for share in shares]
        parts = [n / len(x) for n in sizes]
        norms = (part for part in network.modules() if isinstance(part, Norm))
        with replaced((norm, partial(self._normalise, norm, parts)) for norm in norms):
            out = train_forward(shared, shares[self.rank])
        gathered: Tensor = Gather.apply(out, self, sizes)  # type: ignore[no-untyped-call]
        return gathered

    def _averaging(self, network: nn.Module) -> nn.Module:
        """Return the network in a wrapper that averages gradients while they are calculated."""
        shapes = [(p.shape, p.requires_grad) for p in network.parameters()]
        known = self._wrapped.pop(id(network), None)
        if known is None or known[0] != shapes or known[1].module.network is not network:
            del known  # a wrapper has hooks at the parameters as they were: it must go first
            wrapper = DistributedDataParallel(
                Whole(network),
                process_group=self.group,
                find_unused_parameters=True,  # also keeps sums in one order, so that a run that
                init_sync=False,  # goes on gives the same bits
            )
            wrapper.broadcast_buffers = False  # they are equal
            known = shapes, wrapper
        self._wrapped[id(network)] = known
        while len(self._wrapped) > NETWORKS:
            del self._wrapped[next(iter(self._wrapped))]
        return known[1]

    def _normalise(self, norm: Norm, shares: list[float], x: Tensor) -> Tensor:
        """Batch norm over the rows of all ranks, of which this one has x (b, C, ...)."""
        if not norm.training:
            return type(norm).forward(norm, x)
        with torch.no_grad():
            dims = [d for d in range(x.dim()) if d != 1]
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            own = torch.stack(torch.var_mean(wide, dims, correction=0))  # (2, C)
            var, mean = self._gather(own, [2] * self.size).view(self.size, 2, -1).unbind(1)
            weight = torch.tensor(shares, device=x.device, dtype=own.dtype)[:, None]
            centre = (weight * mean).sum(0)
            spread = (weight * (var + (mean - centre).square())).sum(0)
            n = x.numel() // x.shape[1] / shares[self.rank]  # values of a channel on all ranks
            if norm.track_running_stats and norm.running_mean is not None:
                follow(norm, centre, spread * n / (n - 1))
        normalised: Tensor = Normalise.apply(  # type: ignore[no-untyped-call]
            x, norm.weight, norm.bias, centre, spread, norm.eps, n, self
        )
        return normalised

    def _gather(self, own: Tensor, sizes: list[int]) -> Tensor:
        """Return the rows of all ranks, of which each has its size."""
        most = max(sizes)
        room = own.new_zeros(most, *own.shape[1:])
        room[: len(own)] = own
        parts = [torch.empty_like(room) for _ in sizes]
        dist.all_gather(parts, room, group=self.group)
        return torch.cat([part[:n] for part, n in zip(parts, sizes, strict=True)])


class Whole(nn.Module):
    """A network beside a parameter that nothing uses.

    DistributedDataParallel is told to look for such parameters and complains if there are none.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.idle = nn.Parameter(torch.zeros(1, device=next(network.parameters()).device))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.network(x)
        return out


class Gather(torch.autograd.Function):
    """What comes of all rows, on every rank; each of them then calculates the same loss."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, ranks: Ranks, sizes: list[int]) -> Tensor:
        ctx.ranks, ctx.sizes = ranks, sizes
        return ranks._gather(own, sizes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        # A rank has the whole gradient of its own rows, and nothing of others. Gradients of
        # parameters are averaged afterwards where they should be added.
        own = gradient.split(ctx.sizes)[ctx.ranks.rank]
        return own * ctx.ranks.size, None, None


class Normalise(torch.autograd.Function):
    """Batch norm with mean and variance of all ranks' rows, which depend on these rows too."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        var: Tensor,
        eps: float,
        n: float,
        ranks: Ranks,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, var)
        ctx.eps, ctx.n, ctx.ranks = eps, n, ranks
        return F.batch_norm(x, mean, var, weight, bias, training=False, eps=eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, var = ctx.saved_tensors
        shape = [1, -1] + [1] * (x.dim() - 2)
        # With fixed statistics: towards x, and the sums of g x_hat and of g over these rows.
        towards_x, g_x_hat, g = torch.ops.aten.native_batch_norm_backward(
            gradient, x, weight, mean, var, None, None, False, ctx.eps, [True, True, True]
        )
        sums = torch.stack((g_x_hat, g))
        dist.all_reduce(sums, group=ctx.ranks.group)
        # What the statistics add: -(w / sigma) (mean(g) + x_hat mean(g x_hat)).
        sigma = (var + ctx.eps).sqrt()
        scale = (1 if weight is None else weight) / (sigma * ctx.n)
        x_hat = (x - mean.view(shape)) / sigma.view(shape)
        towards_x -= (scale * sums[1]).view(shape) + x_hat * (scale * sums[0]).view(shape)
        affine = (None, None) if weight is None else (g_x_hat, g)
        return towards_x, *affine, None, None, None, None, None


def follow(norm: Norm, mean: Tensor, var: Tensor) -> None:
    """Move running statistics of a batch norm towards those of a batch, as PyTorch does."""
    assert norm.running_mean is not None and norm.running_var is not None
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked += 1
    share = 1 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    norm.running_mean.lerp_(mean.to(norm.running_mean), share)
    norm.running_var.lerp_(var.to(norm.running_var), share)
