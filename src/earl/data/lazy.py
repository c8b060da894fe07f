"""Images that stay on disk and are decoded when they are asked for; the next few are prefetched."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from earl.data import decode as images
from earl.data.decode import Pixels
from earl.data.parts import Hashes, hash_image
from earl.data.source import Labels
from earl.errors import BrokenImage

PREFETCHED = 32  # at most so many decoded images wait to be asked for
PUT_BACK = "Put it back, and go on with: earl resume"


class Pictures:
    """Encoded images that look like one uint8 tensor (N, 3, size, size), never wholly in memory."""

    def __init__(
        self,
        load: Callable[[int], bytes],
        name: Callable[[int], str],
        hashes: Hashes,
        size: int,
        workers: int,
        advice: str = PUT_BACK,
    ) -> None:
        """Take functions from a row to an encoded image and to its name, and the images' hashes."""
        self._load, self._name, self._hashes, self._workers = load, name, hashes, workers
        self._advice = advice
        self.shape = torch.Size((len(hashes), 3, size, size))

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
            for i in islice(upcoming, PREFETCHED):
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
        """Decode into a buffer that is used again: many new ones would fragment the memory."""
        try:
            data = self._load(i)
            if hash_image(data) != self._hashes[i].tobytes():
                raise BrokenImage("it has changed")
            slot[:] = images.decode(data, self.shape[-1])
            return slot
        except BrokenImage as error:
            raise BrokenImage(
                f"{self._name(i)}: {error}; it was whole when the data set was prepared. "
                f"{self._advice}"
            ) from None

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers, thread_name_prefix="earl-decode")


def of_files(
    root: Path, files: tuple[str, ...], hashes: Hashes, size: int, workers: int
) -> Pictures:
    """Return image files, relative to `root`, as images."""

    def name(i: int) -> str:  # joined when needed: a million full paths take much memory
        return str(root / files[i])

    return Pictures(lambda i: images.read_file(name(i)), name, hashes, size, workers)


def of_blob(path: Path, offsets: Labels, hashes: Hashes, size: int, workers: int) -> Pictures:
    """Return encoded images that are stored one after the other in one file; offsets (N + 1,)."""
    data = np.memmap(path, np.uint8, mode="r") if offsets[-1] else np.zeros(0, np.uint8)

    def load(i: int) -> bytes:
        return data[offsets[i] : offsets[i + 1]].tobytes()

    advice = f"Remove {path.parent}, so that it is prepared anew, and go on with: earl resume"
    return Pictures(load, lambda i: f"{path}, image {i}", hashes, size, workers, advice)
