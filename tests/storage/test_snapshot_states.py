"""Snapshots hold states: they come back bit for bit, and what would not is refused."""

import json
import math
import tempfile
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from earl.errors import SnapshotError
from earl.storage import snapshot
from earl.storage.snapshot import read_newest, write_snapshot
from earl.storage.state import digest, flatten, unflatten
from snapshots import same, tree, unflushed  # noqa: F401

DTYPES = (torch.uint8, torch.int64, torch.float32, torch.float64, torch.bool, torch.bfloat16)
DTYPES += (torch.int8, torch.int16, torch.int32, torch.float16)


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


@settings(max_examples=60)
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


@settings(max_examples=60)
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


def test_what_could_not_be_read_back_for_its_size_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "MANIFEST_LIMIT", 20_000)
    monkeypatch.setattr(snapshot, "HEADER_LIMIT", 8_000)
    write_snapshot(tmp_path / "small", 0, [*range(500), *[torch.zeros(1)] * 50], about={})
    with pytest.raises(SnapshotError, match="keep long lists as tensors"):
        write_snapshot(tmp_path / "large", 0, {"a": list(range(5000))}, about={})
    with pytest.raises(SnapshotError, match="too many"):
        write_snapshot(tmp_path / "large", 0, [torch.zeros(1)] * 200, about={})
    assert tree(tmp_path / "large") == {}
