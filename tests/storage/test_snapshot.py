"""Snapshots: exact round trips, every damage found, no kill and no file that can harm.

Run as a script with the name of a trial and a directory, this file is the process that gets killed
or fed with hostile files; the tests start it and read the JSON line it prints.
"""

import ast
import contextlib
import errno
import hashlib
import io
import json
import math
import os
import pickle
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import OrderedDict, namedtuple
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from earl.errors import SnapshotError
from earl.storage import files as durable
from earl.storage import snapshot
from earl.storage.snapshot import read_newest, write_snapshot
from earl.storage.state import digest, flatten, unflatten

DTYPES = (torch.uint8, torch.int64, torch.float32, torch.float64, torch.bool, torch.bfloat16)
DTYPES += (torch.int8, torch.int16, torch.int32, torch.float16)


@pytest.fixture(autouse=True)
def _unflushed(monkeypatch):
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


def tree(root):
    """Return all there is at and below a path: names, links and bytes."""
    return {
        path.relative_to(root).as_posix(): path.readlink()
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else path.is_dir()
        for path in sorted([root, *root.rglob("*")])
        if path != root or not path.is_dir() or path.is_symlink()
    }


# ---- states --------------------------------------------------------------------------------------


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 4), max_size=5))
    bits = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    count = math.prod(shape) * dtype.itemsize
    high = 2 if dtype == torch.bool else 256  # any bits at all: nan with a payload, -0.0, …
    raw = torch.randint(high, (count,), generator=bits, dtype=torch.uint8)
    tensor = raw.view(dtype).reshape(shape)
    way = draw(st.sampled_from(["plain", "permuted", "strided", "expanded", "channels_last"]))
    if way == "permuted":
        return tensor.permute(draw(st.permutations(range(tensor.ndim))))
    if way == "strided" and tensor.ndim:
        return tensor[::2]
    if way == "expanded":
        return tensor.unsqueeze(0).expand(3, *tensor.shape)
    if way == "channels_last" and tensor.ndim == 4:
        return tensor.to(memory_format=torch.channels_last)
    return tensor


