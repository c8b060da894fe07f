"""EfficientNet-Lite0 (Tan and Le, ICML 2019; the lite form is Google's of 2020), our definition.

Against EfficientNet-B0 the lite form has no squeeze-and-excitation, and ReLU6 as its activation.
Modules have the names of the stored weights without their underscores.
"""

import math

from torch import Tensor, nn
from torch.nn import functional as F

STEM, HEAD = 32, 1280  # channels
STAGES = (  # of each: expansion, channels, blocks, stride of the first block, side of the kernel
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
LAST = STAGES[-1][2]  # blocks of the last stage


class SameConv(nn.Conv2d):
    """A convolution that gives ⌈side / stride⌉ pixels; an odd row of padding goes below, right."""

    def forward(self, x: Tensor) -> Tensor:
        k, s = self.kernel_size[0], self.stride[0]
        missing = [max(0, (math.ceil(n / s) - 1) * s + k - n) for n in x.shape[2:]]
        pads = [p for n in reversed(missing) for p in (n // 2, n - n // 2)]  # width comes first
        return super().forward(F.pad(x, pads) if any(pads) else x)


def convolution(channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> SameConv:
    return SameConv(channels, out, kernel, stride, groups=groups, bias=False)


def norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class InvertedBlock(nn.Module):
    """Expand by 1x1, filter every channel for itself, project by 1x1; a shortcut where it fits."""

    def __init__(self, channels: int, out: int, expansion: int, stride: int, kernel: int) -> None:
        super().__init__()
        inner = channels * expansion
        self.expands, self.shortcut = expansion > 1, stride == 1 and channels == out
        if self.expands:
            self.expand_conv, self.bn0 = convolution(channels, inner, 1), norm(inner)
        self.depthwise_conv = convolution(inner, inner, kernel, stride, groups=inner)
        self.bn1 = norm(inner)
        self.project_conv, self.bn2 = convolution(inner, out, 1), norm(out)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self.bn0(self.expand_conv(x))) if self.expands else x
        y = F.relu6(self.bn1(self.depthwise_conv(y)))
        out: Tensor = self.bn2(self.project_conv(y))
        return out + x if self.shortcut else out


class Front(nn.Module):
    """The stem and all blocks but those of the last stage; (B, 3, H, W) -> (B, 192, H/32, W/32)."""

    def __init__(self, whole: "EfficientNetLite0") -> None:
        super().__init__()
        self.conv_stem, self.bn0, self.blocks = whole.conv_stem, whole.bn0, whole.blocks[:-LAST]

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.blocks(F.relu6(self.bn0(self.conv_stem(x))))
        return out


class LastStage(nn.Module):
    """The blocks of the last stage, and what follows them; (B, 192, h, w) -> (B, 1280)."""

    def __init__(self, whole: "EfficientNetLite0") -> None:
        super().__init__()
        self.blocks, self.conv_head, self.bn1 = whole.blocks[-LAST:], whole.conv_head, whole.bn1

    def forward(self, x: Tensor) -> Tensor:
        return F.relu6(self.bn1(self.conv_head(self.blocks(x)))).mean(dim=(2, 3))


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0 without its classifier; (B, 3, H, W) -> (B, 1280)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_stem, self.bn0 = convolution(3, STEM, 3, stride=2), norm(STEM)
        blocks, size = [], STEM
        for expansion, out, count, stride, kernel in STAGES:
            for b in range(count):
                blocks.append(InvertedBlock(size, out, expansion, 1 if b else stride, kernel))
                size = out
        self.blocks = nn.Sequential(*blocks)
        self.conv_head, self.bn1 = convolution(size, HEAD, 1), norm(HEAD)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self.bn0(self.conv_stem(x)))
        y = F.relu6(self.bn1(self.conv_head(self.blocks(y))))
        return y.mean(dim=(2, 3))

    def halves(self) -> tuple[nn.Module, nn.Module]:
        """Return all up to the last stage, and the last stage; they are parts of this network."""
        return Front(self), LastStage(self)
