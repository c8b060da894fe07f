"""What every method must keep, one function per fact; `earl.experiments.contract` runs them all.

Each takes a function that makes fresh small learners of one method, with any setting changed, and
raises `ContractBroken` if the fact does not hold.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from earl.data.sets import shapes
from earl.errors import ContractBroken
from earl.learning.bytes_held import bytes_held
from earl.learning.learner import UNKNOWN, Learner
from earl.nn.augment import Augment, View
from earl.nn.modes import train_forward
from earl.nn.ranks import Alone
from earl.storage.snapshot import read_newest, write_snapshot
from earl.storage.state import digest

Make = Callable[..., Learner]
DATA = shapes.load()
IDS = torch.tensor([7, 3, 11, 2])  # class ids need not be 0, 1, 2, ...
MARK = 1000.0  # added to what `augment` makes; nothing else comes near it


def nothing_is_known_before_the_first_sample(make: Make) -> None:
    answers = make().predict(DATA.test.images[torch.arange(3)])
    expect(answers.tolist() == [UNKNOWN] * 3, f"predict answered {answers.tolist()}")


def only_seen_classes_are_predicted(make: Make) -> None:
    learner, seen = make(), set()
    x, y = samples(24)
    for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
        learner.observe(x_i, y_i)
        seen.add(int(y_i))
        answers = set(learner.predict(DATA.test.images[torch.arange(0, 80, 5)]).tolist())
        expect(answers <= seen, f"predicted {answers - seen}, seen were {seen}")
        shape = tuple(learner.scores(x[:2]).shape)
        expect(shape == (2, len(seen)), f"scores of 2 images have shape {shape}")


def asking_changes_nothing(make: Make) -> None:
    asked, silent = make(), make()
    x, y = samples(24)
    for i in range(len(y)):
        if i and i % 4 == 0:
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
    x, y = samples(24)
    for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
        image, label = x_i.clone(), y_i.clone()
        learner.observe(image, label)
        image.zero_(), label.zero_()
        other.observe(x_i, y_i)
    same = torch.equal(learner.scores(x), other.scores(x))
    expect(same, "the learner kept its caller's buffer instead of a copy")


def many_samples_at_once_equal_one_by_one(make: Make) -> None:
    x, y = samples(24)
    one = make()
    teach(one, x, y)
    for batch in (7, 24):
        many = make()
        teach(many, x, y, batch)
        same = digest(one.state_dict()) == digest(many.state_dict())
        expect(same, f"batches of {batch} give another state than single samples")


def stored_samples_fit_the_memory(make: Make) -> None:
    """Counted in bytes: what is stored of an image may be smaller than the image."""
    learner = make(memory_size=7)
    x, y = samples(30)
    teach(learner, x, y, batch=4)
    held = bytes_held(learner).get("images", 0)
    expect(held <= 7 * x[0].nbytes, f"{held} bytes of samples for 7 images of {x[0].nbytes}")


def the_seed_decides_everything(make: Make) -> None:
    x, y = samples(24)
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
    x, y = samples(28)
    learner, loaded, seen = make(iterations=0.75), {}, 0
    for at in (1, 13, 22):
        teach(learner, x[seen:at], y[seen:at])
        loaded[at], seen = saved_and_loaded(learner, make(iterations=0.75), at), at
        same = torch.equal(learner.scores(x), loaded[at].scores(x))
        expect(same, f"loaded at {at}: other scores")
    teach(learner, x[seen:], y[seen:])
    learner.finish()
    for at, fresh in loaded.items():
        teach(fresh, x[at:], y[at:])
        fresh.finish()
        same = digest(learner.state_dict()) == digest(fresh.state_dict())
        expect(same, f"loaded at sample {at}, it goes on in another way")


def saved_and_loaded(learner: Learner, fresh: Learner, at: int) -> Learner:
    """Return the fresh learner with the state of the other, by way of a file."""
    with tempfile.TemporaryDirectory() as folder:
        write_snapshot(Path(folder), at, learner.state_dict(), about={})
        snapshot = read_newest(Path(folder))
    assert snapshot is not None  # it has just been written
    fresh.load_state_dict(snapshot.state)
    return fresh


def it_learns(make: Make) -> None:
    learner = make()
    x, y = samples(160)
    teach(learner, x, y)
    learner.finish()
    right = learner.predict(DATA.test.images[torch.arange(80)]) == IDS[DATA.test.labels]
    accuracy = float(right.float().mean())
    expect(accuracy > 0.8, f"accuracy {accuracy:.2f} after 160 samples; chance is 0.25")


def updates_follow_the_iterations(make: Make) -> None:
    """Statistics take in each sample once: how often one is trained on has no meaning there."""
    x, y = samples(12)
    for iterations in (0.25, 1, 2.25):
        learner = make(iterations=iterations)
        teach(learner, x, y)
        learner.finish()
        updates, due = learner.work.updates, int(iterations * 12) if learner.by_gradient else 12
        expect(updates == due, f"{updates} updates for {iterations} x 12 samples, not {due}")
        expect(learner.costs()["updates"] == updates, "costs() tells another number of updates")


def updates_follow_the_flops_that_are_earned(make: Make) -> None:
    """Statistics cost what they cost, a pass for each sample, whatever is earned."""
    x, y = samples(28)
    plain = make()
    teach(plain, x, y)
    expect(plain.work.flops > 0, "no FLOPs were counted: tell `work` the passes of each update")
    for share in (0.4, 2.0):
        earned = share * plain.work.flops
        learner, dearest = make(flops=earned / len(y)), 0
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            learner.observe(x_i, y_i)
            dearest = max(dearest, learner.work.last)
        learner.finish()
        gap, work = abs(learner.work.flops - earned), learner.work
        one = max(dearest, work.last, work.pending)
        if not learner.by_gradient:
            gap, one = abs(work.flops - plain.work.flops), 0
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


class Noted(Alone):
    """Stands where processes that train together would, and notes what `forward` is given."""

    def __init__(self) -> None:
        self.batches: list[Tensor] = []

    def forward(self, network: nn.Module, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self.batches.append(x.detach().clone())
        return train_forward(network, x)


def every_image_that_is_trained_on_was_augmented(make: Make) -> None:
    """All pixels of all images that `forward` is given, with gradients, bear the mark of `augment`.

    A method that says so may have `own_views` of each such image beside it. What is no image, as
    codes behind frozen blocks, is not looked at, nor is what is trained without `forward`. Where
    nothing is trained by gradient there must be no such image at all.
    """
    marked = View(tuple(m - MARK * s for m, s in zip(DATA.mean, DATA.std, strict=True)), DATA.std)
    augment = Augment(view=marked, padding=1, flip=False, rand_augment=False)
    noted = Noted()
    learner = make(augment=augment, ranks=noted)
    teach(learner, *samples(40))
    learner.finish()
    images = [x for x in noted.batches if tuple(x.shape[1:]) == DATA.image_shape]
    if not learner.by_gradient:
        expect(not images, "it trains by gradient, and says that it does not")
        return
    expect(bool(images), "no image was trained on by `forward`, which every method trains through")
    augmented = (torch.cat(images) > MARK / 2).flatten(1).all(dim=1)
    n, others = int(augmented.sum()), int((~augmented).sum())
    most = learner.own_views * n
    what = f"{others} of {n + others} images that were trained on did not come from `augment`"
    expect(others <= most, f"{what}; {most} may: `own_views` for each that did")


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