KEYS = st.text(max_size=5) | st.integers() | st.sampled_from(["", "0", "#0", "a/b", "%2F", "~"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | tensors()
STATES = st.recursive(
    LEAVES,
    lambda part: (
        st.lists(part, max_size=4)
        | st.lists(part, max_size=4).map(tuple)
        | st.dictionaries(KEYS, part, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(STATES)
def test_a_state_comes_back_from_the_disk_exactly(state):
    with tempfile.TemporaryDirectory() as root:
        write_snapshot(Path(root), 7, state, about={"seed": 1})
        found = read_newest(Path(root))
    assert found.step == 7
    assert found.about == {"seed": 1}
    assert found.skipped == ()
    assert same(state, found.state)
    assert digest(state) == digest(found.state)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(STATES)
def test_unflatten_undoes_flatten_and_the_skeleton_is_json(state):
    parts, skeleton = flatten(state)
    assert same(state, unflatten(parts, json.loads(json.dumps(skeleton, allow_nan=False))))


def test_a_digest_sees_each_bit_type_name_and_layout_but_not_the_order_of_keys():
    w = torch.zeros(2, 3, 4, 5)
    flipped = w.clone()
    flipped.view(torch.uint8)[1, 2, 3, 0] = 1
    turned = w.contiguous(memory_format=torch.channels_last)
    variants = [w, w.double(), w.view(3, 2, 4, 5), -w, flipped, turned]
    states = [{"w": variant, "n": 1} for variant in variants]
    states += [{"v": w, "n": 1}, {"w": w, "n": 1.0}, {"w": w, "n": True}, {"w": w, "n": "1"}]
    states += [{"w": [w], "n": 1}, {"w": (w,), "n": 1}, {"w": w, 1: 1}, {"w": w, "1": 1}, {"w": w}]
    assert len({digest(state) for state in states}) == len(states)
    assert digest({"n": 1, "w": w}) == digest({"w": w, "n": 1})


def test_memory_layouts_survive_unless_they_have_gaps():
    x = torch.arange(120.0).view(2, 3, 4, 5)
    dense = [x, x.to(memory_format=torch.channels_last), x.permute(3, 1, 0, 2), x[0, 0].T]
    parts, skeleton = flatten(dense)
    back = unflatten({name: part.contiguous() for name, part in parts.items()}, skeleton)
    assert [part.stride() for part in back] == [part.stride() for part in dense]
    assert all(map(torch.equal, back, dense))
    [gaps] = unflatten(*flatten([x[:, ::2]]))
    assert gaps.is_contiguous()


def test_entries_that_share_memory_are_both_stored(tmp_path):
    w = torch.arange(6.0)
    state = {"all": w, "again": w, "view": w.view(2, 3), "part": w[1:4], "own": nn.Parameter(w)}
    write_snapshot(tmp_path, 0, state, about={})
    found = read_newest(tmp_path).state
    assert same(state, found)
    found["all"][1] = -1
    assert torch.equal(found["again"], w)


def test_a_tensor_with_a_pending_minus_is_stored_with_it():
    z = torch.view_as_complex(torch.tensor([[1.0, 2.0]])).conj().imag
    assert z.is_neg()
    assert unflatten(*flatten(z)).tolist() == [-2.0]
    assert digest(z) == digest(torch.tensor([-2.0]))


def test_strides_of_single_elements_do_not_matter():
    for tensor in (torch.arange(4.0)[2::2], torch.arange(8.0).view(2, 4)[1:, 2:3].T):
        assert unflatten(*flatten(tensor)).tolist() == tensor.tolist()
        assert digest(tensor) == digest(tensor.clone(memory_format=torch.contiguous_format))


def test_loaded_tensors_are_aligned_as_torch_aligns_them(tmp_path):
    write_snapshot(tmp_path, 0, [torch.ones(n) for n in range(1, 60)], about={})
    assert {part.data_ptr() % 64 for part in read_newest(tmp_path).state} == {0}


def test_the_tensors_are_an_ordinary_safetensors_file(tmp_path):
    state = {"a/b": torch.eye(3), 5: torch.tensor([True]), "w": torch.ones(2, dtype=torch.bfloat16)}
    path = write_snapshot(tmp_path, 0, state, about={})
    found = safetensors.torch.load_file(path / "state.safetensors")
    assert found.keys() == {"/a%2Fb", "/#5", "/w"}
    assert all(map(torch.equal, map(found.get, ("/a%2Fb", "/#5", "/w")), state.values()))


@pytest.mark.parametrize(
    "skeleton",
    [
        *([], {}, {"dict": []}, {"list": {}}, {"set": []}, {"float": "1"}, {"float": 1}, math.inf),
        *({"dict": {"#01": 1}}, {"dict": {"#1_0": 1}}, {"dict": {"#": 1}}, {"dict": {"%2f": 1}}),
        *({"dict": {"a/b": 1}}, {"dict": {"%FF": 1}}, {"dict": {"ä": 1}}),
        *({"tensor": ["float32", [2, 3]], "list": []}, {"list": []}),
        *({"tensor": spec} for spec in ([], ["float32"], ["float64", [2, 3]], ["float32", [6]])),
        *({"tensor": ["float32", [2, 3], *rest]} for rest in ([[0, 1], 0], [None], [5], [{}])),
        *({"tensor": ["float32", [2, 3], order]} for order in ([], [0], [0, 0], [1, 2], [-1, 0])),
        *(
            {"tensor": ["float32", [2, 3], order]}
            for order in ([True, False], ["0", "1"], [0, 1.0])
        ),
    ],
    ids=str,
)
def test_a_skeleton_that_does_not_fit_is_refused(skeleton):
    parts, good = flatten(torch.zeros(2, 3))
    assert same(unflatten(parts, good), torch.zeros(2, 3))
    with pytest.raises(ValueError):
        unflatten(parts if "tensor" in str(skeleton) or skeleton == {"list": []} else {}, skeleton)


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    "part",
    [
        *({1, 2}, b"bytes", 1j, Pair(1, 2), np.float64(1), np.int64(1), np.zeros(2), print),
        *(torch.zeros(2, dtype=torch.complex64), torch.zeros(2).to_sparse()),
        *(torch.zeros(2, device="meta"), {True: 1}, {None: 1}, {1.5: 1}, {(1, 2): 1}),
    ],
    ids=lambda part: type(part).__name__,
)
def test_what_would_not_come_back_as_it_was_is_refused(part, tmp_path):
    with pytest.raises(TypeError):
        write_snapshot(tmp_path, 0, {"here": [part]}, about={})
    assert tree(tmp_path) == {}


def test_a_state_that_holds_itself_is_refused():
    state = {}
    state["self"] = state
    with pytest.raises(TypeError, match="nested too deeply"):
        flatten(state)
    with pytest.raises(TypeError, match="nested too deeply"):
        flatten({"k" * 1001: 1})


@pytest.mark.parametrize("about", [{"a": (1, 2)}, {1: 2}, {"a": math.nan}, {"a": Path()}])
def test_what_is_said_about_a_snapshot_must_be_json(tmp_path, about):
    with pytest.raises((TypeError, ValueError)):
        write_snapshot(tmp_path, 0, {}, about=about)
    assert tree(tmp_path) == {}


def test_a_text_that_json_would_change_is_refused(tmp_path):
    with pytest.raises(TypeError):
        write_snapshot(tmp_path, 0, {"a": "\ud800\udc00"}, about={})


def test_what_could_not_be_read_back_for_its_size_is_not_written(tmp_path):
    with pytest.raises(SnapshotError, match="keep long lists as tensors"):
        write_snapshot(tmp_path, 0, {"a": list(range(400_000))}, about={})
    with pytest.raises(SnapshotError, match="too many"):
        write_snapshot(tmp_path, 0, [torch.zeros(1)] * 20_000, about={})
    assert tree(tmp_path) == {}


# ---- learning goes on ----------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "adam_tensor_lr": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1), foreach=False),
    "adam_amsgrad": lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    "adam_foreach": lambda p: torch.optim.Adam(p, lr=0.1, foreach=True),
    "adam_fused": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
}


class Learner:
    def __init__(self, optimizer, channels_last):
        self.net = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 2)
        )
        for i, p in enumerate(self.net.parameters()):
            nn.init.normal_(p, std=0.2, generator=torch.Generator().manual_seed(i))
        if channels_last:
            self.net.to(memory_format=torch.channels_last)
        self.optimizer = OPTIMIZERS[optimizer](self.net.parameters())

    def step(self, n):
        x = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(n))
        self.optimizer.zero_grad()
        self.net(x).square().sum().backward()
        self.optimizer.step()

    def state_dict(self):
        return {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_learner_continues_bit_for_bit(tmp_path, optimizer, channels_last):
    first = Learner(optimizer, channels_last)
    for n in range(3):
        first.step(n)
    write_snapshot(tmp_path, 3, first.state_dict(), about={})
    second = Learner(optimizer, channels_last)
    state = read_newest(tmp_path).state
    second.net.load_state_dict(state["net"])
    second.optimizer.load_state_dict(state["optimizer"])
    for n in range(3, 6):
        assert digest(first.state_dict()) == digest(second.state_dict())
        first.step(n)
        second.step(n)
    assert digest(first.state_dict()) == digest(second.state_dict())


# ---- the directory -------------------------------------------------------------------------------


def names(root):
    return sorted(path.name for path in root.iterdir())


def test_no_directory_and_no_snapshot_is_none(tmp_path):
    assert read_newest(tmp_path / "missing") is None
    (tmp_path / "LOCK").touch()
    (tmp_path / ".tmp-snap-000000000001").mkdir()
    (tmp_path / "history.jsonl").touch()
    assert read_newest(tmp_path) is None


def test_the_newest_are_kept_and_leftovers_removed(tmp_path):
    root = tmp_path / "a" / "b"
    for step in (0, 9, 10, 11, 10**13):
        write_snapshot(root, step, example(step), about={"n": step}, keep=3)
        (root / ".tmp-snap-000000000099").mkdir()
        (root / ".tmp-snap-000000000099" / "state.safetensors").touch()
        (root / ".tmp-file").touch()
    found = read_newest(root)
    assert (found.step, found.about) == (10**13, {"n": 10**13})
    assert found.path == root / "snap-10000000000000"
    for keep in (2, 1):
        write_snapshot(root, 10**13, example(10**13), about={}, keep=keep)
        assert names(root)[-keep:] == ["snap-000000000011", "snap-10000000000000"][-keep:]
        assert len(names(root)) == keep


def test_older_snapshots_go_only_after_the_new_one_is_there(tmp_path, monkeypatch):
    for step in (1, 2):
        write_snapshot(tmp_path, step, example(step), about={})
    before = tree(tmp_path)
    for call in ("write", "rename", "mkdir"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, mock.Mock(side_effect=OSError(errno.ENOSPC, "full")))
            with pytest.raises(OSError, match="full"):
                write_snapshot(tmp_path, 3, example(3), about={})
        assert tree(tmp_path) == before


def test_the_same_state_twice_changes_nothing(tmp_path):
    path = write_snapshot(tmp_path, 1, example(1), about={"a": 1})
    before = tree(tmp_path), path.stat().st_ino
    assert write_snapshot(tmp_path, 1, example(1), about={"a": 2}) == path
    assert (tree(tmp_path), path.stat().st_ino) == before


def test_a_snapshot_found_in_place_is_flushed_before_older_ones_go(tmp_path, monkeypatch):
    for step in (1, 2):
        write_snapshot(tmp_path, step, example(step), about={})
    acts = []
    monkeypatch.setattr(durable, "fsync_dir", lambda path: acts.append(("flush", path)))
    monkeypatch.setattr(durable, "remove", lambda path: acts.append(("remove", path)))
    write_snapshot(tmp_path, 2, example(2), about={}, keep=1)  # its writer was killed, say
    assert acts == [("flush", tmp_path), ("remove", tmp_path / ".tmp-snap-000000000001")]


def test_another_state_of_the_same_step_is_refused(tmp_path):
    write_snapshot(tmp_path, 1, example(1), about={})
    before = tree(tmp_path)
    with pytest.raises(SnapshotError, match="holds another state"):
        write_snapshot(tmp_path, 1, example(2), about={})
    assert tree(tmp_path) == before


def test_an_earlier_step_than_the_newest_is_refused(tmp_path):
    write_snapshot(tmp_path, 5, example(5), about={})
    before = tree(tmp_path)
    with pytest.raises(SnapshotError, match="later than step 4"):
        write_snapshot(tmp_path, 4, example(4), about={})
    assert tree(tmp_path) == before


def test_a_damaged_snapshot_of_the_same_step_is_set_aside_and_written_anew(tmp_path):
    path = write_snapshot(tmp_path, 1, example(1), about={})
    (path / "state.safetensors").write_bytes(b"damaged")
    write_snapshot(tmp_path, 1, example(1), about={})
    assert names(tmp_path) == ["bad-snap-000000000001", "snap-000000000001"]
    assert same(example(1), read_newest(tmp_path).state)


@pytest.mark.parametrize(("step", "keep"), [(-1, 2), (0, 0)])
def test_impossible_numbers_are_refused(tmp_path, step, keep):
    with pytest.raises(ValueError, match="at least"):
        write_snapshot(tmp_path, step, {}, about={}, keep=keep)


# ---- damage --------------------------------------------------------------------------------------


@contextlib.contextmanager
def pair(size=12):
    """Give a root with the snapshots 1 and 2, and the paths of the newer and of the older."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for step in (1, 2):
            write_snapshot(root, step, example(step, size), about={"seed": 7})
        yield root, root / "snap-000000000002", root / "snap-000000000001"


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


def count_found(file, size, mutations):
    """Apply each mutation to the bytes of one file of the newer snapshot; return how many."""
    with pair(size) as (root, newer, _):
        whole = (newer / file).read_bytes()
        number = 0
        for mutated in mutations(whole, random.Random(0)):
            number += 1
            assert mutated != whole
            (newer / file).write_bytes(mutated)
            assert_found(root, newer, size)
            (root / "bad-snap-000000000002").rename(newer)
        (newer / file).write_bytes(whole)
        assert read_newest(root).step == 2
    return number


def flips(whole, rng):
    for i, byte in enumerate(whole):
        yield whole[:i] + bytes([byte ^ 1 << rng.randrange(8)]) + whole[i + 1 :]


def cuts(whole, rng):
    for length in rng.sample(range(len(whole)), 300):
        yield whole[:length]


def blanks(whole, rng):
    for _ in range(100):
        start = rng.randrange(0, len(whole) - 512, 512)
        blank = bytes(rng.choice([512, 4096]))
        yield whole[:start] + blank[: len(whole) - start] + whole[start + len(blank) :]


def additions(whole, rng):
    for _ in range(50):
        i = rng.randrange(len(whole) + 1)
        yield whole[:i] + rng.randbytes(rng.randint(1, 9)) + whole[i:]
    yield whole + whole


@pytest.mark.parametrize("file", ["state.safetensors", "manifest.json"])
@pytest.mark.parametrize("mutations", [flips, cuts, blanks, additions])
def test_every_change_of_a_file_is_found(file, mutations):
    size = 3000 if mutations is blanks and file == "state.safetensors" else 12
    assert count_found(file, size, mutations) >= 50


def test_without_the_hash_a_flipped_bit_would_be_loaded(monkeypatch):
    """The control of the test above: the hash is what finds it."""
    with pair() as (root, newer, _):
        data = bytearray((newer / "state.safetensors").read_bytes())
        data[-20] ^= 4
        (newer / "state.safetensors").write_bytes(data)
        with monkeypatch.context() as patch:
            patch.setattr(snapshot, "_listing", lambda data: mock.ANY)
            found = read_newest(root)
            assert found.step == 2
            assert not same(example(2), found.state)
        assert_found(root, newer)


def swap(a, b):
    a.rename(a.with_name("aside"))
    b.rename(a)
    a.with_name("aside").rename(b)


def link(path, target):
    path.rename(path.parent.parent / "moved")
    path.symlink_to(target)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


STRUCTURAL = {
    "no tensors": lambda new, old: (new / "state.safetensors").unlink(),
    "no manifest": lambda new, old: (new / "manifest.json").unlink(),
    "a foreign file": lambda new, old: (new / "notes").touch(),
    "a file twice": lambda new, old: shutil.copy(new / "manifest.json", new / "manifest.json~"),
    "a foreign directory": lambda new, old: (new / "deeper").mkdir(),
    "an empty directory": lambda new, old: (shutil.rmtree(new), new.mkdir()),
    "a file instead": lambda new, old: (shutil.rmtree(new), new.touch()),
    "the older one again": lambda new, old: (shutil.rmtree(new), shutil.copytree(old, new)),
    "a link to the older one": lambda new, old: (shutil.rmtree(new), new.symlink_to(old.name)),
    "its two files swapped": lambda new, old: swap(
        new / "state.safetensors", new / "manifest.json"
    ),
    "tensors of the older one": lambda new, old: shutil.copy(old / "state.safetensors", new),
    "manifest of the older one": lambda new, old: shutil.copy(old / "manifest.json", new),
    "manifest through a link": lambda new, old: link(new / "manifest.json", "../moved"),
    "tensors through a link": lambda new, old: link(new / "state.safetensors", "../moved"),
    "tensors from a device": lambda new, old: link(new / "state.safetensors", "/dev/zero"),
    "tensors from a pipe": lambda new, old: pipe(new / "state.safetensors"),
}


@pytest.mark.parametrize("damage", STRUCTURAL)
def test_a_snapshot_that_is_not_the_one_written_is_found(damage):
    with pair() as (root, newer, older):
        STRUCTURAL[damage](newer, older)
        assert_found(root, newer)


def test_files_swapped_between_snapshots_are_found():
    with pair() as (root, newer, older):
        swap(newer / "state.safetensors", older / "state.safetensors")
        before = tree(root)
        with pytest.raises(SnapshotError, match=r"SHA-256.*SHA-256"):
            read_newest(root)
        assert tree(root) == before


def test_two_swapped_snapshots_are_both_refused_and_stay():
    with pair() as (root, newer, older):
        swap(newer, older)
        before = tree(root)
        with pytest.raises(SnapshotError, match=r"holds step 1.*holds step 2"):
            read_newest(root)
        assert tree(root) == before


def test_if_none_is_whole_all_are_named_and_nothing_changes():
    with pair() as (root, newer, older):
        (newer / "manifest.json").unlink()
        (older / "state.safetensors").write_bytes(b"")
        before = tree(root)
        with pytest.raises(SnapshotError) as refusal:
            read_newest(root)
        text = str(refusal.value)
        assert text.index("snap-000000000002") < text.index("snap-000000000001")
        assert "'manifest.json'" in text
        assert "SHA-256" in text
        assert tree(root) == before


def test_a_directory_with_only_damaged_snapshots_does_not_pass_for_empty():
    with pair() as (root, newer, older):
        shutil.rmtree(older)
        newer.rename(root / "bad-snap-000000000002")
        with pytest.raises(SnapshotError, match="set aside earlier"):
            read_newest(root)


def test_what_only_looks_like_a_snapshot_does_not_pass_for_none(tmp_path):
    (tmp_path / "snap-12\n").mkdir()
    with pytest.raises(SnapshotError, match="no snapshot") as refusal:
        read_newest(tmp_path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize("call", ["open", "iterdir", "lstat", "fstat"])
def test_what_the_system_cannot_read_is_not_damage(monkeypatch, call, error):
    with pair() as (root, _, _):
        before = tree(root)
        with monkeypatch.context() as patch:
            fail = mock.Mock(side_effect=OSError(error, os.strerror(error)))
            patch.setattr(Path if call in ("iterdir", "lstat") else os, call, fail)
            with pytest.raises(SnapshotError, match=os.strerror(error)):
                read_newest(root)
        assert tree(root) == before
        assert read_newest(root).step == 2


# ---- forgeries -----------------------------------------------------------------------------------


def forge(path, edit=lambda manifest: None, data=None, text=None):
    """Rewrite a snapshot with hashes that are right, as an attacker would."""
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["sha256"]
    if data is not None:
        (path / "state.safetensors").write_bytes(data)
        sha = hashlib.sha256(data).hexdigest()
        manifest["files"] = {"state.safetensors": {"bytes": len(data), "sha256": sha}}
    edit(manifest)
    start = (text(json.dumps(manifest)) if text else json.dumps(manifest))[:-1].encode()
    sha = hashlib.sha256(start).hexdigest()
    (path / "manifest.json").write_bytes(start + b', "sha256": "%s"}\n' % sha.encode())


def test_a_forgery_that_changes_nothing_is_loaded():
    """The control of the forgeries below: they are refused for what they say."""
    with pair() as (root, newer, _):
        before = tree(newer)
        forge(newer, data=(newer / "state.safetensors").read_bytes())
        assert tree(newer) == before
        assert read_newest(root).step == 2


@pytest.mark.parametrize("version", [2, 10**6])
def test_a_newer_format_is_refused_with_both_versions_even_if_an_older_snapshot_is_good(version):
    with pair() as (root, newer, _):
        forge(newer, lambda manifest: manifest.update(format_version=version, new_field=1))
        before = tree(root)
        for call in (
            lambda: read_newest(root),
            lambda: write_snapshot(root, 2, example(2), about={}),
        ):
            with pytest.raises(SnapshotError, match=f"format {version}.* up to 1"):
                call()
        assert tree(root) == before


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, None, [1]])
def test_a_format_that_never_was_is_damage(version):
    with pair() as (root, newer, _):
        forge(newer, lambda manifest: manifest.update(format_version=version))
        assert_found(root, newer)


@pytest.mark.parametrize("field", ["format_version", "step", "about", "files", "state"])
def test_no_field_may_be_missing_of_another_type_or_double(field):
    with pair() as (root, newer, _):
        good = tree(newer)["manifest.json"]
        for edit in (
            lambda manifest: manifest.pop(field),
            lambda manifest: manifest.update({field: [manifest[field]]}),
            lambda manifest: manifest.update({field: None if field != "state" else {"a": 1}}),
            lambda manifest: manifest.update({field + "2": manifest[field]}),
        ):
            forge(newer, edit)
            assert_found(root, newer)
            (root / "bad-snap-000000000002").rename(newer)
            (newer / "manifest.json").write_bytes(good)
        forge(newer, text=lambda text: text.replace(f'"{field}"', f'"{field}": 1, "{field}"'))
        assert_found(root, newer)


JUNK = [None, True, 0, -1, 2**70, 1.5, "x", "", "nan", [], {}, [[]], [0, 1], {"dict": []}]
JUNK += [{"tensor": []}, {"tensor": ["float32", [12]]}, {"tensor": ["float32", [3, 4], [1, 0]]}]
JUNK += [{"float": "1"}, {"float": "nan"}, {"list": {}}, {"tuple": [{}]}, {"dict": {"#01": 1}}]
JUNK += [{"dict": {"%2f": 1}}, {"dict": {"#1": 1, "a": {"tensor": ["float32", [3.0, 4]]}}}]
JUNK += [["float32", [3, 4], order] for order in (5, [0, 0], [True, False], ["0", "1"], [1], {})]
JUNK += [["float32", [3, 4], [0, 1], 1], ["float32"], ["float99", [3, 4]], ["float32", [4, 3]]]


def places(node, place=()):
    """Yield the way to each value in a JSON tree."""
    yield place
    for key in (
        node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    ):
        yield from places(node[key], (*place, key))


def planted(manifest, rng):
    """Put junk in one random place."""
    *way, last = rng.choice([place for place in places(manifest) if place])
    node = manifest
    for key in way:
        node = node[key]
    node[last] = rng.choice(JUNK)


def test_junk_in_any_place_of_a_manifest_is_refused_or_harmless():
    rng, refused = random.Random(0), 0
    with pair() as (root, newer, older):
        shutil.rmtree(older)
        good = tree(newer)["manifest.json"]
        for _ in range(400):
            forge(newer, lambda manifest: planted(manifest, rng))
            try:
                flatten(read_newest(root).state)
            except SnapshotError:
                refused += 1
            (newer / "manifest.json").write_bytes(good)
    assert 200 < refused < 400  # some junk is as good as what it replaced


class Evil:
    def __reduce__(self):
        return os.system, ("touch harm",)


def archive(member):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(member, pickle.dumps(Evil()))
    return buffer.getvalue()


def tensor_file(header, data=bytes(48)):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def hostile_tensors():
    """Yield the bytes of tensor files that are none, or not the one tensor "/w" of zeros (3, 4)."""
    entry = {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}
    good = json.dumps({"/w": entry}).encode()
    yield from (pickle.dumps(Evil(), protocol=n) for n in range(6))
    yield from map(archive, ("archive/data.pkl", "constants.pkl", "../state.safetensors"))
    yield from (struct.pack("<Q", n) + bytes(64) for n in (0, 1, 2**31, 2**60, 2**64 - 1))
    yield from (bytes(n) for n in range(9))
    yield from map(tensor_file, (b"(" * 100, b"[" * 90_000, b"\xff" * 100, {}, {"../w": entry}))
    yield tensor_file({f"/{i}": entry for i in range(300_000)})
    yield tensor_file(good, pickle.dumps(Evil()) + bytes(48))
    yield tensor_file(good[:-1] + b"," + good[1:])  # twice the same name
    yield tensor_file({"/w": entry, "/v": entry})  # overlapping
    yield tensor_file({"/w": entry, "/v": entry | {"data_offsets": [48, 96]}}, bytes(96))
    for dtype in ("F64", "F99", "F8_E8M0", "F4", "I32", "", 1, None):
        yield tensor_file({"/w": entry | {"dtype": dtype}})
    many = [1] * 9000
    for shape in ([], [12], [4, 3], [2**32, 2**32], [2**63, 0], [-3, -4], [3.0, 4], "34", many):
        yield tensor_file({"/w": entry | {"shape": shape}})
    for span in ([0, 0], [0, 47], [0, 49], [8, 56], [48, 0], [0, 2**63], [-48, 0], [0], "0"):
        yield tensor_file({"/w": entry | {"data_offsets": span}})


def hostile_manifests():
    """Yield the bytes of files that are no manifest."""
    yield from (pickle.dumps(Evil()), archive("data.pkl"), b"", b" " * (3 << 20), b"[" * 10**6)
    yield from (b"#!/bin/sh\ntouch harm\n", "{}".encode("utf-16"), bytes(1000), b"{}\n")


def hostile_fields():
    """Yield the way to a field of a manifest, and the JSON text to put there."""
    sha = hashlib.sha256(b"").hexdigest()
    outside = ("../state.safetensors", "/etc/passwd", "", ".", "LOCK", "state.safetensors\0")
    yield from ((["files"], json.dumps({name: {"bytes": 0, "sha256": sha}})) for name in outside)
    yield from ((["files", name], json.dumps({"bytes": 0, "sha256": sha})) for name in outside)
    listed = ["files", "state.safetensors"]
    yield from (([*listed, "bytes"], text) for text in ("-1", "0", "1.5", "null", "true"))
    yield from (([*listed, "bytes"], str(2**70)), ([*listed, "bytes"], '"10"'))
    yield from (([*listed, "sha256"], text) for text in ('""', f'"{sha}"', "null", "5", "[]"))
    yield from (([*listed, "more"], "1"), (listed, "[]"), (["more"], "1"), (["about"], "[]"))
    yield from ((["step"], text) for text in ("-3", "1", "4", str(2**63), "3.0", '"3"', "true"))
    for text in (
        *("9" * 5000, "1e999", "NaN", "-Infinity", '"text', "{}", '{"dict": {"a": 1, "a": 1}}'),
        *('{"list":[' * 400 + "]}" * 400, "[" * 10**5 + "]" * 10**5),
        *('{"__reduce__": ["os.system", "touch harm"]}', "[" + "[]," * 600_000 + "[]]"),
        json.dumps({"dict": {"k" * 10**6: {"list": [0] * 10**5}}}),
    ):
        yield ["state"], text


def forge_field(path, way, text):
    def edit(manifest):
        node = manifest
        for key in way[:-1]:
            node = node[key]
        node[way[-1]] = "HERE"

    forge(path, edit, text=lambda whole: whole.replace('"HERE"', text))


def make_hostile(root):
    """Make a root for each hostile snapshot; all hashes fit, so parsing is what they try."""
    write_snapshot(root / "good", 3, {"w": torch.zeros(3, 4)}, about={})
    numbers = iter(range(10**6))

    def fresh():
        return shutil.copytree(root / "good", root / f"{next(numbers)}") / "snap-000000000003"

    for data in hostile_tensors():
        forge(fresh(), data=data)
    for data in hostile_manifests():
        (fresh() / "manifest.json").write_bytes(data)
    for way, text in hostile_fields():
        forge_field(fresh(), way, text)
    return next(numbers)


# ---- trials in a process of their own ------------------------------------------------------------

FORBIDDEN = ("pickle.find_class", "exec", "compile", "os.system", "os.exec", "os.posix_spawn")
FORBIDDEN += ("subprocess.Popen", "socket.connect", "marshal.loads", "import", "ctypes.dlopen")


def peak_memory():
    """Return the most memory this process has held, in MB, where Linux tells it, or 0."""
    status = Path("/proc/self/status")  # `getrusage` would count the parent's memory before exec
    lines = status.read_text().splitlines() if status.exists() else ["VmHWM: 0 kB"]
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def feed_hostile_files(root):
    """Load each hostile snapshot under an audit hook that sees every dangerous act."""
    seen, watching, wrong, slowest = [], False, [], 0.0

    def watch(event, args):
        writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if watching and (event in FORBIDDEN or writes):
            seen.append([event, str(args)[:100]])

    sys.addaudithook(watch)
    in_child(lambda: make_hostile(root))  # elsewhere, for making them takes memory too
    cases = [path for path in root.iterdir() if path.name != "good"]
    assert read_newest(root / "good").step == 3  # and has imported what it needs
    before = peak_memory()
    for case in sorted(cases, key=lambda path: int(path.name)):
        start, watching = time.process_time(), True
        try:
            wrong.append(f"{case.name} is loaded: {read_newest(case)}")
        except SnapshotError as refusal:
            wrong += [f"{case.name}: {refusal}"] if "\n" in str(refusal) else []
        finally:
            watching = False
        slowest = max(slowest, time.process_time() - start)
    memory = peak_memory() - before
    acts, watching = list(seen), True
    pickle.loads(pickle.dumps(Evil()))  # the control: the hook does see this
    watching = False
    result = {"cases": len(cases), "wrong": wrong, "acts": acts, "control": seen[len(acts) :]}
    return result | {"s": slowest, "mb": memory}


def all_whole(root):
    """Load every snapshot there is: none may be half written or half removed."""
    return all(snapshot._load(path) for path in root.glob("snap-*"))


def live(root):
    """Write snapshots for ever, from where the last life was killed."""
    found = read_newest(root)
    step = found.step + 1 if found else 0
    while True:
        write_snapshot(root, step, example(step, 3000), about={"step": step})
        step += 1


def kill_at_random(root, kills=40):
    """Kill a writing child again and again; what it left must load each time."""
    rng, torn, steps, span = random.Random(0), 0, [-1], 0.03
    for _ in range(kills):
        if not (child := os.fork()):
            live(root)
        span = 0.03 if len(set(steps[-2:])) == 2 else 1.5 * span  # a slow disk gets more time
        time.sleep(rng.uniform(0, span))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        if not root.is_dir():
            continue
        assert all(name.startswith(("snap-", ".tmp-snap-")) for name in names(root)), names(root)
        torn += any(name.startswith(".tmp-") for name in names(root))
        if found := read_newest(root):
            assert found.skipped == ()
            assert all_whole(root)
            assert found.step >= steps[-1]
            assert same(example(found.step, 3000), found.state)
            steps.append(found.step)
        else:
            assert steps == [-1]
    return {"kills": kills, "torn": torn, "steps": steps}


DEAD = 250
OPERATIONS = ("open", "write", "fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "close")


def die_at(point):
    """Count the operations on the disk; end this process before or after one: (number, when)."""
    number = 0

    def wrapped(real):
        def call(*args, **kwargs):
            nonlocal number
            number += 1
            if (number, "before") == point:
                os._exit(DEAD)
            mine = number
            try:
                return real(*args, **kwargs)
            finally:
                if (mine, "after") == point:
                    os._exit(DEAD)

        return call

    for name in OPERATIONS:
        setattr(os, name, wrapped(getattr(os, name)))
    return lambda: number


def in_child(act):
    """Run something in a forked child that ends without cleaning up; return what it exits with."""
    if not (child := os.fork()):
        code = 99
        try:
            code = act()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at_each_operation(root, start, step):
    """Write one step from a prepared directory, dying at each operation; return what was found."""

    def write(point):
        operations = die_at(point)
        write_snapshot(root / "now" / "here", step, example(step), about={})
        return operations()

    def prepared():
        shutil.rmtree(root / "now", ignore_errors=True)
        shutil.copytree(start, root / "now")

    prepared()
    total = in_child(lambda: write(None))
    finished, damaged, found = tree(root / "now"), 0, []
    for point in ((n, when) for n in range(1, total + 1) for when in ("before", "after")):
        prepared()
        assert in_child(lambda point=point: write(point)) == DEAD
        try:
            newest = read_newest(root / "now" / "here")
        except SnapshotError:
            damaged += 1
            continue
        damaged += bool(newest and newest.skipped)
        assert all_whole(root / "now" / "here")
        assert newest is None or same(example(newest.step), newest.state)
        found.append(newest.step if newest else None)
        write_snapshot(root / "now" / "here", step, example(step), about={})
        if not (newest and newest.skipped):
            assert tree(root / "now") == finished
    return {"points": 2 * total, "damaged": damaged, "found": found}


def torn_write(final, files):
    """The sabotage: write in place, as one would without thinking of kills."""
    final.mkdir()
    for name, data in files.items():
        durable.write_file(final / name, data)


def kill_at_every_operation(root):
    """Kill the first write of all, one that also removes, and the first again, sabotaged."""
    os.fsync = lambda fd: None  # still counted below; nobody cuts the power
    (root / "empty").mkdir(parents=True)
    for step in (1, 2):
        write_snapshot(root / "full" / "here", step, example(step), about={})
    left = shutil.copytree(
        root / "full" / "here" / "snap-000000000002", root / "full" / "here" / ".tmp-x"
    )
    (left / "manifest.json").unlink()
    results = {
        "first": die_at_each_operation(root, root / "empty", 0),
        "later": die_at_each_operation(root, root / "full", 3),
    }
    durable.write_dir_atomically = torn_write
    return results | {"torn": die_at_each_operation(root, root / "empty", 0)}


TRIALS = {
    trial.__name__: trial for trial in (feed_hostile_files, kill_at_random, kill_at_every_operation)
}


def run_trial(name, root):
    """Run a trial in a new process: it forks, and must not have the threads of this one."""
    command = [sys.executable, __file__, name, str(root / "trial")]
    done = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_hostile_files_are_refused_and_nothing_they_say_is_done(tmp_path):
    result = run_trial("feed_hostile_files", tmp_path)
    print(result["cases"], "hostile, slowest", result["s"], "s,", result["mb"], "MB")
    assert not result["wrong"]
    assert result["cases"] > 100
    assert result["acts"] == []
    assert {event for event, _ in result["control"]} >= {"pickle.find_class", "os.system"}
    assert result["s"] < 1
    assert result["mb"] < 64


def test_a_writer_may_be_killed_at_any_time(tmp_path):
    result = run_trial("kill_at_random", tmp_path)
    print({key: value for key, value in result.items() if key != "steps"}, result["steps"][-1])
    assert result["torn"] >= 5  # or the kills came at idle times
    assert result["steps"][-1] >= 5


def test_a_writer_may_be_killed_before_and_after_every_operation(tmp_path):
    result = run_trial("kill_at_every_operation", tmp_path)
    for way, outcomes in (("first", {None, 0}), ("later", {2, 3})):
        print(way, "write:", result[way]["points"], "points")
        assert result[way]["damaged"] == 0
        assert len(result[way]["found"]) == result[way]["points"] >= 40
        assert set(result[way]["found"]) == outcomes
    assert result["torn"]["damaged"] > 0  # the control: these kills do tear what is not careful


# ---- the source ----------------------------------------------------------------------------------

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "torch.save", "yaml.load"}
CALLS |= {"os.system", "os.popen"}
METHODS = {"extractall"}
FLAGS = {("allow_pickle", True), ("shell", True), ("weights_only", False)}
# CIFAR comes as pickles: one file reads them, with an unpickler that admits nothing but arrays.
MAY_IMPORT_PICKLE = {"data/sets/cifar_pickle.py"}
# A pretrained network's weights come in PyTorch's old format: that one file, known by its SHA-256.
MAY_LOAD = {("nn/backbones/weights.py", "torch.load")}


def dangers(source):
    """Yield what in a source file could run data as code or write where an archive says."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            full = [node.module or ""] + [f"{node.module}.{a.name}" for a in node.names]
            yield from (n for n in full if n.split(".")[0] in MODULES or n in CALLS)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in CALLS or called.split(".")[-1] in METHODS:
                yield called
            flags = ((k.arg, getattr(k.value, "value", None)) for k in node.keywords)
            yield from (name for name, value in flags if (name, value) in FLAGS)


def test_nothing_in_the_package_can_run_data_as_code():
    package = Path(snapshot.__file__).parents[1]
    found = {
        (path.relative_to(package).as_posix(), danger)
        for path in package.rglob("*.py")
        for danger in dangers(path.read_text(encoding="utf-8"))
    }
    unpacking = {("data/download.py", f"{x}.extractall") for x in ("tar", "opened")}
    reading = {(path, "pickle") for path in MAY_IMPORT_PICKLE} | MAY_LOAD
    assert found == reading | unpacking  # with filters


@pytest.mark.parametrize(
    "source",
    [
        *(
            "import pickle",
            "from pickle import loads",
            "import dill as d",
            "from torch import load",
        ),
        *("torch.load(f)", "torch.save(x, f)", "eval('1')", "exec(s)", "archive.extractall(p)"),
        *("np.load(f, allow_pickle=True)", "run(c, shell=True)", "from marshal import loads"),
    ],
)
def test_the_scan_sees_each_danger(source):
    assert list(dangers(source))
    assert not list(dangers("net.eval(); re.compile('a'); np.load(f, allow_pickle=False)"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(TRIALS[sys.argv[1]](Path(sys.argv[2]))))
