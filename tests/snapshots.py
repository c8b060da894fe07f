"""Snapshots for tests: example states, damaged and forged copies, trials in their own processes."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from earl.crashtest.damage import tree
from earl.storage.snapshot import read_newest, write_snapshot


@pytest.fixture(autouse=True)
def unflushed(monkeypatch):
    """Nobody cuts the power here; the trials with kills run elsewhere and do flush."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def example(step, size=12):
    """Return a state that is a function of the step alone."""
    values = torch.randn(size, generator=torch.Generator().manual_seed(step))
    return {
        "net": OrderedDict(weight=values.view(3, -1), seen=torch.tensor(step)),
        "optimizer": {"state": {0: {"exp_avg": values * 2}}, "betas": (0.9, 0.999), "lr": 1e-3},
        "labels": ["cat", "dog"],
        "images": (values.view(-1)[:5] * 9).to(torch.uint8),
    }


def same(a, b):
    """Compare two states: types, keys and their order, and every bit."""
    if isinstance(a, torch.Tensor):
        bits = [t.clone(memory_format=torch.contiguous_format).view(-1) for t in (a, b)]
        kind = (a.dtype, a.shape) == (b.dtype, b.shape)
        return kind and torch.equal(*(flat.view(torch.uint8) for flat in bits))
    if isinstance(a, dict):
        keys = [(type(key), key) for key in a] == [(type(key), key) for key in b]
        return keys and type(b) is dict and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and repr(a) == repr(b)  # repr: nan equals nan, 0.0 not -0.0


def flip_bit(file, place=-1, bit=0):
    """Turn one bit of a file; unless a place is given, one of its last byte."""
    data = bytearray(file.read_bytes())
    data[place] ^= 1 << bit
    file.write_bytes(data)


def names(root):
    return sorted(path.name for path in root.iterdir())


@contextlib.contextmanager
def pair(size=12):
    """Give a root with the snapshots 1 and 2, and the paths of the newer and of the older."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for step in (1, 2):
            write_snapshot(root, step, example(step, size), about={"seed": 7})
        yield root, root / "snap-000000000002", root / "snap-000000000001"


@contextlib.contextmanager
def unchanged(root):
    """Expect that what is done meanwhile leaves a folder as it was."""
    before = tree(root)
    yield
    assert tree(root) == before


def assert_found(root, newer, size=12):
    """The damage of the newer snapshot is found, told and kept; the older one is used."""
    damaged = tree(newer)
    found = read_newest(root)
    assert found.step == 1
    assert same(example(1, size), found.state)
    [reason] = found.skipped
    assert reason.startswith("'snap-000000000002': ")
    assert reason.endswith("; kept as bad-snap-000000000002")
    assert tree(root / "bad-snap-000000000002") == damaged


def run_trial(file, name, root):
    """Run a trial of a test file in a new process: it forks, and must not have our threads."""
    command = [sys.executable, file, name, str(root / "trial")]
    places = [str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    changes = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, places))}
    done = subprocess.run(
        command, cwd=root, env=os.environ | changes, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def be_trial(trials: "dict[str, Callable[[Path], dict[str, Any]]]") -> None:
    """Be the process that `run_trial` starts: do what the arguments say, print the result."""
    torch.set_num_threads(1)
    print(json.dumps(trials[sys.argv[1]](Path(sys.argv[2]))))
