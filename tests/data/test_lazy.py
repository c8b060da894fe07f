"""Images that stay on disk: in order, prefetched within bounds, never all in memory."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from datasets_trees import save
from earl.data.dataset import batches
from earl.data.lazy import PREFETCHED, Pictures
from earl.data.parts import hash_image
from fresh import python


def pictures(tmp_path, n=200, size=16, workers=2):
    for k in range(8):
        save(tmp_path / f"{k}.png", (size, size), colour=(k, 0, 0))
    paths = [str(tmp_path / f"{k % 8}.png") for k in range(n)]
    loaded = []

    def load_one(i):
        loaded.append(i)
        return Path(paths[i]).read_bytes()

    hashes = [np.frombuffer(hash_image(Path(path).read_bytes()), np.uint8) for path in paths]
    return Pictures(load_one, paths.__getitem__, np.stack(hashes), size, workers), loaded


@pytest.mark.parametrize("sizes", [[1] * 150, [500], [3, 0, 90, 1], [], [0]])
def test_batches_come_in_order_and_whole(sizes, tmp_path):
    images, _ = pictures(tmp_path, n=600)
    indices = list(torch.randperm(600, generator=torch.Generator().manual_seed(0)).split(1))
    indices = torch.cat(indices)[: sum(sizes)].split(sizes) if sizes else []
    got = list(batches(images, iter(indices)))
    assert len(got) == len(indices)
    for x, index in zip(got, indices, strict=True):
        assert x.dtype == torch.uint8 and x.shape == (len(index), 3, 16, 16)
        assert x[:, 0, 0, 0].tolist() == (index % 8).tolist()


def test_prefetching_is_bounded_and_stops_with_its_reader(tmp_path):
    images, loaded = pictures(tmp_path)
    reader = images.batches(torch.arange(200).split(1))
    for _ in range(10):
        next(reader)
    reader.close()
    assert 10 <= len(loaded) <= 10 + PREFETCHED + 1


def test_pictures_are_indexed_like_a_tensor(tmp_path):
    images, _ = pictures(tmp_path)
    assert images.shape == (200, 3, 16, 16)
    assert images[torch.tensor([9, 3])][:, 0, 0, 0].tolist() == [1, 3]
    assert images[torch.tensor([], dtype=torch.int64)].shape == (0, 3, 16, 16)


PEAK = """
import resource, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from earl.data.sets import folder
from earl.data.source import Source
from earl.evaluation.loop import Exam, learn_online
from earl.data.setups import iid
from earl.data.streams import Stream
from earl.learning.learner import Learner

class Idle(Learner):
    def __init__(self): self.seen = 0
    def observe(self, x, y): self.seen += int(x.sum() >= 0)
    def predict(self, x): return torch.zeros(len(x), dtype=torch.int64)
    def scores(self, x): return x
    def parts(self): return {}
    def costs(self): return {}

for root in map(Path, sys.argv[1:]):
    source = Source(root=root, cache=root / "cache", path=str(root / "photos"), workers=2)
    data = folder.load(source)
    assert data.image_shape == (3, 224, 224)
    learner, stream = Idle(), Stream(data.train, iid(data.train, seed=1))
    for _ in learn_online(learner, stream, Exam(data.test, 50), every=100):
        pass
    print(learner.seen, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_of_a_224_pixel_run_does_not_grow_with_the_data_set(tmp_path):
    """The peak of a process that runs on 80 images, and how far 400 images raise it."""
    roots = [tmp_path / "80", tmp_path / "400"]
    for root in roots:
        for n in range(int(root.name)):
            path = root / "photos" / "ab"[n % 2] / f"{n}.jpg"
            save(path, (256, 192), colour=(n % 256, n // 4, 0))
    # With a fixed threshold glibc gives large blocks back at once: we measure what we hold.
    fixed = os.environ | {"MALLOC_MMAP_THRESHOLD_": "131072", "OMP_NUM_THREADS": "1"}
    shown = python(PEAK, *map(str, roots), env=fixed)
    few, peak_few, many, peak_many = map(int, shown.split())
    assert (few, many) == (64, 320)
    more = (peak_many - peak_few) / 1024  # MB; the 256 further images are 39 MB decoded
    print(f"peak {peak_few / 1024:.0f} MB with 80 images, {more:+.1f} MB with 400")
    assert more < 15
