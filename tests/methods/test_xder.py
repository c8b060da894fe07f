"""X-DER against its paper: the update recomputed naively, and logits that go where they ought."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from earl.data.dataset import Dataset
from earl.errors import InvalidSetting
from earl.learning.learner import Learner
from earl.learning.memory import draw_distinct
from earl.learning.setting import Setting
from earl.methods.xder import XDER, Heads, mean_positive, renew
from earl.nn.augment import View
from earl.nn.build import build
from earl.nn.modes import train_forward, untracked
from earl.nn.resnet import ResNet
from earl.storage.state import digest

Make = Callable[..., XDER]
Passes = list[tuple[Tensor, Tensor]]
FUTURE = 5


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    """Collects the images and the logits of every training pass: the batch, then its views."""
    seen: Passes = []

    def forward(network: nn.Module, setting: Setting, x: Tensor) -> Tensor:
        z = train_forward(network, x)
        seen.append((x.detach().clone(), z.detach().clone()))
        return z

    def plain(x: Tensor, generator: Generator, **options: object) -> Tensor:
        return x

    monkeypatch.setattr("earl.methods.xder.forward", forward)
    monkeypatch.setattr("earl.methods.xder.contrast_augment", plain)
    return seen


@pytest.fixture
def xder(make: Callable[..., Learner], dataset: Dataset) -> Make:
    """Makes a learner with five future rows, whose augmentation leaves images as they are."""
    view = View(dataset.mean, dataset.std)

    def plain(x: Tensor, generator: Generator) -> Tensor:
        return view(x)

    def make_learner(**given: object) -> XDER:
        learner = make("x-der", **{"augment": plain, "future": FUTURE, **given})
        assert isinstance(learner, XDER)
        return learner

    return make_learner


def observe(learner: Learner, dataset: Dataset, labels: list[int], start: int = 0) -> None:
    """Observe images start, start + 1, ... of the training set under these labels."""
    x = dataset.train.images[start : start + len(labels)]
    for x_i, y_i in zip(x.split(1), torch.tensor(labels).split(1), strict=True):
        learner.observe(x_i, y_i)


def column(learner: XDER, name: str) -> Tensor:
    return learner.memory.take(torch.arange(len(learner.memory)), name)[0]


def naive_renew(stored: Tensor, z: Tensor, y: int, start: int, gamma: float) -> Tensor:
    """Return one entry's logits with those from `start` on replaced as the paper says."""
    own, top = float(stored[y]), max(float(v) for v in z[start:])
    result = stored.clone()
    for c in range(start, len(z)):
        v = float(z[c])
        if top > own:
            v = v * gamma * own / top if own > 0 else v + own - top
        result[c] = v
    return result


