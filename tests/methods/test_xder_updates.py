"""What X-DER trains on, and what an update does to the network and to stored logits."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.data.dataset import Dataset
from earl.learning.memory import draw_distinct
from earl.methods.xder import CONTRASTED, XDER
from earl.nn.modes import train_forward
from xder_tools import FUTURE, column, naive_renew, observe

Make = Callable[..., XDER]


Passes = list[tuple[Tensor, Tensor]]


@pytest.fixture
def passes(passes: Passes, monkeypatch: pytest.MonkeyPatch) -> Passes:
    """Collects every training pass: that of the batch, then that of its views, which are plain."""
    monkeypatch.setattr("earl.methods.xder.contrast_augment", lambda x, generator, **options: x)
    return passes


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


def test_the_contrast_is_a_mean_over_images_and_their_views(
    xder: Make, dataset: Dataset, passes: Passes
) -> None:
    learner = xder()
    observe(learner, dataset, [0, 1, 2, 0])
    passes.clear()
    loss = learner._contrast(dataset.train.images[:4], torch.tensor([0, 1, 2, 0]), t=0)
    ((_, z),) = passes
    f = [v / v.norm() for v in z[:, 3 : 3 + FUTURE]]
    terms = []
    for i in range(8):
        others = [a for a in range(8) if a != i]
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


def test_samples_that_wait_are_learned_before_the_boundary(
    xder: Make, dataset: Dataset, passes: Passes
) -> None:
    learner = xder()
    observe(learner, dataset, [0, 1, 0, 1, 0, 1, 0, 1, 1])
    learner.end_task()
    assert len(learner.waiting) == 0 and len(learner.memory) == 9
    assert learner.work.updates == 9 and len(passes[-2][0]) == 8  # the memory fills up the batch


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
    large = xder(batch_size=72, memory_size=100, iterations=1 / 24)  # an update for each block
    observe(large, dataset, [0, 1, 2, 3] * 18)
    assert [len(x) for x, _ in passes[-2:]] == [72, 2 * CONTRASTED]
