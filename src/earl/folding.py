"""Folding: convolutions that do the work of the batch norm behind them, and less of their own."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_weights

from earl.networks import BasicBlock, replaced
from earl.winograd import Winograd

ENOUGH_CHANNELS = 256  # for Winograd's way to be the faster one


def folded(*networks: nn.Module) -> replaced:
    """Return a context in which networks in evaluation mode pass over their maps less often.

    Their answers stay the same up to rounding, if their weights do. A convolution is known to be
    followed by batch norm in our blocks and where the two are neighbours in an `nn.Sequential`.
    """
    forwards: list[tuple[nn.Module, Callable[[Tensor], Tensor]]] = []
    for conv, norm in (pair for network in networks for pair in followed(network)):
        assert norm.running_mean is not None and norm.running_var is not None
        # Not `fuse_conv_bn_eval`: it copies modules, and these go on learning afterwards.
        weight, bias = fuse_conv_bn_weights(
            conv.weight,
            conv.bias,
            norm.running_mean,
            norm.running_var,
            norm.eps,
            norm.weight,
            norm.bias,
        )
        forwards.append((conv, convolution(conv, weight.detach(), bias.detach())))
        forwards.append((norm, unchanged))
    return replaced(forwards)


def followed(network: nn.Module) -> Iterator[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Yield each convolution of a network that a batch norm with running statistics follows."""
    for part in network.modules():
        if isinstance(part, BasicBlock):
            yield part.conv1, part.norm1
            yield part.conv2, part.norm2
        elif isinstance(part, nn.Sequential):
            for conv, norm in pairwise(part):
                if not (isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)):
                    continue
                if conv.padding_mode == "zeros" and norm.running_var is not None:
                    yield conv, norm


def convolution(conv: nn.Conv2d, weight: Tensor, bias: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the quickest way to convolve like `conv`, with other weights."""
    plain = partial(convolved, conv, weight, bias)
    if not suits_winograd(conv):
        return plain
    quick = cache(partial(Winograd, weight, bias))  # it takes time and memory to prepare

    def convolve(x: Tensor) -> Tensor:
        return plain(x) if torch.is_autocast_enabled(x.device.type) else quick()(x)

    return convolve


def suits_winograd(conv: nn.Conv2d) -> bool:
    return (
        conv.weight.device.type == "cpu"  # on a GPU, cuDNN chooses by itself
        and (conv.kernel_size, conv.stride, conv.padding) == ((3, 3), (1, 1), (1, 1))
        and (conv.dilation, conv.groups) == ((1, 1), 1)
        and min(conv.in_channels, conv.out_channels) >= ENOUGH_CHANNELS
    )


def convolved(conv: nn.Conv2d, weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    return F.conv2d(x, weight, bias, conv.stride, conv.padding, conv.dilation, conv.groups)


def unchanged(x: Tensor) -> Tensor:
    return x
