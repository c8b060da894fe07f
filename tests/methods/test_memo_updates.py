"""What an update of MEMO does."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from earl.data.dataset import Dataset
from earl.methods.memo import MEMO
from earl.nn.modes import train_forward
from teaching import check_adam_step
from teaching import teach_classes as teach

Memo = Callable[..., MEMO]


def test_an_update_of_the_first_task_is_an_adam_step_on_the_cross_entropy(
    memo: Memo, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = memo(iterations=0.25)
    teach(learner, dataset, (0, 1), 3)
    before = copy.deepcopy(learner.network)
    teach(learner, dataset, (2,), 1)
    (images,) = passed
    logits = before.head(train_forward(before.extractors, images))[:, :3]
    y = [0, 1, 0, 2]
    loss = -torch.stack([logits[i].log_softmax(0)[c] for i, c in enumerate(y)]).mean()
    parameters = list(before.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    for p, g, after in zip(parameters, gradients, learner.network.parameters(), strict=True):
        expected = p - learner.setting.lr * g / (g.abs() + 1e-8)  # Adam's first step
        sure = (g.abs() > 1e-6) | (g == 0)
        torch.testing.assert_close(after[sure], expected[sure], atol=2e-5, rtol=1e-4)


def test_an_update_of_a_later_task_adds_the_auxiliary_loss_of_the_newest_extractor(
    memo: Memo, dataset: Dataset, passed: list[Tensor]
) -> None:
    learner = memo(iterations=0.25, aux_weight=0.6)
    teach(learner, dataset, (0, 1), 8)
    learner.end_task()
    teach(learner, dataset, (2, 1), 3)
    before, moments = copy.deepcopy(learner.network), copy.deepcopy(learner.optimizer.state_dict())
    passed.clear()
    teach(learner, dataset, (3,), 1)
    (images,) = passed
    assert len(images) == 8

    stored = learner.setting.view(dataset.train.images)
    found = [next(i for i in range(len(stored)) if torch.equal(stored[i], x)) for x in images]
    y = learner.classes.numbers(dataset.train.labels[torch.tensor(found)]).tolist()
    assert y[:4] == [2, 1, 2, 3] and max(y[4:]) < 2  # new ones, then memory
    frozen, newest = before.extractors.special
    before.train(), frozen.eval()
    base = before.extractors.base(images)
    h = torch.cat((frozen(base).mean((2, 3)), newest(base).mean((2, 3))), dim=1)
    z, a = before.head(h)[:, :4], before.aux(h[:, 16:])[:, :3]
    target = [0 if c < 2 else c - 2 + 1 for c in y]
    loss = F.nll_loss(z.log_softmax(1), torch.tensor(y))
    loss = loss + 0.6 * F.nll_loss(a.log_softmax(1), torch.tensor(target))
    check_adam_step(before, moments, loss, learner.network)
