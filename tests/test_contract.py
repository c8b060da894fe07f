"""What every method must keep, whatever it does inside."""

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from earl.catalogue import METHODS
from earl.datasets.dataset import Dataset
from earl.errors import EarlError, InvalidInput
from earl.learner import UNKNOWN, Learner
from earl.snapshot import read_newest, write_snapshot
from earl.state import digest

DOCS = Path(__file__).parent.parent / "docs" / "methods"
Make = Callable[..., Learner]
every_method = pytest.mark.parametrize("name", METHODS.names())


def samples(dataset: Dataset, n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return n training samples in a random order; class ids 0 to 3 become 7, 3, 11 and 2."""
    order = torch.randperm(len(dataset.train), generator=torch.Generator().manual_seed(seed))[:n]
    ids = torch.tensor([7, 3, 11, 2])
    return dataset.train.images[order], ids[dataset.train.labels[order]]


def teach(learner: Learner, x: Tensor, y: Tensor, batch: int = 1) -> None:
    for part in torch.arange(len(y)).split(batch):
        learner.observe(x[part], y[part])


@every_method
def test_nothing_is_known_before_the_first_sample(name: str, make: Make, dataset: Dataset) -> None:
    assert make(name).predict(dataset.test.images[:3]).tolist() == [UNKNOWN] * 3


@every_method
def test_only_seen_classes_are_predicted(name: str, make: Make, dataset: Dataset) -> None:
    learner = make(name)
    x, y = samples(dataset, 40)
    seen: set[int] = set()
    for i in range(len(y)):
        learner.observe(x[i : i + 1], y[i : i + 1])
        seen.add(int(y[i]))
        assert set(learner.predict(dataset.test.images[::5]).tolist()) <= seen
        assert learner.scores(x[:2]).shape == (2, len(seen))


@every_method
def test_asking_changes_nothing(name: str, make: Make, dataset: Dataset) -> None:
    learner, silent = make(name), make(name)
    x, y = samples(dataset, 30)
    for i in range(len(y)):
        if i and i % 3 == 0:
            before, copy = digest(learner.state_dict()), x.clone()
            learner.predict(x)
            learner.scores(x[:1])
            learner.costs()
            assert digest(learner.state_dict()) == before
            assert torch.equal(x, copy)
        learner.observe(x[i : i + 1], y[i : i + 1])
        silent.observe(x[i : i + 1], y[i : i + 1])
    assert digest(learner.state_dict()) == digest(silent.state_dict())


@every_method
def test_observing_does_not_change_its_input(name: str, make: Make, dataset: Dataset) -> None:
    learner = make(name)
    x, y = samples(dataset, 20)
    copies = x.clone(), y.clone()
    teach(learner, x, y, batch=5)
    assert torch.equal(x, copies[0]) and torch.equal(y, copies[1])


@every_method
def test_the_caller_may_reuse_its_buffers(name: str, make: Make, dataset: Dataset) -> None:
    learner, other = make(name), make(name)
    x, y = samples(dataset, 30)
    for i in range(len(y)):
        image, label = x[i : i + 1].clone(), y[i : i + 1].clone()
        learner.observe(image, label)
        image.zero_(), label.zero_()
        other.observe(x[i : i + 1], y[i : i + 1])
    assert torch.equal(learner.scores(x), other.scores(x))


@every_method
@pytest.mark.parametrize("batch", [2, 7, 30])
def test_many_samples_at_once_equal_one_by_one(
    name: str, batch: int, make: Make, dataset: Dataset
) -> None:
    one, many = make(name), make(name)
    x, y = samples(dataset, 30)
    teach(one, x, y)
    teach(many, x, y, batch)
    assert digest(one.state_dict()) == digest(many.state_dict())


@every_method
def test_memory_is_bounded(name: str, make: Make, dataset: Dataset) -> None:
    learner = make(name, memory_size=7)
    x, y = samples(dataset, 60)
    teach(learner, x, y, batch=4)
    assert 0 < len(learner.memory) <= 7  # type: ignore[attr-defined]


@every_method
def test_same_seed_same_scores_and_no_global_randomness(
    name: str, make: Make, dataset: Dataset
) -> None:
    x, y = samples(dataset, 30)
    before = torch.get_rng_state()
    one, same, other = make(name), make(name), make(name, seed=2)
    for learner in (one, same, other):
        teach(learner, x, y)
        learner.predict(x)
        torch.rand(1, generator=torch.Generator())
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.scores(x), same.scores(x))
    assert not torch.equal(one.scores(x), other.scores(x))


@every_method
@pytest.mark.parametrize("at", [1, 13, 22])
def test_a_saved_learner_goes_on_exactly(
    name: str, at: int, make: Make, dataset: Dataset, tmp_path: Path
) -> None:
    """Saved while updates are part-owed and samples wait; scores, because labels hide much."""
    learner, fresh = make(name, iterations=0.75), make(name, iterations=0.75)
    x, y = samples(dataset, 40)
    teach(learner, x[:at], y[:at])
    write_snapshot(tmp_path, at, learner.state_dict(), about={})
    snapshot = read_newest(tmp_path)
    assert snapshot is not None
    fresh.load_state_dict(snapshot.state)
    assert torch.equal(learner.scores(x), fresh.scores(x))
    for other in (learner, fresh):
        teach(other, x[at:], y[at:])
        other.finish()
    assert torch.equal(learner.scores(x), fresh.scores(x))
    assert digest(learner.state_dict()) == digest(fresh.state_dict())


@every_method
def test_it_learns(name: str, make: Make, dataset: Dataset) -> None:
    learner = make(name)
    x, y = samples(dataset, 160)
    teach(learner, x, y)
    learner.finish()
    ids = torch.tensor([7, 3, 11, 2])[dataset.test.labels]
    accuracy = float((learner.predict(dataset.test.images) == ids).float().mean())
    assert accuracy > 0.8  # chance is 0.25


@every_method
@pytest.mark.parametrize("iterations", [0.25, 1, 2.25, 3])
def test_updates_follow_the_iterations(
    name: str, iterations: float, make: Make, dataset: Dataset
) -> None:
    learner = make(name, iterations=iterations)
    x, y = samples(dataset, 30)
    teach(learner, x, y)
    learner.finish()
    assert learner.work.updates == int(iterations * 30)
    assert learner.costs()["updates"] == learner.work.updates


@every_method
@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_tiny_settings_work(name: str, batch_size: int, make: Make, dataset: Dataset) -> None:
    """A batch and a memory of one, a single class, a single sample."""
    learner = make(name, memory_size=1, batch_size=batch_size)
    x, y = samples(dataset, 12)
    learner.observe(x[:1], y[:1])
    assert learner.predict(x[:1]).tolist() == y[:1].tolist()
    teach(learner, x[1:], y[1:])
    learner.finish()
    assert torch.isfinite(learner.scores(x)).all()


@every_method
def test_a_boundary_and_an_early_end_are_harmless(name: str, make: Make, dataset: Dataset) -> None:
    learner = make(name)
    x, y = samples(dataset, 24)
    learner.finish()
    learner.end_task()
    teach(learner, x[:11], y[:11])
    learner.end_task()
    learner.finish()
    teach(learner, x[11:], y[11:])
    assert torch.isfinite(learner.scores(x)).all()


BAD_IMAGES = {
    "not a tensor": lambda x: x.numpy(),
    "float": lambda x: x.float() / 255,
    "NaN": lambda x: torch.full(x.shape, float("nan")),
    "int64": lambda x: x.long(),
    "one image without a batch": lambda x: x[0],
    "no images": lambda x: x[:0],
    "another size": lambda x: x[:, :, :-1],
    "another channel": lambda x: x[:, :1],
    "five dimensions": lambda x: x[None],
}
BAD_LABELS = {
    "list": lambda y: y.tolist(),
    "float": lambda y: y.float(),
    "NaN": lambda y: torch.full(y.shape, float("nan")),
    "bool": lambda y: y > 1,
    "negative": lambda y: torch.where(torch.arange(len(y)) == 1, -1, y),
    "too few": lambda y: y[1:],
    "a column": lambda y: y[:, None],
    "a scalar": lambda y: y[0],
    "beyond int64": lambda y: torch.full(y.shape, 2**63, dtype=torch.uint64),
}


@every_method
def test_bad_input_is_refused_and_changes_nothing(name: str, make: Make, dataset: Dataset) -> None:
    learner = make(name)
    x, y = samples(dataset, 9)
    teach(learner, x[:5], y[:5])
    before = digest(learner.state_dict())
    calls = [(bad(x[5:]), y[5:]) for bad in BAD_IMAGES.values()]
    calls += [(x[5:], bad(y[5:])) for bad in BAD_LABELS.values()]
    for images, labels in calls:
        with pytest.raises(InvalidInput):
            learner.observe(images, labels)
        assert digest(learner.state_dict()) == before
    for bad in BAD_IMAGES.values():
        for question in (learner.predict, learner.scores, make(name).predict):
            with pytest.raises(InvalidInput):
                question(bad(x))
    assert digest(learner.state_dict()) == before


dtypes = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]
dtypes += [torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.complex64]
shapes = st.lists(st.sampled_from([0, 1, 2, 3, 8, 9]), max_size=5)


@every_method
@given(
    st.sampled_from(dtypes),
    shapes,
    st.sampled_from(dtypes),
    shapes,
    st.integers(-3, 300),
)
def test_any_call_is_accepted_or_refused_by_the_contract(
    name: str,
    x_dtype: torch.dtype,
    x_shape: list[int],
    y_dtype: torch.dtype,
    y_shape: list[int],
    label: int,
) -> None:
    """No other exception, and no change of state on refusal, for arbitrary tensors."""
    learner = LEARNERS.setdefault(name, MAKE[0](name))
    x = torch.zeros(x_shape).to(x_dtype)
    y = torch.full(y_shape, label).to(y_dtype)
    right_x = x_dtype == torch.uint8 and x_shape[1:] == [3, 8, 8] and x_shape[:1] not in ([], [0])
    integer = y_dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    fits = right_x and integer and y_shape == x_shape[:1] and int(y.min()) >= 0
    before = digest(learner.state_dict())
    try:
        learner.observe(x, y)
    except EarlError:
        assert not fits or len(learner.classes) >= 10
        assert digest(learner.state_dict()) == before
    else:
        assert fits


LEARNERS: dict[str, Learner] = {}
MAKE: list[Make] = []


@pytest.fixture(autouse=True)
def _remember_make(make: Make) -> None:
    MAKE[:] = [make]


@every_method
def test_the_docstring_names_the_paper_and_there_is_a_page(name: str) -> None:
    method = METHODS[name]
    kind = getattr(method, "func", method)
    assert inspect.isclass(kind) and "Paper:" in (kind.__doc__ or "")
    page = (DOCS / f"{Path(inspect.getfile(kind)).stem}.md").read_text(encoding="utf-8")
    assert f"`{name}`" in page
    assert "Differences" in page
