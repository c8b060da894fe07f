"""Forgetting: samples are taken out of what a learner stores; its weights keep their trace."""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from earl.errors import InvalidInput
from earl.estimator.keys import Key, check_key, content, keeps_samples, kept, remove
from earl.estimator.labels import check_label
from earl.estimator.model import Model
from earl.learning import Learner, Memory, Waiting, ask
from earl.methods.earl import EARL


def forget_label(model: Model, label: Hashable) -> int:
    """Forget all samples of a label, and answer it no more; return how many samples there were."""
    learner = storing(model)
    number = model.labels.number(check_label(label))
    if number not in model.answered():
        return 0
    with model.held():
        gone = forget_class(learner, number)
    model.forget_class(number)
    return gone


def forget_key(model: Model, key: Key) -> Tensor | None:
    """Forget the sample of a key; return it, or None if it is no longer remembered."""
    learner = storing(model)
    found = model.keys.get(check_key(key))
    if found is None:
        return None
    with model.held():
        x = forget_sample(learner, *found)
    if x is not None:
        model.forget_key(key)
    return x


def relabel(model: Model, key: Key, label: Hashable) -> None:
    """Forget the sample of a key, then learn it with another label."""
    label = check_label(label)
    learner = storing(model)
    model.check_bound([label])
    model.check_room([label], learner)
    learner.work.progress.check()
    x = forget_key(model, key)
    if x is None:
        raise InvalidInput(
            f"no sample with the key {key!r} is remembered any more; learn it again with its right "
            "label"
        )
    numbers = model.numbers_for(x[None], [label], storing(model))
    model.observe(x[None], numbers, [label], [key], asks=False)


def storing(model: Model) -> Learner:
    """Return the learner; InvalidInput if its method stores no samples as they came."""
    learner = model.learner
    assert learner is not None
    memory = learner.parts().get("memory")
    if not isinstance(memory, Memory) or (len(memory) and not keeps_samples(memory, learner)):
        method = model.parameters.method
        raise InvalidInput(f"method = {method!r} stores no samples that could be forgotten")
    return learner


def forget_sample(learner: Learner, digest: str, number: int) -> Tensor | None:
    """Remove a sample with this content and class from all that is stored; return it, if found.

    Features of its class that correct answers may come from it: they are made anew.
    """
    found: list[Tensor] = []
    rows: dict[int, tuple[Memory | Waiting, list[int]]] = {}
    for part, row, x, c in kept(learner):
        if c == number and content(x) == digest:
            found.append(x.clone())
            rows.setdefault(id(part), (part, []))[1].append(row)
    remove(rows)
    if found:
        renew_features(learner, number, found)
    return found[0] if found else None


def forget_class(learner: Learner, number: int) -> int:
    """Remove all samples and features of a class; return how many samples there were."""
    rows: dict[int, tuple[Memory | Waiting, list[int]]] = {}
    for part, row, _, c in kept(learner):
        if c == number:
            rows.setdefault(id(part), (part, []))[1].append(row)
    remove(rows)
    renew_features(learner, number)
    return sum(len(gone) for _, gone in rows.values())


def renew_features(learner: Learner, number: int, gone: Sequence[Tensor] | None = None) -> None:
    """Let samples that are gone, or all of a class, correct no answer any more.

    The ring of the class's features is filled with those of the samples that it still has; a
    running mean of features that never change is that of all the others.
    """
    if not isinstance(learner, EARL) or not learner.correction:
        return
    c = int(learner.classes.numbers(torch.tensor([number])))
    if learner.means is not None:
        if gone is None:
            learner.means.empty(c)
        for x in gone or ():
            learner.means.take_out(ask(learner.f[0], learner.setting, x[None])[0], c)
        return
    state = learner.residuals.state_dict()
    rings, pushed = state["rings"].clone(), state["pushed"].clone()
    rings[c], pushed[c] = 0, 0
    learner.residuals.load_state_dict({"rings": rings, "pushed": pushed})
    rows = learner.memory.rows_of(c)[: learner.residuals.per_class]
    if rows:
        (x,) = learner.memory.take(torch.tensor(rows), "x")
        features = learner.features(x).clone()
        learner.residuals.push(features, torch.full((len(rows),), c))
