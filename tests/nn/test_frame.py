"""The vectors in use are those of the frame, and no others are made."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from earl.nn.etf import Frame, SimplexETF


def whole(etf):
    """Return all K vectors as rows."""
    return etf.vectors(torch.arange(etf.K))


class Largest(TorchDispatchMode):
    """Context that remembers the largest number of elements of any tensor made inside."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sizes = [t.numel() for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        self.numel = max([self.numel, *sizes])
        return out


# ---- the vectors in use


@pytest.mark.parametrize("d", [1, 7, 64])
def test_rows_of_a_frame_are_the_vectors(d):
    etf = SimplexETF(d, 0)
    frame = Frame(etf)
    expected = whole(etf).float()
    for n in (0, 1, d // 2, d + 1, 1):
        assert torch.equal(frame.class_vectors(n), expected[:n])
    for indices in (torch.tensor([d]), torch.tensor([d // 2, d, d // 2]), torch.arange(d + 1)):
        assert torch.equal(frame.preparatory_vectors(indices), expected[indices])
    assert frame.preparatory_vectors(torch.empty(0, dtype=torch.int64)).shape == (0, d)


def test_rows_handed_out_stay_when_the_frame_extends():
    frame = Frame(SimplexETF(12, 0))
    front, back = frame.class_vectors(2), frame.preparatory_vectors(torch.tensor([12, 11]))
    before = front.clone(), back.clone()
    frame.class_vectors(13), frame.preparatory_vectors(torch.arange(13))
    assert torch.equal(front, before[0]) and torch.equal(back, before[1])


def test_a_frame_holds_about_the_rows_in_use_and_never_a_matrix():
    d, classes, targets = 4096, 100, 300
    frame = Frame(SimplexETF(d, 0))
    with Largest() as largest:
        for n in range(1, classes + 1):
            frame.class_vectors(n)
            frame.preparatory_vectors(torch.arange(d, d - 3 * n, -1))
            assert frame.nbytes() <= 4 * d * (4 * n * 9 / 8 + 2)
    assert 4 * d * (classes + targets) <= frame.nbytes() <= 8e6
    assert largest.numel <= 9 / 8 * targets * d  # d x K would be 4097 rows


def test_a_frame_asked_for_all_its_rows_at_once_makes_no_larger_tensor():
    d = 1024
    frame = Frame(SimplexETF(d, 0))
    with Largest() as largest:
        frame.class_vectors(50)
        frame.preparatory_vectors(torch.arange(d, d - 150, -1))
    assert largest.numel <= 150 * d


def test_more_classes_than_vectors_are_an_error():
    frame = Frame(SimplexETF(7, 0))
    with pytest.raises(IndexError):
        frame.class_vectors(9)


@pytest.mark.parametrize("index", [-1, 8])
def test_a_preparatory_target_outside_the_frame_is_an_error(index):
    frame = Frame(SimplexETF(7, 0))
    frame.preparatory_vectors(torch.arange(8))
    with pytest.raises(IndexError):
        frame.preparatory_vectors(torch.tensor([7, index]))
