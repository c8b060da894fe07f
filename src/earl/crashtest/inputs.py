"""B2: generated calls of `observe` and `predict` keep the contract, or change nothing."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from earl.crashtest.harness import Found, Trial
from earl.crashtest.small import data, experiment
from earl.errors import EarlError
from earl.learning import inputs as checks
from earl.learning.learner import Learner
from earl.storage.state import digest

DTYPES = (torch.uint8, torch.int8, torch.int32, torch.int64, torch.bool)
DTYPES += (torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.complex64)
INTEGER = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
SHAPES = ((3, 8, 8), (1, 8, 8), (3, 8, 9), (8, 8, 3), (3, 8), (8,), (), (3, 8, 8, 1), (0, 8, 8))
WORST = (float("nan"), float("inf"), -1.0, 2.0, 300.0)
NOT_TENSORS: tuple[Any, ...] = (None, 0, 1.5, "image", b"", [], [[1]], {}, object())
NOT_LABELS: tuple[Any, ...] = (-1, True, 2**63, 1.5, float("nan"), None, "1", [0], (0,), {0})


def inputs(trial: Trial) -> Found:
    """Call a learner with all kinds of things; the sabotage checks no images."""
    torch.set_num_threads(1)
    rng = trial.rng
    learner = experiment("earl").build(dataset=data(16)).learner
    learner.observe(*good(rng))
    if trial.sabotage:
        checks.check_dense = lambda t, what: None
        learner.setting.__class__.check_images = (  # type: ignore[method-assign]
            lambda setting, x: None
        )
    found = trial.found(calls=0, accepted=0, refused=0, other=0, changed=0)
    before = digest(learner.state_dict())
    for _ in range(trial.count):
        before = called(learner, rng, before, found)
    found.figures["calls"] = trial.count
    return found


def called(learner: Learner, rng: random.Random, before: str, found: Found) -> str:
    """Make one call and note what came of it; return the digest of the state after it."""
    x, fine = generated_images(rng)
    act: Callable[[], object] = lambda: learner.predict(x)  # noqa: E731
    learns = rng.random() < 0.5
    y: Any = None
    if learns:
        y, right = generated_labels(rng, length(x))
        act, fine = lambda: learner.observe(x, y), fine and right
    what = f"{'observe' if learns else 'predict'} {described(x)} {described(y)}"
    try:
        act()
    except ValueError as refusal:
        typed = isinstance(refusal, EarlError)
        found.figures["refused" if typed else "other"] += 1
        found.expect(typed, f"{what}: an untyped {type(refusal).__name__}: {refusal}")
        found.expect(not fine, f"{what}: refused, though the contract allows it: {refusal}")
    except Exception as error:
        found.figures["other"] += 1
        found.expect(False, f"{what}: {type(error).__name__}: {str(error)[:80]}")
    else:
        found.figures["accepted"] += 1
        found.expect(fine, f"{what}: accepted, though the contract does not allow it")
    after = digest(learner.state_dict())
    if after != before and not (fine and learns):
        found.figures["changed"] += 1
        found.expect(False, f"{what}: it has changed the state")
    return after


def good(rng: random.Random) -> tuple[Tensor, Tensor]:
    """Return images and labels that every learner of this shape must take."""
    n = rng.randint(1, 2)
    x = torch.frombuffer(bytearray(rng.randbytes(n * 192)), dtype=torch.uint8).view(n, 3, 8, 8)
    return x, torch.tensor([rng.randrange(4) for _ in range(n)])


def generated_images(rng: random.Random) -> tuple[Any, bool]:
    """Return something for images, and whether the contract allows it."""
    kind = rng.random()
    if kind < 0.15:
        return good(rng)[0], True
    if kind < 0.2:
        return rng.choice(NOT_TENSORS), False
    if kind < 0.25:
        return good(rng)[0].numpy(), False
    if kind < 0.35:
        odd = good(rng)[0]
        nested = torch.nested.nested_tensor(list(odd), layout=torch.jagged)
        return rng.choice([odd.to_sparse(), odd.to("meta"), nested]), False
    dtype, shape = rng.choice(DTYPES), rng.choice(SHAPES)
    batch = rng.choice([(), (0,), (1,), (2,), (1, 1)])
    x = torch.zeros(batch + shape, dtype=dtype)
    if x.numel() and x.is_floating_point():
        x.view(-1)[0] = rng.choice(WORST)
    fine = dtype == torch.uint8 and shape == (3, 8, 8) and batch in ((1,), (2,))
    return x, fine


def generated_labels(rng: random.Random, n: int) -> tuple[Any, bool]:
    """Return something for the labels of n images, and whether the contract allows it."""
    kind = rng.random()
    if kind < 0.4:
        return torch.tensor([rng.randrange(4) for _ in range(n)]), True
    if kind < 0.55:
        return rng.choice(NOT_LABELS), False
    if kind < 0.65:
        return np.zeros(n, np.int64), False
    dtype, length = rng.choice(DTYPES), rng.choice([n, n, n, 0, n + 1])
    y = torch.zeros(length, dtype=dtype)
    if length and rng.random() < 0.3 and dtype != torch.bool:
        y[0] = rng.choice([1, 3]) if dtype == torch.uint8 else rng.choice([-1, -100, 1])
    if rng.random() < 0.1:
        return y[:, None], False
    fine = dtype in INTEGER and length == n and not (length and bool((y.real < 0).any()))
    return y, fine


def length(x: Any) -> int:
    """Return how many labels go with what was given for images."""
    return len(x) if isinstance(x, Tensor) and not x.is_nested and x.ndim else 1


def described(value: Any) -> str:
    """Return in a few letters what was given."""
    if isinstance(value, Tensor):
        shape = "nested" if value.is_nested else str(tuple(value.shape))
        return f"{value.dtype} {value.layout} {shape}".replace("torch.", "")
    return f"{type(value).__name__} {str(value)[:20]}"
