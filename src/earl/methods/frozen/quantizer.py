"""Product quantisation: a vector as a few small numbers, one for each of its parts."""

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from earl.errors import InvalidSetting, require
from earl.learning import draw_distinct

LLOYD = 20  # iterations of k-means, by Lloyd's algorithm
CHUNK = 64  # vectors compared with all codewords at once; their distances stay in the cache
MOST_CODEWORDS = 2048


class ProductQuantizer(nn.Module):
    """Cuts vectors of `channels` into `codebooks` parts and names the nearest codeword of each.

    Maps (B, c, h, w) become codes (B, m, h, w): c-dimensional vectors, one at every position, whose
    j-th part of c/m channels is replaced by the number of a row of codebook j, (k, c/m).
    """

    codebooks: Tensor  # (m, k, c/m)

    def __init__(self, channels: int, codebooks: int, codewords: int) -> None:
        super().__init__()
        if codebooks < 1 or channels % codebooks:
            divisors = [str(m) for m in range(1, channels + 1) if channels % m == 0]
            raise InvalidSetting(
                f"codebooks = {codebooks} must divide the {channels} channels of the feature maps: "
                f"choose one of {', '.join(divisors)}"
            )
        require(
            2 <= codewords <= MOST_CODEWORDS,
            f"codewords = {codewords} must be from 2 to {MOST_CODEWORDS}",
        )
        self.register_buffer("codebooks", torch.zeros(codebooks, codewords, channels // codebooks))

    @property
    def dtype(self) -> torch.dtype:
        """The type of a code: one byte for up to 256 codewords, else two."""
        return torch.uint8 if self.codebooks.shape[1] <= 256 else torch.int16

    def nbytes(self, positions: int) -> int:
        """Return the bytes of the codes of one map with this many positions."""
        return positions * len(self.codebooks) * self.dtype.itemsize

    def fit(self, vectors: Tensor, generator: Generator) -> int:
        """Run k-means on every part of the vectors (n, c), n >= 1; return how many were compared.

        Codewords begin as distinct vectors drawn at random, again from the first if there are too
        few. One that no vector is nearest to moves to where the error is largest.
        """
        m, k, _ = self.codebooks.shape
        X = self._parts(vectors)  # (m, n, c/m)
        n = X.shape[1]
        for codebook, part in zip(self.codebooks, X, strict=True):
            rows = draw_distinct(n, k, generator)
            codebook.copy_(part[rows[torch.arange(k) % len(rows)]])
        for _ in range(LLOYD):
            nearest = self._nearest(X)
            for j in range(m):
                self.codebooks[j] = means(X[j], nearest[j], self.codebooks[j])
        return LLOYD * n

    def forward(self, maps: Tensor) -> Tensor:
        """Return the codes (B, m, h, w) of maps (B, c, h, w)."""
        B, _, h, w = maps.shape
        nearest = self._nearest(self._parts(vectors_of(maps)))  # (m, B·h·w)
        return nearest.to(self.dtype).reshape(-1, B, h, w).transpose(0, 1).contiguous()

    def decode(self, codes: Tensor) -> Tensor:
        """Return the maps (B, c, h, w) that codes (B, m, h, w) stand for, in channels_last."""
        m, k, _ = self.codebooks.shape
        first = torch.arange(0, m * k, k, device=self.codebooks.device)  # row of each codebook
        at = codes.to(first.device).permute(0, 2, 3, 1) + first  # (B, h, w, m)
        return F.embedding(at, self.codebooks.flatten(0, 1)).flatten(3).permute(0, 3, 1, 2)

    def _parts(self, vectors: Tensor) -> Tensor:
        m, _, width = self.codebooks.shape
        return vectors.reshape(-1, m, width).transpose(0, 1).to(self.codebooks)  # (m, n, c/m)

    def _nearest(self, X: Tensor) -> Tensor:
        """Return the nearest codeword of each part X (m, n, c/m), by ‖w‖² − 2⟨x, w⟩; (m, n)."""
        m, k, _ = self.codebooks.shape
        W = self.codebooks.transpose(1, 2)  # (m, c/m, k)
        length = self.codebooks.square().sum(dim=2)[:, None]  # (m, 1, k)
        room = X.new_empty(m * CHUNK * k)  # for all chunks: memory that is new is slow
        chunks = []
        with torch.autocast(X.device.type, enabled=False):  # codes are kept: they must be right
            for part in X.split(CHUNK, dim=1):
                out = room[: m * part.shape[1] * k].view(m, -1, k)
                chunks.append(where_smallest(torch.baddbmm(length, part, W, alpha=-2, out=out)))
        return torch.cat(chunks, dim=1)


def where_smallest(x: Tensor) -> Tensor:
    """Return where each row (..., k) has its smallest number, the first if there are several.

    On a CPU numpy finds it in half of torch's time.
    """
    if x.device.type != "cpu":
        return x.argmin(dim=-1)
    return torch.from_numpy(x.numpy().argmin(axis=-1))


def means(X: Tensor, nearest: Tensor, codewords: Tensor) -> Tensor:
    """Return the mean of the vectors X (n, w) nearest to each of the codewords (k, w).

    Where there are none it is a vector that lies farthest from its codeword.
    """
    counts = nearest.bincount(minlength=len(codewords))
    total = torch.zeros_like(codewords).index_add_(0, nearest, X)
    mean = torch.where(counts[:, None] > 0, total / counts.clamp(min=1)[:, None], codewords)
    empty = (counts == 0).nonzero()[: len(X), 0]
    error = (X - codewords[nearest]).square().sum(dim=1)
    mean[empty] = X[error.topk(len(empty)).indices]
    return mean


def vectors_of(maps: Tensor) -> Tensor:
    """Return the vectors at all positions of maps (B, c, h, w), image after image; (B·h·w, c)."""
    return maps.permute(0, 2, 3, 1).reshape(-1, maps.shape[1])
