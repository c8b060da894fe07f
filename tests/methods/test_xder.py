"""X-DER against its paper: the update recomputed naively, and logits that go where they ought."""

from collections.abc import Callable

import torch
from hypothesis import given
from hypothesis import strategies as st

from earl.data.dataset import Dataset
from earl.learning.passes import ask
from earl.methods.xder import XDER, TaskRanges, mean_positive, renew
from earl.nn.build import build
from earl.nn.modes import frozen_norm_stats, train_forward
from earl.nn.resnet import ResNet
from earl.storage.state import digest
from xder_tools import FUTURE, column, naive_renew, observe

Make = Callable[..., XDER]


def test_a_boundary_renews_every_entry_of_a_past_class_and_no_other(
    xder: Make, dataset: Dataset
) -> None:
    learner = xder(memory_size=100)
    observe(learner, dataset, [0, 1] * 4)
    start = column(learner, "logits")
    learner.end_task()
    assert torch.equal(column(learner, "logits").nan_to_num(7), start.nan_to_num(7))  # no past yet
    observe(learner, dataset, [2, 3, 2, 3, 2], start=8)
    looked = learner.work.forwards
    learner.finish()
    before, Y = column(learner, "logits"), column(learner, "y")
    z = ask(learner.network, learner.setting, dataset.train.images[:13])[:, : 4 + FUTURE]
    learner.end_task()
    after = column(learner, "logits")
    for row, y in enumerate(Y.tolist()):
        expected = before[row].clone()
        if y < 2:
            expected[: 4 + FUTURE] = naive_renew(before[row, : 4 + FUTURE], z[row], y, 2, 0.85)
            assert not torch.equal(after[row, 2 : 4 + FUTURE], before[row, 2 : 4 + FUTURE])
        torch.testing.assert_close(after[row], expected, equal_nan=True)
    assert learner.work.forwards - looked == 8
    assert column(learner, "replays").eq(0).all()
    assert learner.heads.starts == [0, 2, 4]


def test_a_new_class_enters_the_memory_with_past_logits_below_its_own(
    xder: Make, dataset: Dataset
) -> None:
    learner = xder(memory_size=100)
    observe(learner, dataset, [0, 1] * 10)
    learner.end_task()
    observe(learner, dataset, [2, 3] * 10, start=20)
    stored, Y = column(learner, "logits")[20:], column(learner, "y")[20:]
    own = stored.gather(1, Y[:, None])[:, 0]
    assert (stored[:, :2].amax(dim=1) <= own + 1e-6).all()


@given(
    st.lists(st.floats(-50, 50, width=32), min_size=5, max_size=5),
    st.lists(st.floats(-50, 50, width=32), min_size=5, max_size=5),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_renewed_logits_are_finite_and_below_the_own_one(
    stored: list[float], z: list[float], y: int, start: int
) -> None:
    old, new = torch.tensor([stored]), torch.tensor([z])
    out = renew(old, new, torch.tensor([y]), slice(start, 5), 0.85)
    assert out.isfinite().all()
    assert torch.equal(out[:, :start], old[:, :start])
    torch.testing.assert_close(
        out[0], naive_renew(old[0], new[0], y, start, 0.85), atol=1e-4, rtol=1e-4
    )
    assert float(out[0, start:].max()) <= stored[y] + 1e-4
    if max(z[start:]) <= stored[y]:
        assert torch.equal(out[:, start:], new[:, start:])


def test_gaps_of_logits_stay_unknown(xder: Make, dataset: Dataset) -> None:
    """An entry older than a class, but never replayed since, gains only the heads from now on."""
    learner = xder(future=1, memory_size=100, iterations=0.01)
    observe(learner, dataset, [0, 0])
    observe(learner, dataset, [1, 2, 3, 4], start=2)
    learner.end_task()
    observe(learner, dataset, [5, 6], start=6)
    learner.end_task()  # entry 0 knew of rows 0 and 1; rows 5, 6 and one of the future are new
    known = ~column(learner, "logits")[0].isnan()
    assert known.nonzero().flatten().tolist() == [0, 1, 5, 6, 7]


def test_heads_are_the_tasks_in_which_classes_first_appeared() -> None:
    heads = TaskRanges()
    for n in (2, 5, 5, 6):
        heads.close(n)
    assert heads.of(torch.arange(8)).tolist() == [0, 0, 1, 1, 1, 3, 4, 4]
    assert heads.present == heads.first_rival == 6
    heads.arrive(6)
    assert heads.first_rival == 6
    heads.arrive(5)
    assert heads.first_rival == 0
    heads.close(7)
    assert heads.first_rival == 0  # tasks that have mixed once may do so again
    other = TaskRanges()
    other.load_state_dict(heads.state_dict())
    assert vars(other) == vars(heads)


def test_a_new_class_takes_over_the_row_that_was_prepared(xder: Make, dataset: Dataset) -> None:
    learner = xder()
    fresh = learner.network.head.weight.detach().clone()
    observe(learner, dataset, [0, 1] * 10)
    trained = learner.network.head.weight.detach().clone()
    assert not torch.equal(trained[2], fresh[2])
    assert torch.equal(trained[2 + FUTURE :], fresh[2 + FUTURE :])
    observe(learner, dataset, [2], start=20)  # it waits
    assert torch.equal(learner.network.head.weight, trained)
    assert len(learner.classes) == 3


def test_classes_and_future_rows_never_run_out(xder: Make, dataset: Dataset) -> None:
    learner = xder(memory_size=50)
    for start in range(0, 40, 10):
        observe(learner, dataset, list(range(start, start + 10)), start=start)
        learner.end_task()
    assert len(learner.network.head.weight) == 64
    assert 40 + FUTURE <= column(learner, "logits").shape[1] <= (40 + FUTURE) * 9 / 8
    assert learner.scores(dataset.test.images[:3]).shape == (3, 40)
    assert torch.isfinite(learner.scores(dataset.test.images)).all()


def test_an_untracked_pass_gives_what_a_training_pass_gives() -> None:
    network = build(lambda: ResNet(depth=8, width=4), torch.Generator().manual_seed(1))
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    before = digest(network.state_dict())
    with frozen_norm_stats(network):
        z = train_forward(network, x)
    assert digest(network.state_dict()) == before
    assert torch.equal(z, train_forward(network, x))
    assert digest(network.state_dict()) != before


def test_it_goes_on_exactly_across_a_boundary(xder: Make, dataset: Dataset) -> None:
    learner, fresh = xder(iterations=0.75), xder(iterations=0.75)
    observe(learner, dataset, [0, 1] * 10)
    learner.end_task()
    observe(learner, dataset, [2, 3, 2, 3, 3], start=20)
    fresh.load_state_dict(learner.state_dict())
    for one in (learner, fresh):
        observe(one, dataset, [2, 3, 2, 0], start=25)
        one.end_task()
        observe(one, dataset, [4, 5, 4], start=29)
        one.finish()
    assert digest(learner.state_dict()) == digest(fresh.state_dict())


def test_mean_positive() -> None:
    assert float(mean_positive(torch.tensor([-1.0, 2.0, 0.0, 4.0]))) == 3
    assert float(mean_positive(torch.tensor([-1.0]))) == float(mean_positive(torch.empty(0))) == 0
