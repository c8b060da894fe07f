"""Winograd's convolution: 3x3 kernels with 36 instead of 144 products for 16 pixels.

The algorithm F(4x4, 3x3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
CVPR 2016: with tiles d of 6x6 pixels that overlap by two, and the kernel g,

    Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A

where ⊙, summed over the input channels, is a matrix product for each of the 36 places of a tile.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

TILES = 128  # at a time; what they become then stays in the cache
BT = torch.tensor(
    [
        [4.0, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
G = torch.tensor(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ],
    dtype=torch.float64,
)
AT = torch.tensor(
    [
        [1.0, 1, 1, 1, 1, 0],
        [0, 1, -1, 2, -2, 0],
        [0, 1, 1, 4, 4, 0],
        [0, 1, -1, 8, -8, 1],
    ]
)


class Winograd:
    """A convolution (n, c, H, W) -> (n, o, H, W) of stride 1 that pads one pixel of zeros."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        o, c = weight.shape[:2]
        # A matrix on both sides of each tile is the Kronecker product on the tiles as columns.
        self.BT, GG, self.AT = (torch.kron(M, M).to(weight) for M in (BT, G, AT))
        self.U = (GG @ weight.permute(2, 3, 0, 1).reshape(9, -1)).view(36, o, c).mT
        self.bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        rows, columns = -(-h // 4), -(-w // 4)  # of tiles
        images = max(1, min(n, TILES // (rows * columns)))  # at a time
        tiles, o = images * rows * columns, len(self.bias)
        x = F.pad(x.permute(0, 2, 3, 1), (0, 0, 1, 1 + 4 * columns - w, 1, 1 + 4 * rows - h))
        y = x.new_empty(n, rows, 4, columns, 4, o)
        # Reused, since fresh pages would take longer than the sums that fill them.
        d, V = x.new_empty(2, 36, tiles, c)
        M, Y = x.new_empty(36, tiles, o), x.new_empty(16, tiles, o)
        down, right = 4 * rows - 3, 4 * columns - 3
        for end in range(images, n + images, images):
            part = slice(min(end, n) - images, min(end, n))  # the last may begin in the one before
            z = x[part]
            places = [z[:, i : i + down : 4, j : j + right : 4] for i in range(6) for j in range(6)]
            torch.stack(places, out=d.view(36, images, rows, columns, c))
            torch.mm(self.BT, d.view(36, -1), out=V.view(36, -1))
            torch.bmm(V, self.U, out=M)
            torch.mm(self.AT, M.view(36, -1), out=Y.view(16, -1))
            Y_ = Y.view(4, 4, images, rows, columns, o)
            torch.add(Y_.permute(2, 3, 0, 4, 1, 5), self.bias, out=y[part])
        return y.view(n, 4 * rows, 4 * columns, o)[:, :h, :w].permute(0, 3, 1, 2)
