"""Running means of classes against means that are taken at once."""

import torch

from earl.methods.frozen.nc_fscil import ClassMeans
from seeds import generator as seeded


def test_running_means_equal_those_of_all_rows_at_once() -> None:
    x, y = torch.randn(50, 3, 2, 2, generator=seeded()), torch.arange(50) % 7 % 5
    means = ClassMeans()
    for part in torch.arange(50).split(6):
        means.add(seeded(), x=x[part], y=y[part])
    assert len(means) == 5 and means.seen == 50
    drawn, classes = means.sample(9, "x", "y", generator=seeded())
    assert sorted(classes.tolist()) == [0, 1, 2, 3, 4]
    for mean, c in zip(drawn, classes, strict=True):
        torch.testing.assert_close(mean, x[y == c].mean(dim=0), atol=1e-6, rtol=1e-5)


def test_only_classes_that_have_come_are_drawn_each_once() -> None:
    means = ClassMeans()
    means.add(seeded(), x=torch.ones(2, 1), y=torch.tensor([4, 1]))
    assert len(means) == 2
    sets = set()
    for seed in range(9):
        (y,) = means.sample(1, "y", generator=seeded(seed))
        sets.add(tuple(y.tolist()))
    assert sets == {(4,), (1,)}
    assert means.sample(0, "x", generator=seeded())[0].shape == (0, 1)


def test_means_survive_a_restart() -> None:
    old, new = ClassMeans(), ClassMeans()
    new.load_state_dict(old.state_dict())
    assert len(new) == 0
    x, y = torch.randn(9, 2, generator=seeded()), torch.arange(9) % 4
    old.add(seeded(), x=x[:5], y=y[:5])
    new.load_state_dict(
        {k: v.clone() if torch.is_tensor(v) else v for k, v in old.state_dict().items()}
    )
    for means in (old, new):
        means.add(seeded(), x=x[5:], y=y[5:])
    assert new.seen == 9
    for a, b in zip(*(m.sample(4, "x", "y", generator=seeded()) for m in (old, new)), strict=True):
        assert torch.equal(a, b)
