"""The backbone g: ResNets of several depths and widths, without their classifier."""

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import require

BLOCKS = {4: (1,), 6: (1, 1), 8: (1, 1, 1), 10: (1, 1, 1, 1), 14: (2, 2, 2), 18: (2, 2, 2, 2)}
BLOCKS |= {34: (3, 4, 6, 3)}


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with batch norm around a shortcut; (B, c, H, W) -> (B, c', H/s, W/s)."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.stride = stride
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out, 1, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = self.norm2(self.conv2(y))
        # Skipping pixels first equals a 1x1 convolution of that stride, whose weight gradient
        # crashes in oneDNN (torch 2.13, AVX-512, channels_last, small batches).
        y += self.shortcut(x[:, :, :: self.stride, :: self.stride])
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    """A ResNet without its classifier; (B, channels, H, W) -> (B, 8·width) at depth 18.

    `stem="small"` is a 3x3 convolution of stride 1 without pooling, for images up to 64 px;
    `stem="large"` is the 7x7 convolution of stride 2 with max-pooling, for 224 px.
    """

    def __init__(
        self,
        *,
        depth: int = 18,
        width: int = 64,
        stem: Literal["small", "large"] = "small",
        channels: int = 3,
    ) -> None:
        super().__init__()
        require(depth in BLOCKS, f"depth = {depth} is not one of {', '.join(map(str, BLOCKS))}")
        require(width >= 1, f"width = {width} must be at least 1")
        require(stem in ("small", "large"), f"stem = {stem!r} must be 'small' or 'large'")
        if stem == "small":
            first: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1, bias=False)]
            pool: list[nn.Module] = []
        else:
            first = [nn.Conv2d(channels, width, 7, 2, padding=3, bias=False)]
            pool = [nn.MaxPool2d(3, 2, padding=1)]
        self.stem = nn.Sequential(*first, nn.BatchNorm2d(width), nn.ReLU(inplace=True), *pool)
        stages, size = [], width
        for s, blocks in enumerate(BLOCKS[depth]):
            out = width << s
            for b in range(blocks):
                stages.append(BasicBlock(size, out, stride=2 if s and not b else 1))
                size = out
        self.blocks = nn.Sequential(*stages)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.blocks(self.stem(x))
        return y.mean(dim=(2, 3))
