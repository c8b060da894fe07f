"""Folding: convolutions that do the work of the batch norm behind them while one asks."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_weights

from earl.networks import BasicBlock


class folded:
    """Context in which networks in evaluation mode pass over their feature maps less often.

    Their answers stay the same up to rounding, if their weights do. A convolution is known to be
    followed by batch norm in our blocks and where the two are neighbours in an `nn.Sequential`.
    """

    def __init__(self, *networks: nn.Module) -> None:
        self.pairs = [pair for network in networks for pair in followed(network)]

    def __enter__(self) -> None:
        for conv, norm in self.pairs:
            assert norm.running_mean is not None and norm.running_var is not None
            weight, bias = fuse_conv_bn_weights(
                conv.weight,
                conv.bias,
                norm.running_mean,
                norm.running_var,
                norm.eps,
                norm.weight,
                norm.bias,
            )
            # Not `fuse_conv_bn_eval`: it copies modules, and these go on learning afterwards.
            convolve = partial(convolved, conv, weight.detach(), bias.detach())
            conv.forward = convolve  # type: ignore[method-assign]
            norm.forward = unchanged  # type: ignore[method-assign,assignment]

    def __exit__(self, *exception: object) -> None:
        for pair in self.pairs:
            for part in pair:
                del part.forward  # the class's own shows again


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


def convolved(conv: nn.Conv2d, weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    return F.conv2d(x, weight, bias, conv.stride, conv.padding, conv.dilation, conv.groups)


def unchanged(x: Tensor) -> Tensor:
    return x
