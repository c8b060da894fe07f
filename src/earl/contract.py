"""The contract: what every method must keep, as checks that anyone can run.

Each check takes a function that makes fresh small learners of one method, with any setting changed.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from earl.budget import bytes_held
from earl.catalogue import METHODS
from earl.datasets import shapes
from earl.errors import ContractBroken, InvalidInput, NotFinite
from earl.finite import check_finite
from earl.learner import UNKNOWN, Learner, Setting
from earl.networks import ResNet, build
from earl.options import options_of
from earl.randomness import Randomness
from earl.recipes import Value, recipe
from earl.snapshot import read_newest, write_snapshot
from earl.state import digest
from earl.transforms import Augment, View

Make = Callable[..., Learner]
DATA = shapes.load()
IDS = torch.tensor([7, 3, 11, 2])  # class ids need not be 0, 1, 2, ...


def check_method(method: str | Callable[..., Learner], **options: Value) -> tuple[str, ...]:
    """Check that a method, by name or as a class, keeps the contract; return what was checked.

    Its learners are small and see four classes of 8-pixel images; `options` are the method's own.
    All checks are made, then `ContractBroken` tells which did not hold.
    """
    make = maker(METHODS[method] if isinstance(method, str) else method, **options)
    found = {name: fault(check, make) for name, check in CHECKS.items()}
    broken = [f"{name}: {what}" for name, what in found.items() if what]
    if broken:
        raise ContractBroken("\n".join([f"{len(broken)} of {len(CHECKS)} checks failed", *broken]))
    return tuple(CHECKS)


def fault(check: Callable[[Make], None], make: Make) -> str:
    """Return what a check finds wrong, or nothing."""
    try:
        check(make)
    except Exception as error:  # whatever a stranger's method raises is a finding
        return f"{type(error).__name__}: {error}"
    return ""


def maker(method: Callable[..., Learner], **options: Value) -> Make:
    """Return a function that makes learners; keywords of Setting and of the method may be given."""
    view = View(DATA.mean, DATA.std)
    own = {option.name for option in options_of("method", method)}
    fitting = {name: value for name, value in recipe("shapes").items() if name in own}

    def make(**given: Any) -> Learner:
        shared = {name: given.pop(name) for name in list(given) if name in vars(setting)}
        changed = Setting(**(vars(setting) | shared))
        generator = Randomness(changed.seed).at(0, "backbone")
        backbone = build(lambda: ResNet(depth=8, width=4), generator)
        return method(backbone, changed, **(fitting | options | given))

    setting = Setting(
        image_shape=DATA.image_shape,
        view=view,
        augment=Augment(view=view, padding=1, flip=False, rand_augment=False),
        memory_size=20,
        batch_size=8,
        lr=3e-3,
        samples=40,
    )
    return make


def nothing_is_known_before_the_first_sample(make: Make) -> None:
    answers = make().predict(DATA.test.images[torch.arange(3)])
    expect(answers.tolist() == [UNKNOWN] * 3, f"predict answered {answers.tolist()}")


def only_seen_classes_are_predicted(make: Make) -> None:
    learner, seen = make(), set()
    x, y = samples(40)
    for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
        learner.observe(x_i, y_i)
        seen.add(int(y_i))
        answers = set(learner.predict(DATA.test.images[torch.arange(0, 80, 5)]).tolist())
        expect(answers <= seen, f"predicted {answers - seen}, seen were {seen}")
        shape = tuple(learner.scores(x[:2]).shape)
        expect(shape == (2, len(seen)), f"scores of 2 images have shape {shape}")


def asking_changes_nothing(make: Make) -> None:
    asked, silent = make(), make()
    x, y = samples(30)
    for i in range(len(y)):
        if i and i % 3 == 0:
            before, copy = digest(asked.state_dict()), x.clone()
            asked.predict(x), asked.scores(x[:1]), asked.costs()
            expect(digest(asked.state_dict()) == before, "a question changed the state")
            expect(torch.equal(x, copy), "a question changed its images")
        asked.observe(x[i : i + 1], y[i : i + 1])
        silent.observe(x[i : i + 1], y[i : i + 1])
    same = digest(asked.state_dict()) == digest(silent.state_dict())
    expect(same, "a learner that was asked learns otherwise")


def observing_leaves_its_input_alone(make: Make) -> None:
    learner = make()
    x, y = samples(20)
    copies = x.clone(), y.clone()
    for x_i, y_i in zip(x.split(5), y.split(5), strict=True):  # these are x and y, not copies
        learner.observe(x_i, y_i)
    expect(torch.equal(x, copies[0]) and torch.equal(y, copies[1]), "observe changed its input")


def callers_may_reuse_their_buffers(make: Make) -> None:
    learner, other = make(), make()
    x, y = samples(30)
    for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
        image, label = x_i.clone(), y_i.clone()
        learner.observe(image, label)
        image.zero_(), label.zero_()
        other.observe(x_i, y_i)
    same = torch.equal(learner.scores(x), other.scores(x))
    expect(same, "the learner kept its caller's buffer instead of a copy")


def many_samples_at_once_equal_one_by_one(make: Make) -> None:
    x, y = samples(30)
    one = make()
    teach(one, x, y)
    for batch in (2, 7, 30):
        many = make()
        teach(many, x, y, batch)
        same = digest(one.state_dict()) == digest(many.state_dict())
        expect(same, f"batches of {batch} give another state than single samples")


def stored_samples_fit_the_memory(make: Make) -> None:
    """Counted in bytes: what is stored of an image may be smaller than the image."""
    learner = make(memory_size=7)
    x, y = samples(60)
    teach(learner, x, y, batch=4)
    held = bytes_held(learner).get("images", 0)
    expect(held <= 7 * x[0].nbytes, f"{held} bytes of samples for 7 images of {x[0].nbytes}")


def the_seed_decides_everything(make: Make) -> None:
    x, y = samples(30)
    before = torch.get_rng_state()
    one, same, other = make(), make(), make(seed=2)
    for learner in (one, same, other):
        teach(learner, x, y)
        learner.predict(x)
    expect(torch.equal(torch.get_rng_state(), before), "the global random state was used")
    expect(torch.equal(one.scores(x), same.scores(x)), "the same seed gives other scores")
    expect(not torch.equal(one.scores(x), other.scores(x)), "another seed changes nothing")


def a_saved_learner_goes_on_exactly(make: Make) -> None:
    """Saved while updates are part-owed and samples wait; scores, because labels hide much."""
    x, y = samples(40)
    for at in (1, 13, 22):
        learner, fresh = make(iterations=0.75), make(iterations=0.75)
        teach(learner, x[:at], y[:at])
        with tempfile.TemporaryDirectory() as folder:
            write_snapshot(Path(folder), at, learner.state_dict(), about={})
            snapshot = read_newest(Path(folder))
        assert snapshot is not None  # it has just been written
        fresh.load_state_dict(snapshot.state)
        expect(torch.equal(learner.scores(x), fresh.scores(x)), f"loaded at {at}: other scores")
        for other in (learner, fresh):
            teach(other, x[at:], y[at:])
            other.finish()
        same = digest(learner.state_dict()) == digest(fresh.state_dict())
        expect(same, f"loaded at sample {at}, it goes on in another way")


def it_learns(make: Make) -> None:
    learner = make()
    x, y = samples(160)
    teach(learner, x, y)
    learner.finish()
    right = learner.predict(DATA.test.images[torch.arange(80)]) == IDS[DATA.test.labels]
    accuracy = float(right.float().mean())
    expect(accuracy > 0.8, f"accuracy {accuracy:.2f} after 160 samples; chance is 0.25")


def updates_follow_the_iterations(make: Make) -> None:
    x, y = samples(12)
    for iterations in (0.25, 1, 2.25, 3):
        learner = make(iterations=iterations)
        teach(learner, x, y)
        learner.finish()
        updates, due = learner.work.updates, int(iterations * 12)
        expect(updates == due, f"{updates} updates for {iterations} x 12 samples, not {due}")
        expect(learner.costs()["updates"] == updates, "costs() tells another number of updates")


def updates_follow_the_flops_that_are_earned(make: Make) -> None:
    x, y = samples(40)
    plain = make()
    teach(plain, x, y)
    expect(plain.work.flops > 0, "no FLOPs were counted: tell `work` the passes of each update")
    for share in (0.4, 2.0):
        earned = share * plain.work.flops
        learner, dearest = make(flops=earned / 40), 0
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            learner.observe(x_i, y_i)
            dearest = max(dearest, learner.work.last)
        learner.finish()
        gap, work = abs(learner.work.flops - earned), learner.work
        one = max(dearest, work.last, work.pending)
        expect(gap <= one, f"{gap:,.0f} FLOPs off, which is more than the {one:,} of an update")


def tiny_settings_work(make: Make) -> None:
    """A batch and a memory of one, a single class, a single sample."""
    x, y = samples(12)
    for batch_size in (1, 2, 3):
        learner = make(memory_size=1, batch_size=batch_size)
        learner.observe(x[:1], y[:1])
        expect(learner.predict(x[:1]).tolist() == y[:1].tolist(), "the only class is not answered")
        teach(learner, x[1:], y[1:])
        learner.finish()
        expect(bool(torch.isfinite(learner.scores(x)).all()), f"batch {batch_size}: not finite")


def boundaries_and_early_ends_are_harmless(make: Make) -> None:
    learner = make()
    x, y = samples(24)
    learner.finish()
    learner.end_task()
    teach(learner, x[:11], y[:11])
    learner.end_task()
    learner.finish()
    teach(learner, x[11:], y[11:])
    expect(bool(torch.isfinite(learner.scores(x)).all()), "scores are not finite")


BAD_IMAGES: Mapping[str, Callable[[Tensor], Any]] = {
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
BAD_LABELS: Mapping[str, Callable[[Tensor], Any]] = {
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


def bad_input_is_refused_and_changes_nothing(make: Make) -> None:
    learner = make()
    x, y = samples(9)
    teach(learner, x[:5], y[:5])
    before = digest(learner.state_dict())
    for name, bad in BAD_IMAGES.items():
        refused(name, learner.observe, bad(x[5:]), y[5:])
        for question in (learner.predict, learner.scores, make().predict):
            refused(name, question, bad(x))
    for name, bad in BAD_LABELS.items():
        refused(f"labels: {name}", learner.observe, x[5:], bad(y[5:]))
    expect(digest(learner.state_dict()) == before, "refused input has changed the state")


def numbers_that_are_none_are_not_answered(make: Make) -> None:
    """Learning that diverges is told, by training or when asked; so are weights that are nan."""
    x, y = samples(40)
    learner = make(lr=1e30)
    try:
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            learner.predict(x_i)
            learner.observe(x_i, y_i)
        learner.predict(x)
    except NotFinite:
        pass
    else:
        finite = not fault(lambda _: check_finite(learner.parts()), make)
        expect(finite, "with lr = 1e30 its numbers are inf or nan, and it says nothing")
    learner = make()
    teach(learner, x, y)
    for part in learner.parts().values():
        for p in part.parameters() if isinstance(part, nn.Module) else ():
            p.data.fill_(float("nan"))
    try:
        answers = learner.predict(x).tolist()
    except NotFinite:
        return
    raise ContractBroken(f"with weights that are nan it answers {answers}")


CHECKS: Mapping[str, Callable[[Make], None]] = {
    check.__name__: check
    for check in (
        nothing_is_known_before_the_first_sample,
        only_seen_classes_are_predicted,
        asking_changes_nothing,
        observing_leaves_its_input_alone,
        callers_may_reuse_their_buffers,
        many_samples_at_once_equal_one_by_one,
        stored_samples_fit_the_memory,
        the_seed_decides_everything,
        a_saved_learner_goes_on_exactly,
        it_learns,
        updates_follow_the_iterations,
        updates_follow_the_flops_that_are_earned,
        tiny_settings_work,
        boundaries_and_early_ends_are_harmless,
        bad_input_is_refused_and_changes_nothing,
        numbers_that_are_none_are_not_answered,
    )
}


def samples(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return n training images in a random order, with class ids 7, 3, 11 and 2."""
    order = torch.randperm(len(DATA.train), generator=torch.Generator().manual_seed(seed))[:n]
    return DATA.train.images[order], IDS[DATA.train.labels[order]]


def teach(learner: Learner, x: Tensor, y: Tensor, batch: int = 1) -> None:
    for part in torch.arange(len(y)).split(batch):
        learner.observe(x[part], y[part])


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ContractBroken(otherwise)


def refused(name: str, call: Callable[..., object], *arguments: object) -> None:
    """Expect InvalidInput, the error that says what was wrong."""
    try:
        call(*arguments)
    except InvalidInput:
        return
    raise ContractBroken(f"{name} was not refused")
