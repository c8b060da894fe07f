"""What every method must keep with frozen networks, wrong input and learning that diverges.

As in `checks.py`, each function states one fact and raises `ContractBroken` otherwise.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from earl.errors import ContractBroken, InvalidInput, NotFinite
from earl.experiments.contract.checks import Make, expect, samples, teach
from earl.learning.learner import Learner
from earl.nn.build import build
from earl.nn.finite import check_finite
from earl.nn.resnet import ResNet
from earl.randomness import Randomness
from earl.storage.state import digest

MARK = 10**6  # batches that a frozen batch norm is told to have seen


def small_backbone(seed: int = 1) -> ResNet:
    return build(lambda: ResNet(depth=8, width=4), Randomness(seed).at(0, "backbone"))


def what_is_frozen_stays_as_it_is(make: Make) -> None:
    """The whole backbone, or its stem: weights, statistics and mode, also of every copy.

    Batches that batch norm has counted mark its copies: they begin with far more than are learned.
    A method that trains nothing by gradient freezes the whole backbone, whatever it is given.
    """
    x, y = samples(30)
    for part in ("", "stem"):
        given = frozen_backbone(part)
        learner, fresh = make(backbone=given), make(backbone=frozen_backbone(part))
        frozen, before = given.get_submodule(part), digest(given.get_submodule(part).state_dict())
        rest = digest(given.state_dict())
        teach(learner, x[:20], y[:20])
        learner.end_task()
        fresh.load_state_dict(learner.state_dict())
        for one in (learner, fresh):
            teach(one, x[20:], y[20:])
            one.finish()
        expect(digest(frozen.state_dict()) == before, "frozen weights or statistics have changed")
        modes = {module.training for module in frozen.modules()}
        expect(modes == {False}, "a frozen part was left in training mode")
        counts = {int(norm.num_batches_tracked) for norm in norms_of(learner)}
        expect(max(counts) == MARK, "statistics of a copy of the frozen part have changed")
        learned = digest(given.state_dict()) != rest
        expect(not part or learned == learner.by_gradient, "what is not frozen does not learn")
        same = digest(learner.state_dict()) == digest(fresh.state_dict())
        expect(same, "loaded, it goes on in another way")


def frozen_backbone(part: str) -> ResNet:
    """Return a backbone of which a part is frozen, with batch norm that has seen many batches."""
    backbone = small_backbone()
    for norm in backbone.get_submodule(part).requires_grad_(False).eval().modules():
        if isinstance(norm, nn.BatchNorm2d) and norm.num_batches_tracked is not None:
            norm.num_batches_tracked.fill_(MARK)
    return backbone


def norms_of(learner: Learner) -> list[Any]:
    """Return every batch norm in the networks of a learner."""
    networks = [part for part in learner.parts().values() if isinstance(part, nn.Module)]
    norms = nn.modules.batchnorm._BatchNorm
    return [part for network in networks for part in network.modules() if isinstance(part, norms)]


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
    "sparse": lambda x: x.to_sparse(),
    "nested": lambda x: torch.nested.nested_tensor(list(x), layout=torch.jagged),
    "without numbers": lambda x: x.to("meta"),
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
    "sparse": lambda y: y.to_sparse(),
    "nested": lambda y: torch.nested.nested_tensor([y], layout=torch.jagged),
    "without numbers": lambda y: y.to("meta"),
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
        expect(finite(learner), "with lr = 1e30 its numbers are inf or nan, and it says nothing")
    learner = make()
    teach(learner, x[:12], y[:12])
    for part in learner.parts().values():
        for p in part.parameters() if isinstance(part, nn.Module) else ():
            p.data.fill_(float("nan"))
    try:
        answers = learner.predict(x).tolist()
    except NotFinite:
        return
    raise ContractBroken(f"with weights that are nan it answers {answers}")


def finite(learner: Learner) -> bool:
    try:
        check_finite(learner.parts())
    except NotFinite:
        return False
    return True


def refused(name: str, call: Callable[..., object], *arguments: object) -> None:
    """Expect InvalidInput, the error that says what was wrong."""
    try:
        call(*arguments)
    except InvalidInput:
        return
    raise ContractBroken(f"{name} was not refused")
