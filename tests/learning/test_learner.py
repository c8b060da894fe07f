"""What learners share: classes, pace, work, waiting, settings, randomness, state."""

import dataclasses
import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.masked import masked_tensor

from earl.errors import ClassCapacityError, EarlError, InvalidInput, InvalidSetting
from earl.learning.classes import Classes
from earl.learning.learner import UNKNOWN, Learner
from earl.learning.pace import Pace, Waiting
from earl.learning.passes import adam
from earl.learning.setting import Setting
from earl.learning.work import Pass, Work
from earl.randomness import Randomness, words

IDS = st.lists(st.integers(0, 50), min_size=1, max_size=12)


def ids(*values):
    return torch.tensor(values, dtype=torch.int64)


def setting(**given_values):
    shared = {"image_shape": (3, 4, 5), "view": lambda x: x, "augment": lambda x, g: x}
    return Setting(**{**shared, **given_values})


def raw(n=2, shape=(3, 4, 5)):
    return torch.zeros(n, *shape, dtype=torch.uint8)


def quietly(make, *given, **named):
    """Return what is made although torch warns of it as young or old."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*given, **named)


# ---- classes


@settings(max_examples=100, deadline=None)
@given(batches=st.lists(IDS, max_size=8))
def test_classes_are_numbered_in_the_order_of_their_first_appearance(batches):
    classes, seen = Classes(), []
    for batch in batches:
        seen += [c for c in dict.fromkeys(batch) if c not in seen]
        numbers = classes.index(ids(*batch))
        assert numbers.dtype == torch.int64
        assert numbers.tolist() == [seen.index(c) for c in batch]
        assert len(classes) == len(seen)
        assert classes.ids(torch.arange(len(seen))).tolist() == seen  # nothing is renumbered
        assert torch.equal(classes.numbers(ids(*batch)), numbers)
        assert classes.ids(numbers).tolist() == batch


def test_numbers_of_known_classes_add_none():
    classes = Classes()
    classes.index(ids(9, 4))
    assert classes.numbers(ids(4, 4, 9)).tolist() == [1, 1, 0]
    with pytest.raises(KeyError):
        classes.numbers(ids(4, 5))
    assert len(classes) == 2


@pytest.mark.parametrize(
    ("batch", "culprit"), [([5, 6], 6), ([7, 1, 8, 8, 9], 8), ([1, 2, 5, 1, 6, 5], 6)]
)
def test_one_class_too_many_is_refused_and_changes_nothing(batch, culprit):
    classes = Classes(capacity=3)
    classes.index(ids(1, 2))
    with pytest.raises(ClassCapacityError, match=rf"class {culprit} .* 3 ") as error:
        classes.check(ids(*batch))
    assert "d" in str(error.value) and isinstance(error.value, EarlError)
    assert len(classes) == 2 and classes.ids(torch.arange(2)).tolist() == [1, 2]


def test_the_last_free_place_can_be_taken_and_known_classes_always_come():
    classes = Classes(capacity=3)
    classes.check(ids(1, 2, 1, 3))
    assert len(classes) == 0  # checking adds nothing
    classes.index(ids(1, 2, 3))
    classes.check(ids(3, 1, 2, 2))
    with pytest.raises(ClassCapacityError):
        classes.check(ids(3, 4))


def test_without_a_capacity_there_is_always_room():
    classes = Classes()
    classes.check(torch.arange(5000))


@settings(max_examples=40, deadline=None)
@given(before=st.lists(st.integers(0, 50), max_size=12), after=IDS)
def test_loaded_classes_continue_identically(before, after):
    old, new = Classes(), Classes()
    if before:
        old.index(ids(*before))
    new.load_state_dict(old.state_dict())
    assert torch.equal(old.index(ids(*after)), new.index(ids(*after)))
    assert len(old) == len(new)


# ---- pace


def pace_of(rate):
    return Pace(setting(iterations=rate), Work(dict))


def updates(pace, samples):
    return sum(1 for _ in pace.owed(samples))


RATES = [0.25, 0.75, 1, 2.25, 3, 0.1]


@settings(max_examples=150, deadline=None)
@given(rate=st.sampled_from(RATES), sizes=st.lists(st.integers(1, 17), max_size=40))
def test_after_n_samples_floor_of_rate_times_n_updates_were_due(rate, sizes):
    pace, done, samples = pace_of(rate), 0, 0
    exact = Fraction(str(rate))
    for size in sizes:
        done += updates(pace, size)
        samples += size
        assert done == math.floor(exact * samples)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("batch", [1, 3, 8, 1000])
def test_the_total_does_not_depend_on_how_samples_arrive(rate, batch):
    T, pace, done = 1000, pace_of(rate), 0
    for start in range(0, T, batch):
        done += updates(pace, min(batch, T - start))
    assert done == math.floor(Fraction(str(rate)) * T)


@settings(max_examples=60, deadline=None)
@given(rate=st.decimals("0.001", "9", places=3), samples=st.integers(0, 100_000))
@example(rate=Decimal("0.7"), samples=10)  # the float nearest to 0.7 is smaller
@example(rate=Decimal("0.1"), samples=10)
def test_any_short_decimal_rate_is_meant_exactly(rate, samples):
    assert updates(pace_of(float(rate)), samples) == math.floor(Fraction(rate) * samples)


@pytest.mark.parametrize("rate", [0.1, 0.75, 2.25])
@pytest.mark.parametrize("pause", [0, 1, 2, 3, 7])
def test_a_loaded_pace_still_owes_the_part_of_an_update(rate, pause):
    old, new = pace_of(rate), pace_of(rate)
    for _ in range(pause):
        updates(old, 1)
    new.load_state_dict(old.state_dict())
    assert [updates(old, 1) for _ in range(20)] == [updates(new, 1) for _ in range(20)]


# ---- waiting


def test_samples_wait_in_order_until_they_are_taken():
    waiting = Waiting(3)
    assert len(waiting) == 0 and not waiting.full
    waiting.append(torch.full((1, 1, 2, 2), 7).byte(), ids(4))
    waiting.append(torch.arange(8).view(2, 1, 2, 2).byte(), ids(5, 4))
    assert len(waiting) == 3 and waiting.full
    x, y = waiting.take()
    assert x.shape == (3, 1, 2, 2) and x.dtype == torch.uint8 and y.dtype == torch.int64
    assert x.flatten().tolist() == [7] * 4 + list(range(8)) and y.tolist() == [4, 5, 4]
    assert len(waiting) == 0 and not waiting.full
    waiting.append(torch.zeros(1, 1, 2, 2).byte(), ids(1))
    assert waiting.take()[1].tolist() == [1]


def test_the_caller_may_reuse_its_buffers_while_samples_wait():
    waiting = Waiting(2)
    x, y = torch.zeros(2, 1, 2, 2, dtype=torch.uint8), ids(1, 2)
    waiting.append(x, y)
    x.fill_(9), y.fill_(9)
    kept = waiting.take()
    assert not kept[0].any()
    assert kept[1].tolist() == [1, 2]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_waiting_samples_survive_a_restart(n):
    old, new = Waiting(3), Waiting(3)
    for i in range(n):
        old.append(torch.full((1, 1, 2, 2), i).byte(), ids(i))
    new.load_state_dict(old.state_dict())
    for waiting in (old, new):
        while not waiting.full:
            waiting.append(torch.full((1, 1, 2, 2), 8).byte(), ids(8))
    for a, b in zip(old.take(), new.take(), strict=True):
        assert torch.equal(a, b)


def test_taking_from_one_leaves_what_waits_elsewhere():
    old, new = Waiting(2), Waiting(2)
    old.append(raw(1), ids(3))
    new.load_state_dict(old.state_dict())
    new.take()
    assert len(old) == 1 and len(new) == 0


# ---- settings


def test_the_defaults_are_the_published_ones():
    default = setting()
    assert default.lr == 3e-4 and default.iterations == 1 and default.batch_size == 16
    assert default.memory_size == 500


@pytest.mark.parametrize("name", ["memory_size", "batch_size"])
@pytest.mark.parametrize("value", [0, -3])
def test_sizes_below_one_are_refused(name, value):
    with pytest.raises(InvalidSetting, match=f"{name} = {value}"):
        setting(**{name: value})


@pytest.mark.parametrize("name", ["iterations", "lr"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_rates_that_are_not_positive_and_finite_are_refused(name, value):
    with pytest.raises(InvalidSetting, match=f"{name} = {value}"):
        setting(**{name: value})


def test_a_setting_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        setting().lr = 1.0


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (np.zeros((2, 3, 4, 5), dtype=np.uint8), ["ndarray", "torch.from_numpy"]),
        ([1, 2], ["list"]),
        (raw().float(), ["torch.float32", "uint8", "255"]),
        (raw().bool(), ["torch.bool", "uint8"]),
        (raw().long(), ["torch.int64", "uint8"]),
        (raw()[0], ["(B, 3, 4, 5)", "(3, 4, 5)", "x[None]"]),
        (raw(shape=(3, 5, 4)), ["(B, 3, 4, 5)", "(2, 3, 5, 4)", "resize"]),
        (raw(shape=(1, 4, 5)), ["(B, 3, 4, 5)", "(2, 1, 4, 5)"]),
        (raw(0), ["B >= 1", "(0, 3, 4, 5)"]),
        (raw()[None], ["(1, 2, 3, 4, 5)"]),
        (raw().to_sparse(), ["dense", "sparse_coo", "to_dense()"]),
        (quietly(raw()[0, 0].to_sparse_csr), ["dense", "sparse_csr"]),
        (raw().to("meta"), ["dense", "meta"]),
        (quietly(torch.nested.nested_tensor, list(raw())), ["dense", "nested"]),
        (torch.nested.nested_tensor(list(raw()), layout=torch.jagged), ["dense", "nested"]),
        (FakeTensorMode().from_tensor(raw()), ["dense", "FakeTensor"]),
        (quietly(torch.quantize_per_tensor, raw().float(), 1.0, 0, torch.quint8), ["torch.quint8"]),
    ],
)
def test_wrong_images_are_refused_with_what_was_found_and_what_to_do(x, says):
    with pytest.raises(InvalidInput) as error:
        setting().check_images(x)
    for part in says:
        assert part in str(error.value)
    with pytest.raises(InvalidInput):
        setting().check_samples(x, ids(0, 0))


@pytest.mark.parametrize(
    ("y", "says"),
    [
        ([0, 1], ["list", "integer"]),
        (torch.tensor([0.0, 1.0]), ["torch.float32", "integer"]),
        (torch.tensor([True, False]), ["torch.bool"]),
        (ids(0), ["(2,)", "(1,)"]),
        (ids(0, 1, 2), ["(2,)", "(3,)"]),
        (ids(0, 1)[:, None], ["(2,)", "(2, 1)"]),
        (torch.tensor(0), ["(2,)", "()"]),
        (ids(3, -1), ["-1", "negative"]),
        (ids(-7, 2), ["-7", "negative"]),
        (ids(0, 1).to_sparse(), ["dense", "sparse_coo"]),
        (ids(0, 1).to("meta"), ["dense", "meta"]),
        (quietly(torch.nested.nested_tensor, [ids(0, 1)]), ["dense", "nested"]),
        (quietly(masked_tensor, ids(0, 1), ids(0, 1) > 0), ["dense", "MaskedTensor"]),
        (
            quietly(torch.quantize_per_tensor, ids(0, 1).float(), 1.0, 0, torch.quint8),
            ["torch.quint8"],
        ),
    ],
)
def test_wrong_labels_are_refused_with_what_was_found(y, says):
    with pytest.raises(InvalidInput) as error:
        setting().check_samples(raw(), y)
    for part in says:
        assert part in str(error.value)


class Tagged(torch.Tensor):
    """A tensor like any other under another name, as libraries of transforms have it."""


def test_tensors_that_only_have_another_name_are_accepted():
    setting().check_samples(raw().as_subclass(Tagged), ids(0, 1).as_subclass(Tagged))
    setting().check_images(nn.Parameter(raw(), requires_grad=False))
    setting().check_images(raw(1).expand(7, -1, -1, -1))  # seven times the same memory


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_right_samples_of_any_integer_label_are_accepted(dtype):
    setting().check_images(raw(1))
    setting().check_samples(raw(), torch.tensor([0, 99], dtype=dtype))


# ---- the optimiser


def test_the_optimiser_is_adam_with_default_betas_and_no_decay():
    network = nn.Linear(2, 3)
    (group,) = adam(network.parameters(), 3e-4).param_groups
    assert group["lr"] == 3e-4 and group["betas"] == (0.9, 0.999) and group["eps"] == 1e-8
    assert group["weight_decay"] == 0 and not group["amsgrad"] and group["fused"]


# ---- learner


class Tiny(Learner):
    """A linear classifier of four pixels that takes one step per batch."""

    def __init__(self, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.setting = setting(image_shape=(1, 2, 2))
        self.classes, self.work = Classes(capacity=5), Work(self.passes)
        self.network = nn.Linear(4, 5)
        with torch.no_grad():
            self.network.weight.copy_(torch.randn(5, 4, generator=g))
            self.network.bias.zero_()
        self.optimizer = adam(self.network.parameters(), 0.1)

    def observe(self, x, y):
        self.check(x, y)
        y = self.classes.index(y)
        self.optimizer.zero_grad()
        z = self.network(x.flatten(1) / 255)[:, : len(self.classes)]
        nn.functional.cross_entropy(z, y).backward()
        self.optimizer.step()
        self.work.add(images=len(x))

    def passes(self):
        return {"images": Pass(self.network, (4,))}

    def scores(self, x):
        with torch.no_grad():
            return self.network(x.flatten(1) / 255)[:, : len(self.classes)]

    def parts(self):
        return {
            "network": self.network,
            "optimizer": self.optimizer,
            "classes": self.classes,
            "work": self.work,
        }


def pictures(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(256, (n, 1, 2, 2), generator=g).byte()


def test_an_untaught_learner_answers_unknown():
    answer = Tiny().predict(pictures(3))
    assert answer.tolist() == [UNKNOWN] * 3 and answer.dtype == torch.int64 and UNKNOWN == -1


def test_predictions_are_the_ids_of_the_best_scores_even_when_all_are_negative():
    learner = Tiny()
    learner.classes.index(ids(40, 7, 9))
    with torch.no_grad():
        learner.network.bias.fill_(-100)
    x = pictures(20)
    scores = learner.scores(x)
    assert bool((scores < 0).all())
    best = [[40, 7, 9][row.index(max(row))] for row in scores.tolist()]
    assert learner.predict(x).tolist() == best


def test_prediction_refuses_what_is_no_batch_of_images():
    for learner in (Tiny(), taught()):
        with pytest.raises(InvalidInput):
            learner.predict(pictures(1)[0])


def taught():
    learner = Tiny()
    learner.observe(pictures(6), ids(3, 1, 3, 2, 1, 2))
    return learner


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (pictures(2), ids(1)),
        (pictures(2).float(), ids(1, 1)),
        (pictures(2), ids(1, -1)),
        (pictures(4), ids(10, 11, 12, 13)),  # six classes do not fit
    ],
)
def test_a_refused_batch_leaves_the_learner_as_it_was(x, y):
    learner = taught()
    before = learner.scores(pictures(5))
    with pytest.raises(EarlError):
        learner.observe(x, y)
    assert len(learner.classes) == 3 and learner.work.updates == 1
    assert torch.equal(learner.scores(pictures(5)), before)


def test_costs_are_the_work_done():
    assert taught().costs() == {"updates": 1, "images": 6, "forwards": 0, "flops": 6 * 80}


def test_boundaries_and_the_end_are_ignored_by_default():
    learner = taught()
    before = learner.scores(pictures(5))
    learner.end_task()
    learner.finish()
    assert torch.equal(learner.scores(pictures(5)), before)


@pytest.mark.parametrize("change", [lambda s: s.pop("work"), lambda s: s.update(more={})])
def test_the_state_of_another_method_does_not_load(change):
    state = taught().state_dict()
    change(state)
    learner = Tiny()
    with pytest.raises(InvalidSetting, match="another method or other settings"):
        learner.load_state_dict(state)
    assert len(learner.classes) == 0


def test_a_learner_loaded_from_anothers_state_continues_like_it_and_apart_from_it():
    old, new = taught(), Tiny(seed=1)
    new.load_state_dict(old.state_dict())
    x = pictures(9, seed=5)
    assert torch.equal(old.scores(x), new.scores(x))
    for learner in (old, new):  # one after the other: neither may feel the other's steps
        for step in range(3):
            learner.observe(pictures(4, seed=10 + step), ids(3, 1, 8, 2))
    assert torch.equal(old.scores(x), new.scores(x))
    assert old.costs() == new.costs()


# ---- randomness


def draw(generator):
    return tuple(torch.randint(2**60, (4,), generator=generator).tolist())


def test_a_draw_is_a_function_of_seed_step_and_purpose():
    draws = {
        draw(Randomness(seed).at(step, purpose))
        for seed in (0, 1, 2, 11)
        for step in (0, 1, 2, 11, 10**9)
        for purpose in ("augment", "draw", "")
    }
    assert len(draws) == 4 * 5 * 3
    assert draw(Randomness(1).at(2, "draw")) == draw(Randomness(1).at(2, "draw"))


def test_a_generator_is_fresh_each_time():
    randomness = Randomness(1)
    first = randomness.at(3, "draw")
    one = draw(first)
    assert draw(first) != one  # it moves on
    assert draw(randomness.at(3, "draw")) == one  # a new one starts again


def test_the_global_random_states_are_left_alone():
    torch.manual_seed(0)
    before, array = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    draw(Randomness(1).at(0, "draw"))
    words("key", 10)
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == array).all()  # noqa: NPY002


def test_words_depend_on_their_key_alone_and_a_longer_draw_begins_with_the_shorter():
    one = words("a", 1000)
    assert one.dtype == np.uint64 and (words("a", 10) == one[:10]).all()
    assert (words("b", 1000) != one).all()
    bits = np.unpackbits(one.view(np.uint8))
    assert bits.mean() == pytest.approx(0.5, abs=4 * 0.5 / 64000**0.5)
