"""Images that stay on disk: decoded when they are asked for, a few ahead of their turn."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from earl import images
from earl.datasets.source import Labels
from earl.errors import BrokenImage
from earl.images import Pixels

AHEAD = 32  # images that are decoded and wait, at most


class Pictures:
    """Encoded images as one long uint8 tensor (N, 3, size, size) that is never in memory whole."""

    def __init__(
        self,
        load: Callable[[int], bytes],
        name: Callable[[int], str],
        count: int,
        size: int,
        workers: int,
    ) -> None:
        self._load, self._name, self._workers = load, name, workers
        self.shape = torch.Size((count, 3, size, size))

    def __getitem__(self, index: Tensor) -> Tensor:
        """Return the images of the given indices (n,), uint8 (n, 3, size, size)."""
        (batch,) = self.batches([index])
        return batch

    def batches(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield the images of each index tensor; meanwhile the next ones are being decoded."""
        wanted = (list(index.tolist()) for index in indices)
        sizes: deque[int] = deque()
        waiting: deque[Future[Pixels]] = deque()
        upcoming = self._upcoming(wanted, sizes)
        try:
            for i in islice(upcoming, AHEAD):
                slot = np.empty(self.shape[1:], np.uint8)
                waiting.append(self._pool.submit(self._decode, i, slot))
            while sizes:
                batch = torch.empty((sizes.popleft(), *self.shape[1:]), dtype=torch.uint8)
                for row in batch.numpy():
                    row[:] = slot = waiting.popleft().result()
                    for i in islice(upcoming, 1):
                        waiting.append(self._pool.submit(self._decode, i, slot))
                yield batch
        finally:
            for future in waiting:
                future.cancel()

    @staticmethod
    def _upcoming(wanted: Iterator[list[int]], sizes: "deque[int]") -> Iterator[int]:
        for batch in wanted:
            sizes.append(len(batch))
            yield from batch

    def _decode(self, i: int, slot: Pixels) -> Pixels:
        """Decode into memory that is used again and again: it would fall to pieces otherwise."""
        try:
            slot[:] = images.decode(self._load(i), self.shape[-1])
            return slot
        except BrokenImage as error:
            raise BrokenImage(
                f"{self._name(i)}: {error}; it was whole when the data set was prepared. Put it "
                "back, and go on with: earl resume"
            ) from None

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers, thread_name_prefix="earl-decode")


def of_files(root: Path, files: tuple[str, ...], size: int, workers: int) -> Pictures:
    """Return image files, relative to `root`, as images."""

    def name(i: int) -> str:  # joined when needed: a million paths are long
        return str(root / files[i])

    return Pictures(lambda i: images.read_file(name(i)), name, len(files), size, workers)


def of_blob(path: Path, offsets: Labels, size: int, workers: int) -> Pictures:
    """Return encoded images that lie one behind the other in one file; offsets (N + 1,)."""
    data = np.memmap(path, np.uint8, mode="r") if offsets[-1] else np.zeros(0, np.uint8)

    def load(i: int) -> bytes:
        return data[offsets[i] : offsets[i + 1]].tobytes()

    return Pictures(load, lambda i: f"{path}, image {i}", len(offsets) - 1, size, workers)
