"""What a model will take when it is full, found out on a small one before anything is learned.

A learner with the settings of the model learns a few samples of few classes into a small memory,
with one training step. What it holds then grows in straight lines: with the rows of its memory,
with its classes, and, where the frame of EARL has to grow, with the dimensions of its features.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, prod

import torch
from torch import Tensor

from earl.estimator.answering import answering_copy, answers
from earl.estimator.build import make_learner
from earl.estimator.eye import EyeReader
from earl.estimator.model import Model
from earl.estimator.parameters import Parameters
from earl.learning import Learner, Memory, ask
from earl.learning.allocated import Allocated
from earl.learning.bytes_held import bytes_held
from earl.learning.encoder import REMEMBERED
from earl.methods.earl.preparatory import TRANSFORMATIONS
from earl.nn import Frame, SimplexETF
from earl.storage.state import flatten

FEW = 64  # classes of the small model, twice as many as a head has rows for at first
ASKED = 2  # images of the question that it is asked
AHEAD = 5 / 4  # room for classes is made an eighth ahead, in steps;
DOUBLED = 2  # but heads double their rows
MOST = 64  # samples of a training step that is taken; a larger one takes more in proportion
TRAINED = 3  # of every weight that comes with a class: a gradient and two moments

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Needs:
    """The bytes that a model takes when its memory is full and it knows so many classes."""

    classes: int
    side: int  # pixels of the images that it takes
    network: int  # weights, also those of a frozen backbone
    learning: int  # gradients, moments, and what a method stores beside images
    memory: int  # stored samples
    step: int  # while it learns one sample, beyond all above
    answer: int  # while it answers about one image
    seeing: int  # while a frozen backbone looks at images, which it does one by one
    copy: int  # that answers while it learns
    state: int  # as it is saved


def needs_of(parameters: Parameters, classes: int) -> Needs:
    """Return what a model will take when its memory is full and it knows so many classes.

    A method that has no room for so many is full with fewer.
    """
    own = parameters.of("method")
    d = own.get("d")
    if not isinstance(d, int) or not own.get("growth"):
        return at(rehearsed(parameters, classes), parameters, classes)
    narrow = SimplexETF(d, 0).for_classes(min(classes, FEW))  # it does not grow meanwhile
    found = rehearsed(with_settings(parameters, d=narrow.d), classes)
    last = narrow.for_classes(classes)
    if last.d > narrow.d:
        wider = narrow.for_classes(narrow.K + 1)
        more = rehearsed(with_settings(parameters, d=wider.d), classes)
        found = beyond(found, more, (last.d - wider.d) / (wider.d - narrow.d))
    if last.d > d:
        grown = found["network"] + found["trained"]  # all are copied
        found = {**found, "passing": max(found["passing"], grown)}
    return at(found, parameters, classes)


def beyond(a: Figures, b: Figures, times: float) -> dict[str, float]:
    """Return what follows after b if it goes on so many times as from a to b; nothing shrinks."""
    grows = {name: max(0.0, b[name] - a[name]) for name in b if b[name] < inf}
    return {name: b[name] + times * grows.get(name, 0.0) for name in b}


def at(found: Figures, parameters: Parameters, classes: int) -> Needs:
    """Return what follows from figures of a small model for a full one."""
    classes = int(min(classes, found["capacity"]))
    few = min(classes, FEW)
    extra = AHEAD * (classes - few)

    def each(name: str) -> float:
        """Return by how much a figure grows with a class."""
        return max(0.0, found[name] - found[f"{name}_before"]) / max(1, few - few // 2)

    rows = DOUBLED * classes - few if classes > few else 0
    weights, others = rows * each("network"), extra * each("kept")
    copy = found["copy"] + others + weights * found["copy"] / max(1.0, found["network"])
    memory = parameters.memory_size * (found["row"] + extra * each("row"))
    return Needs(
        classes=classes,
        side=int(found["side"]),
        network=int(found["network"] + found["eye"] + weights),
        learning=int(found["trained"] + others + TRAINED * weights),
        memory=int(memory),
        step=int(found["passing"] + others + found["seeing"]),
        answer=int(found["answer"]),
        seeing=int(found["seeing"]),
        copy=int(copy + memory * found["copies"]),
        state=int(found["all_saved"] + memory + extra * each("state") + (1 + TRAINED) * weights),
    )


def with_settings(parameters: Parameters, **settings: int) -> Parameters:
    return replace(parameters, settings={**(parameters.settings or {}), **settings})


def rehearsed(parameters: Parameters, classes: int) -> dict[str, float]:
    """Have a small model learn and answer; return the bytes of all that it holds and takes."""
    batch = int(parameters.of("setting")["batch_size"])
    count = max(FEW, min(batch, MOST)) + 1  # with the last of them comes a training step
    rows = min(parameters.memory_size, count)
    small = replace(parameters, memory_size=rows, steps_per_sample=1 / count, max_classes=None)
    model = Model(with_settings(small, batch_size=min(batch, MOST)))
    model.threads = parameters.threads or 1
    learner = model.learner = make_learner(model.parameters, model.reader.shape)
    capacity = learner.classes.capacity or inf
    few = int(min(classes, FEW, capacity))
    model.labels.add([str(c) for c in range(few)])
    with model.held():
        figures = of_learning(learner, noise(learner, count), few) | {"capacity": capacity}
        figures["passing"] *= max(1.0, batch / MOST)
        return figures | of_copies(model) | of_answers(model, noise(learner, ASKED))


def noise(learner: Learner, count: int) -> Tensor:
    """Return so many samples as a learner takes them."""
    setting, draw = learner.setting, torch.Generator().manual_seed(0)
    shape = (count, *setting.image_shape)
    if setting.dtype == torch.uint8:
        return torch.randint(256, shape, generator=draw, dtype=torch.uint8)
    return torch.randn(shape, generator=draw)


def of_learning(learner: Learner, x: Tensor, classes: int) -> dict[str, float]:
    """Have samples learned; return what is held with half of the classes, with all, and then."""
    y, half = torch.arange(len(x)) % classes, classes // 2
    figures: dict[str, float] = {}
    with Allocated() as allocated:
        for start, end in ((0, half), (half, classes), (classes, len(x))):
            if start < end:
                learner.observe(x[start:end], y[start:end])
            if end == half:
                figures = {f"{name}_before": n for name, n in now(learner, x[:1]).items()}
            elif end == classes:
                figures |= now(learner, x[:1])
        learner.finish()  # some methods wait for more samples before they train
    trained = now(learner, x[:1])["kept"]
    return figures | {"passing": allocated.passing, "trained": trained}


def now(learner: Learner, x: Tensor) -> dict[str, float]:
    """Return the bytes of the network, of a row of memory, of all else, and of what is saved."""
    if len(learner.classes):
        learner.scores(x)  # some methods make things when they are asked first
    network = bytes_held(learner).get("network", 0)
    kept = sum(tensors_in(learner, set()).values()) + vectors_of(learner) - network
    return {"network": network, "row": row_of(learner), "kept": kept, "state": saved(learner)}


def vectors_of(learner: Learner) -> int:
    """Return the bytes of the vectors that a frame will have made for the classes so far.

    It makes them when they are needed: one for each class, and those that prepare.
    """
    frame = getattr(learner, "frame", None)
    if not isinstance(frame, Frame):
        return 0
    each = 1 if getattr(learner, "prepare", None) is None else 1 + TRANSFORMATIONS
    return max(0, 4 * frame.etf.d * each * len(learner.classes) - frame.nbytes())


def saved(learner: Learner) -> float:
    """Return the bytes of a learner as it is saved, without its memory."""
    tensors, _ = flatten(learner.state_dict())
    stored = sum(len(part) * row_of(learner) for part in memories(learner).values())
    return sum(tensor.nbytes for tensor in tensors.values()) - stored


def memories(learner: Learner) -> dict[str, Memory]:
    """Return the parts of a learner that store samples."""
    return {name: part for name, part in learner.parts().items() if isinstance(part, Memory)}


def row_of(learner: Learner) -> float:
    """Return the bytes of a row of memory."""
    return sum(sum(part.nbytes().values()) / part.capacity for part in memories(learner).values())


def of_copies(model: Model) -> dict[str, float]:
    """Return the bytes of a copy that answers, and of the state as it is saved, without memory."""
    learner, twin = model.learner, answering_copy(model).learner
    assert learner is not None and twin is not None
    mine, its = tensors_in(learner, set()), tensors_in(twin, set())
    copied = sum(size for place, size in its.items() if place not in mine)
    others = memories(twin)
    copies = any(others[name] is not part for name, part in memories(learner).items())
    eye, _ = flatten(model.reader.state_dict())
    state = saved(learner) + sum(tensor.nbytes for tensor in eye.values())
    return {"copy": copied + vectors_of(learner), "copies": float(copies), "all_saved": state}


def tensors_in(thing: object, seen: set[int]) -> dict[int, int]:
    """Return the memory of all tensors in an object, but for those of a Memory: where, and bytes.

    What torch allots for copies of modules is no operation that `Allocated` would see.
    """
    if id(thing) in seen or isinstance(thing, Memory):
        return {}
    seen.add(id(thing))
    found: dict[int, int] = {}
    if isinstance(thing, Tensor):
        storage = thing.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
        found |= tensors_in(thing.grad, seen) if thing.is_leaf else {}
    if isinstance(thing, Mapping):
        inside = list(thing.values())
    elif isinstance(thing, list | tuple | set):
        inside = list(thing)
    else:
        inside = list(getattr(thing, "__dict__", {}).values())
    for one in inside:
        found |= tensors_in(one, seen)
    return found


def of_answers(model: Model, x: Tensor) -> dict[str, float]:
    """Return what an answer about an image takes, the frozen backbone and the image's side."""
    with Allocated() as allocated:
        answers(model, x)
    figures = {"answer": allocated.passing / len(x), "seeing": 0.0, "eye": 0.0}
    reader = model.reader
    if not isinstance(reader, EyeReader):
        return figures | {"side": float(reader.shape[1])}
    encode = reader.encode
    blank = torch.zeros(1, *encode.setting.image_shape, dtype=torch.uint8)
    with Allocated() as allocated:
        ask(encode.network, encode.setting, blank)
    known = REMEMBERED * 4 * prod(encode.shape)
    side = encode.setting.image_shape[1]
    return figures | {
        "seeing": float(allocated.passing),
        "eye": float(encode.nbytes() + known),
        "side": float(side),
    }
