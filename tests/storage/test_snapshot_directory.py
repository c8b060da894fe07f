"""A directory of snapshots: the newest are kept, none is overwritten, learning goes on from it."""

import errno
import os
from unittest import mock

import pytest
import torch
from torch import nn

from earl.errors import SnapshotError
from earl.storage import files as durable
from earl.storage.snapshot import read_newest, write_snapshot
from earl.storage.state import digest
from snapshots import example, names, same, unchanged, unflushed  # noqa: F401

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
    for call in ("write", "rename", "mkdir"):
        with unchanged(tmp_path), monkeypatch.context() as patch:
            patch.setattr(os, call, mock.Mock(side_effect=OSError(errno.ENOSPC, "full")))
            with pytest.raises(OSError, match="full"):
                write_snapshot(tmp_path, 3, example(3), about={})


def test_the_same_state_twice_changes_nothing(tmp_path):
    path = write_snapshot(tmp_path, 1, example(1), about={"a": 1})
    before = path.stat().st_ino
    with unchanged(tmp_path):
        assert write_snapshot(tmp_path, 1, example(1), about={"a": 2}) == path
    assert path.stat().st_ino == before


def test_a_snapshot_found_in_place_is_flushed_before_older_ones_go(tmp_path, monkeypatch):
    for step in (1, 2):
        write_snapshot(tmp_path, step, example(step), about={})
    acts = []
    monkeypatch.setattr(durable, "fsync_dir", lambda path: acts.append(("flush", path)))
    monkeypatch.setattr(durable, "remove", lambda path: acts.append(("remove", path)))
    write_snapshot(tmp_path, 2, example(2), about={}, keep=1)  # its writer was killed, say
    assert acts == [("flush", tmp_path), ("remove", tmp_path / ".tmp-snap-000000000001")]


@pytest.mark.parametrize(("step", "said"), [(5, "holds another state"), (4, "later than step 4")])
def test_another_state_of_the_newest_step_or_of_an_earlier_one_is_refused(tmp_path, step, said):
    write_snapshot(tmp_path, 5, example(5), about={})
    with unchanged(tmp_path), pytest.raises(SnapshotError, match=said):
        write_snapshot(tmp_path, step, example(4), about={})


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