def naive_loss(z: Tensor, z_v: Tensor, Y: list[int], stored: Tensor, learner: XDER) -> Tensor:
    """Return the loss of a batch of 8, two of them new, with heads {0, 1} past, {2, 3} present."""
    n, P = 4, 2
    within_task = learner.rivals == "present" and all(y >= P for y in Y[:2])
    rivals = [range(P if within_task else 0, n)] * 2 + [range(n)] * 2
    entropy = [-z[k, list(r)].log_softmax(0)[Y[k] - r[0]] for k, r in enumerate(rivals)]
    known = [(k, c) for k in range(4, 8) for c in range(n + FUTURE) if not stored[k - 2, c].isnan()]
    mse = sum((z[k, c] - stored[k - 2, c]) ** 2 for k, c in known) / len(known)

    f = [v / v.norm() for v in z_v[:, n : n + FUTURE]]  # two views of eight images
    contrast = torch.zeros(())
    for i in range(16):
        others = [a for a in range(16) if a != i]
        total = sum(torch.exp(f[i] @ f[a] / 5) for a in others)
        same = [p for p in others if Y[p % 8] == Y[i % 8]]
        contrast = contrast - sum(f[i] @ f[p] / 5 - total.log() for p in same) / len(same)

    gaps = [z[k, n : n + FUTURE].max() + 0.2 - z[k, Y[k] // 2 * 2 :][:2].max() for k in range(8)]
    gaps = [g for g in gaps if g > 0]
    pasts = []
    for k in range(2):
        p = z[k, :n].softmax(0)
        gap = p[:P].max().detach() + 0.2 - p[P:].max()
        if Y[k] >= P and gap > 0:
            pasts.append(gap)
    margins = sum(gaps) / max(1, len(gaps)) + sum(pasts) / max(1, len(pasts))
    loss = sum(entropy[:2]) / 2 + learner.beta * sum(entropy[2:]) / 2 + learner.alpha * mse
    return loss + learner.lam * contrast / 16 + learner.eta * margins  # a mean over all views


@pytest.mark.parametrize("newest", [[2, 3], [3, 1]], ids=["disjoint", "a past class comes again"])
@pytest.mark.parametrize("rivals", ["present", "seen"])
def test_an_update_is_an_adam_step_on_the_sum_of_all_terms(
    newest: list[int], rivals: str, xder: Make, dataset: Dataset, passes: Passes
) -> None:
    learner = xder(iterations=1 / 12, lam=0.3, eta=0.5, alpha=0.8, beta=0.7, rivals=rivals)
    observe(learner, dataset, [0, 0, 0, 1, 1, 0, 1, 1])
    learner.end_task()
    observe(learner, dataset, [2, 3, newest[0]], start=8)
    assert not passes and learner.work.updates == 0
    before, memory = copy.deepcopy(learner.network), copy.deepcopy(learner.memory)
    rows = draw_distinct(10, 6, learner.randomness.at(0, "draw"))
    X_m, Y_m, stored = memory.take(rows, "x", "y", "logits")
    assert stored[:, : 4 + FUTURE].isnan().any()
    observe(learner, dataset, [newest[1]], start=11)

    X = learner.setting.view(torch.cat((dataset.train.images[10:12], X_m)))
    (images, _), (views, _) = passes
    assert torch.equal(images, X) and torch.equal(views, X.repeat(2, 1, 1, 1))
    z, z_v = train_forward(before, X), train_forward(before, views)
    loss = naive_loss(z, z_v, [*newest, *Y_m.tolist()], stored, learner)
    parameters = list(before.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    for p, p_0, g in zip(learner.network.parameters(), parameters, gradients, strict=True):
        expected = (p_0 - learner.setting.lr * g / (g.abs() + 1e-8)).detach()
        torch.testing.assert_close(p.detach(), expected, atol=2e-5, rtol=1e-4)
    unused = learner.network.head.weight[4 + FUTURE :]
    assert torch.equal(unused, before.head.weight[4 + FUTURE :])


@pytest.mark.parametrize("views", [2, 3])
def test_the_contrast_is_a_mean_over_images_and_their_views(
    views: int, xder: Make, dataset: Dataset, passes: Passes
) -> None:
    learner = xder(views=views)
    observe(learner, dataset, [0, 1, 2, 0])
    passes.clear()
    loss = learner._contrast(dataset.train.images[:4], torch.tensor([0, 1, 2, 0]), t=0)
    ((_, z),) = passes
    f = [v / v.norm() for v in z[:, 3 : 3 + FUTURE]]
    terms = []
    for i in range(4 * views):
        others = [a for a in range(4 * views) if a != i]
        total = torch.stack([f[i] @ f[a] / 5 for a in others]).logsumexp(0)
        same = [p for p in others if p % 4 == i % 4 or {p % 4, i % 4} == {0, 3}]
        terms.append(sum(total - f[i] @ f[p] / 5 for p in same) / len(same))
    torch.testing.assert_close(loss, sum(terms) / len(terms))


def test_a_replay_renews_exactly_the_later_heads_of_the_chosen_past_entries(
    xder: Make, dataset: Dataset, passes: Passes
) -> None:
    learner = xder(memory_size=100, iterations=0.5)  # one update for a block of two
    observe(learner, dataset, [0, 1] * 4)
    learner.end_task()
    observe(learner, dataset, [2, 3] * 4, start=8)
    learner.end_task()
    changed = 0
    for start in range(16, 40, 2):  # classes 0 to 3 are past now, 4 and 5 present
        before, replays = column(learner, "logits"), column(learner, "replays")
        t = learner.work.updates
        observe(learner, dataset, [4, 5], start=start)
        rows = draw_distinct(len(before), 6, learner.randomness.at(t, "draw")).tolist()
        after, z = column(learner, "logits")[: len(before)], passes[-2][1]
        before = F.pad(before, (0, after.shape[1] - before.shape[1]), value=float("nan"))
        Y = column(learner, "y").tolist()
        u = iter(torch.rand(8, generator=learner.randomness.at(t, "transplant")).tolist())
        expected = before.clone()
        for k, row in enumerate(rows):
            if Y[row] < 4:
                replays[row] += 1
                if next(u) * int(replays[row]) < 1:
                    now = z[2 + k, : 6 + FUTURE]
                    expected[row] = torch.cat(
                        (
                            naive_renew(before[row, : len(now)], now, Y[row], 4, 0.85),
                            before[row, len(now) :],
                        )
                    )
                    changed += 1
        torch.testing.assert_close(after, expected, equal_nan=True)
        untouched = [r for r in range(len(before)) if r not in rows or Y[r] >= 4]
        same = after[untouched].nan_to_num(7) == before[untouched].nan_to_num(7)
        assert same.all() and torch.equal(after[:, :4].nan_to_num(7), before[:, :4].nan_to_num(7))
        assert torch.equal(column(learner, "replays")[: len(before)], replays)
    assert changed > 10 and int(replays.max()) > 1


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
    with torch.inference_mode():
        z = learner.network.head(learner.features(dataset.train.images[:13]))[:, : 4 + FUTURE]
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


def test_samples_that_wait_are_learned_before_the_boundary(
    xder: Make, dataset: Dataset, passes: Passes
) -> None:
    learner = xder()
    observe(learner, dataset, [0, 1, 0, 1, 0, 1, 0, 1, 1])
    learner.end_task()
    assert len(learner.waiting) == 0 and len(learner.memory) == 9
    assert learner.work.updates == 9 and len(passes[-2][0]) == 8  # the memory fills up the batch


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
    heads = Heads()
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
    other = Heads()
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
    assert torch.equal(learner.vectors()[2], trained[2])


def test_classes_and_future_rows_never_run_out(xder: Make, dataset: Dataset) -> None:
    learner = xder(memory_size=50)
    for start in range(0, 40, 10):
        observe(learner, dataset, list(range(start, start + 10)), start=start)
        learner.end_task()
    assert len(learner.network.head.weight) == 64
    assert 40 + FUTURE <= column(learner, "logits").shape[1] <= (40 + FUTURE) * 9 / 8
    assert learner.scores(dataset.test.images[:3]).shape == (3, 40)
    assert torch.isfinite(learner.scores(dataset.test.images)).all()


def test_an_update_costs_three_of_er_and_views_leave_running_statistics(
    xder: Make, dataset: Dataset, passes: Passes
) -> None:
    learner = xder()
    observe(learner, dataset, [0, 1, 2, 3] * 5)
    images, updates = learner.work.images, learner.work.updates
    passes.clear()
    observe(learner, dataset, [0, 1, 2, 3] * 5, start=20)
    assert learner.work.images - images == 3 * 8 * (learner.work.updates - updates) == 3 * 8 * 20
    assert learner.work.images - images == sum(len(x) for x, _ in passes)
    norm = next(m for m in learner.network.modules() if isinstance(m, nn.BatchNorm2d))
    assert int(norm.num_batches_tracked) == learner.work.updates and norm.track_running_stats
    few = xder(contrasted=3, views=4)
    observe(few, dataset, [0, 1, 2, 3] * 5)
    assert [len(x) for x, _ in passes[-2:]] == [8, 12]


def test_an_untracked_pass_gives_what_a_training_pass_gives() -> None:
    network = build(lambda: ResNet(depth=8, width=4), torch.Generator().manual_seed(1))
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    before = digest(network.state_dict())
    with untracked(network):
        z = train_forward(network, x)
    assert digest(network.state_dict()) == before
    assert torch.equal(z, train_forward(network, x))
    assert digest(network.state_dict()) != before


def test_memory_images_are_drawn_anew_and_none_comes_twice(
    xder: Make, dataset: Dataset, passes: Passes
) -> None:
    learner = xder(iterations=3, memory_size=40)
    observe(learner, dataset, [0, 1, 2, 3] * 10)
    batches = [x for x, _ in passes[::2]]
    assert all(len({i.numpy().tobytes() for i in x}) == len(x) for x in batches)
    block = batches[-6:]
    assert all(torch.equal(x[:2], block[0][:2]) for x in block)
    assert len({x[2:].numpy().tobytes() for x in block}) == 6


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


@pytest.mark.parametrize(
    "given",
    [
        *({name: -0.1} for name in ("alpha", "beta", "lam", "eta", "mu")),
        *({"gamma": value} for value in (0.0, 1.1, math.nan)),
        {"smallest_crop": 0.0},
        {"temperature": 0.0},
        {"views": 1},
        {"contrasted": 0},
        {"future": 0},
    ],
    ids=str,
)
def test_impossible_settings_are_refused(given: dict[str, object], xder: Make) -> None:
    with pytest.raises(InvalidSetting):
        xder(**given)
