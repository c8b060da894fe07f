"""More classes than vectors: EARL's frame grows, and what was learned before stays."""

from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from contract_again import repeated, shorten_networks
from earl.data.sets import shapes
from earl.errors import InvalidSetting, TooLarge
from earl.experiments.catalogue import METHODS
from earl.experiments.contract import CHECKS, maker
from earl.learning import Learner
from earl.learning.bytes_held import bytes_held
from earl.methods.earl import EARL
from earl.nn import room as room_module
from earl.storage.state import digest
from more_classes import CLASSES, FIRST, GROWING, LAST, SEEDS, course, excess, interval, learner_of

Make = Callable[..., Learner]
VARIANTS = ("earl", "vanilla-etf", "earl-no-rc", "earl-no-pdt", "earl-learnable")
BESIDE = ("earl-no-rc", "earl-no-pdt")  # each has half of what is left out of `vanilla-etf`


def many(n: int, each: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield samples of n classes, which join one after the other and come again."""
    data = shapes.load(classes=n, train=each, test=1)
    order = torch.arange(n * each).view(n, each)
    rows = [int(order[c - k, k]) for c in range(n + each) for k in range(each) if 0 <= c - k < n]
    for row in torch.tensor(rows).split(1):
        yield data.train.images[row], data.train.labels[row]


def assert_consistent(learner: EARL, n: int) -> None:
    """Check that all parts of a learner of n classes have the shape of one frame."""
    etf = learner.frame.etf
    assert len(learner.classes) == n <= etf.K
    assert learner.vectors().shape == (n, etf.d) and learner.p.linear.weight.shape[0] == etf.d
    assert learner.residuals.pairs()[0].shape[1] == etf.d
    for parameter in learner.f.parameters():
        moments = learner.optimizer.state[parameter]
        assert moments["exp_avg"].shape == moments["exp_avg_sq"].shape == parameter.shape
    if learner.prepare is not None:
        assert learner.prepare.K == etf.K
        assert bool((learner.prepare.m >= n).all()) or n == etf.K


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in BESIDE else n for n in VARIANTS]
)
def test_a_learner_with_d_8_takes_30_classes(name: str, make: Make) -> None:
    learner = make(name, d=8, memory_size=60)
    assert isinstance(learner, EARL)
    for x, y in many(30, 3):
        learner.observe(x, y)
        assert_consistent(learner, len(learner.classes))
    assert len(learner.classes) == 30 and learner.frame.etf.blocks == (8, 9, 18)
    if name != "earl-learnable":
        W = learner.vectors().double()
        expected = F.normalize(torch.eye(36, dtype=torch.float64) - 1 / 36)[:30]
        torch.testing.assert_close(W @ W.T, expected @ expected.T, atol=1e-6, rtol=0)


@settings(max_examples=8)
@given(labels=st.lists(st.integers(0, 12), min_size=1, max_size=25), d=st.integers(1, 4))
def test_any_order_of_arrival_keeps_all_parts_together(
    make: Make, labels: list[int], d: int
) -> None:
    learner, images = make("earl", d=d, hidden=0), shapes.load(classes=13, train=1).train.images
    assert isinstance(learner, EARL)
    for i, c in enumerate(labels, start=1):
        learner.observe(images[torch.tensor([c])], torch.tensor([c]))
        assert_consistent(learner, len(set(labels[:i])))
    assert learner.frame.etf == learner.frame.etf.of_dimensions(d).for_classes(len(set(labels)))


WHEN = [("earl", at) for at in (5, 9, 20)]  # before, at and after the first growth
WHEN += [(name, 9) for name in VARIANTS[1:] if name not in BESIDE]
SLOWLY = [(name, at) for name in VARIANTS for at in (5, 9, 12, 20) if (name, at) not in WHEN]


@pytest.mark.parametrize(
    ("name", "at"), [*WHEN, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOWLY)]
)
def test_a_state_loads_exactly_before_at_and_after_growth(name: str, at: int, make: Make) -> None:
    samples = list(many(6, 4))
    learner, fresh, grown = (make(name, d=2) for _ in range(3))
    for x, y in samples[:at]:
        learner.observe(x, y)
    for x, y in samples:
        grown.observe(x, y)
    x = torch.cat([x for x, _ in samples])
    for other in (fresh, grown):  # one that has not grown, one that has grown further
        other.load_state_dict(learner.state_dict())
        assert torch.equal(other.scores(x), learner.scores(x))
    for one in (learner, fresh, grown):
        for x_i, y_i in samples[at:]:
            one.observe(x_i, y_i)
    assert digest(learner.state_dict()) == digest(fresh.state_dict()) == digest(grown.state_dict())


@pytest.mark.parametrize("check", repeated("tiny_settings_work", "only_seen_classes_are_predicted"))
def test_the_contract_holds_while_the_frame_grows(
    check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_networks(monkeypatch)
    CHECKS[check](maker(METHODS["earl"], d=1))  # two vectors for four classes


def test_growing_changes_no_answer_but_by_the_new_classes(make: Make) -> None:
    """Old scores shrink by one factor, and those of new vectors are zero."""
    learner = make("vanilla-etf", d=2, iterations=1e-6)  # nothing is trained
    assert isinstance(learner, EARL)
    samples = list(many(4, 1))
    x = torch.cat([x for x, _ in samples])
    for x_i, y_i in samples[:3]:
        learner.observe(x_i, y_i)
    before = learner.scores(x)
    learner.observe(*samples[3])
    factor = ((1 - 1 / 3) / (1 - 1 / 6)) ** 0.5
    expected = F.pad(factor * before, (0, 1))
    torch.testing.assert_close(learner.scores(x), expected, atol=1e-6, rtol=1e-5)


def test_a_state_of_another_frame_is_refused_and_changes_nothing(make: Make) -> None:
    learner, other = make("earl", d=2, hidden=0), make("earl", d=4, hidden=0)
    before = digest(learner.state_dict())
    with pytest.raises(InvalidSetting, match="features of 4 dimensions"):
        learner.load_state_dict(other.state_dict())
    assert digest(learner.state_dict()) == before


def test_growth_beyond_the_memory_of_the_machine_is_refused_and_changes_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, samples = make("earl", d=2), list(many(5, 1))
    for x, y in samples[:3]:
        learner.observe(x, y)
    before = digest(learner.state_dict())
    monkeypatch.setattr(room_module, "room", lambda: 1000)
    learner.observe(*samples[0])  # known: nothing grows
    before = digest(learner.state_dict())
    with pytest.raises(TooLarge, match="4 classes need features of d = 5 numbers"):
        learner.observe(*samples[3])
    assert digest(learner.state_dict()) == before


def test_bytes_and_flops_follow_the_frame(make: Make) -> None:
    learner, samples = make("earl", d=2, hidden=0, correction=False), list(many(4, 1))
    for x, y in samples[:3]:
        learner.observe(x, y)
    before, pass_before = bytes_held(learner)["network"], learner.work.flops_per_input("images")
    learner.observe(*samples[3])  # 2 -> 5 dimensions
    features = learner.p.linear.weight.shape[1]  # type: ignore[attr-defined]
    assert bytes_held(learner)["network"] - before == 4 * 3 * features
    more = learner.work.flops_per_input("images") - pass_before
    assert more == 3 * 2 * 3 * features  # forward, and back to inputs and to weights


def test_the_arrivals_that_grow_are_those_of_the_doubled_frames() -> None:
    etf = learner_of(FIRST, 1).frame.etf
    assert tuple(n for n in range(1, CLASSES) if n == etf.for_classes(n).K) == GROWING
    assert etf.for_classes(CLASSES).d == LAST


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a minute of one core, which others may want too
def test_old_classes_lose_no_more_than_noise_when_the_frame_grows_to_300_classes() -> None:
    grown, fixed = ([course(d, seed) for seed in SEEDS] for d in (FIRST, LAST))
    extra, half = interval(excess(grown, fixed))
    assert extra - half <= 0, f"{extra:.2f} ± {half:.2f} points lost"
    assert min(one.end for one in grown) > 50  # percent; chance is a third of one
