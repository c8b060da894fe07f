"""Residual correction against a triple loop, the rings of features against plain queues."""

from collections import deque

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from earl.methods.earl.residuals import ResidualMemory
from residual_tools import filled, stored
from seeds import generator

close = torch.testing.assert_close


# ---- rings


def tagged(first, count, d=2):
    """Return features that can be told apart: the i-th holds the number first + i."""
    return torch.arange(first, first + count).float()[:, None].expand(-1, d)


@settings(max_examples=150, deadline=None)
@given(
    per_class=st.integers(1, 4),
    pushes=st.lists(st.lists(st.integers(0, 5), max_size=12), max_size=12),
)
def test_rings_hold_what_queues_hold(per_class, pushes):
    memory, queues, tag = ResidualMemory(per_class, 2), {}, 0
    for labels in pushes:
        n = max([len(queues), *(c + 1 for c in labels)])
        memory.extend(n)
        for c in range(n):
            queues.setdefault(c, deque(maxlen=per_class))
        memory.push(tagged(tag, len(labels)), torch.tensor(labels, dtype=torch.int64))
        for c in labels:
            queues[c].append(tag)
            tag += 1
        assert stored(memory) == {c: sorted(q) for c, q in queues.items() if q}


def test_an_empty_store_has_no_pairs():
    memory = ResidualMemory(10, 4)
    for n in (0, 3):
        memory.extend(n)
        h, y = filled(memory)
        assert h.shape == (0, 4) and y.shape == (0,) and y.dtype == torch.int64
        assert len(memory) == 0


def test_the_caller_may_reuse_its_features():
    memory = ResidualMemory(2, 2)
    memory.extend(1)
    f_hat = tagged(5, 2).clone()
    memory.push(f_hat, torch.tensor([0, 0]))
    f_hat.fill_(-1)
    assert stored(memory) == {0: [5, 6]}


def test_extending_keeps_what_is_stored():
    memory = ResidualMemory(3, 2)
    memory.extend(2)
    memory.push(tagged(0, 5), torch.tensor([0, 1, 0, 0, 0]))
    before = stored(memory)
    for n in (2, 1, 3, 40, 41):
        memory.extend(n)
        assert stored(memory) == before
    memory.push(tagged(9, 1), torch.tensor([40]))
    assert stored(memory) == {**before, 40: [9]}


def test_rings_take_about_the_bytes_of_their_features():
    memory = ResidualMemory(10, 16)
    for n in range(1, 101):
        memory.extend(n)
        assert 4 * 16 * 10 * n <= memory.nbytes() <= 4 * 16 * 10 * (n * 9 / 8 + 1)


@settings(max_examples=50, deadline=None)
@given(
    per_class=st.integers(1, 4),
    before=st.lists(st.integers(0, 4), max_size=20),
    after=st.lists(st.integers(0, 6), max_size=20),
)
@example(per_class=2, before=[0, 0, 0], after=[0])
def test_loaded_rings_continue_identically(per_class, before, after):
    old, new = ResidualMemory(per_class, 2), ResidualMemory(per_class, 2)
    old.extend(5)
    old.push(tagged(0, len(before)), torch.tensor(before, dtype=torch.int64))
    new.load_state_dict(old.state_dict())
    assert torch.equal(filled(old)[0], filled(new)[0])
    for memory in (old, new):
        memory.extend(7)
        memory.push(tagged(100, len(after)), torch.tensor(after, dtype=torch.int64))
    for a, b in zip(filled(old), filled(new), strict=True):
        assert torch.equal(a, b)


def test_loaded_rings_share_nothing_with_the_state_they_came_from():
    old, new = ResidualMemory(2, 2), ResidualMemory(2, 2)
    old.extend(1)
    old.push(tagged(0, 2), torch.tensor([0, 0]))
    new.load_state_dict(old.state_dict())
    new.push(tagged(5, 2), torch.tensor([0, 0]))
    assert stored(old) == {0: [0, 1]} and stored(new) == {0: [5, 6]}


def test_only_real_samples_are_stored(make, dataset):
    learner = make("earl", batch_size=8)
    pushed = []
    push = learner.residuals.push

    def remembered(f_hat, y, taken):
        pushed.append((f_hat, y))
        push(f_hat, y, taken)

    learner.residuals.push = remembered
    real = 8 - 8 // 2  # half of each batch is preparatory
    for i in torch.randperm(len(dataset.train), generator=generator())[:24].split(1):
        learner.observe(dataset.train.images[i], dataset.train.labels[i])
        f_hat, y = pushed[-1]
        assert len(f_hat) == len(y) == min(real, len(learner.memory))
        assert int(y.max()) < len(learner.classes) and not f_hat.requires_grad
    assert len(pushed) == 24
    h, y = filled(learner.residuals)
    assert int(y.bincount().max()) <= 10
    close(h.norm(dim=1), torch.ones(len(h)))


@pytest.mark.parametrize("no", [False, torch.tensor(False)])
def test_nothing_is_stored_of_a_step_that_was_not_taken(no):
    memory = ResidualMemory(2, 3)
    memory.extend(1)
    memory.push(torch.eye(3)[:2], torch.tensor([0, 0]))
    before = memory.pairs()[0].clone()
    memory.push(torch.full((2, 3), float("nan")), torch.tensor([0, 0]), no)
    assert torch.equal(memory.pairs()[0], before)
