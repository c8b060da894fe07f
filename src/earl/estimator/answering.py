"""A copy of a model that answers while the model itself goes on learning."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from earl.estimator.explaining import nearness, unknown_scores
from earl.estimator.labels import LabelMap
from earl.estimator.model import Model
from earl.learning import Learner, Memory, Pace, Setting, Work
from earl.methods.earl import EARL
from earl.methods.earl.preparatory import PreparatoryData
from earl.nn.freezing import frozen_parts
from earl.randomness import Randomness

# No answer needs them, or nothing ever changes them.
SHARED = (Optimizer, Pace, Work, Setting, Randomness, PreparatoryData)


@dataclass(frozen=True)
class Answers:
    """Probabilities of all labels (n, labels), and how far samples are from all classes (n,)."""

    probabilities: Tensor
    unknown: Tensor


def answering_copy(model: Model) -> Model:
    """Return a model that answers as this one does now, whatever this one learns from now on.

    It must not learn. What learning does not change is shared with the model, so that the copy of
    one with a frozen backbone is small; so is what only learning needs.
    """
    twin = copy.copy(model)
    twin.labels = LabelMap(model.labels)
    twin.keys = model.keys.copy()
    twin.history = model.history.copy()
    twin.forgotten = set(model.forgotten)
    if model.learner is not None:
        twin.learner = copied(model.learner)
    return twin


def copied(learner: Learner) -> Learner:
    """Return a copy of a learner that can be asked, with its networks in evaluation mode."""
    shared: dict[int, Any] = {}
    for value in vars(learner).values():
        if isinstance(value, SHARED) or (isinstance(value, Memory) and not asks(learner)):
            shared[id(value)] = value
        elif isinstance(value, nn.Module):
            shared |= {id(tensor): tensor for tensor in unchanging(value)}
    twin = copy.deepcopy(learner, shared)
    for value in vars(twin).values():
        if isinstance(value, nn.Module):
            value.eval()
    return twin


def asks(learner: Learner) -> bool:
    """Tell whether a learner looks into its memory to answer or to explain; EARL may not."""
    return not isinstance(learner, EARL) or learner.correction


def unchanging(network: nn.Module) -> list[Tensor]:
    """Return the tensors of a network that are frozen."""
    parts = [part.state_dict(keep_vars=True).values() for part in frozen_parts(network)]
    alone = [p for p in network.parameters() if not p.requires_grad]
    return [*(tensor for part in parts for tensor in part), *alone]


def answers(model: Model, x: Tensor) -> Answers:
    """Return all there is to say about samples, in one pass through the network where it can be."""
    learner = model.learner
    if not isinstance(learner, EARL):
        return Answers(model.probabilities(x), unknown_scores(model, x))
    with model.held(), torch.inference_mode():
        f_hat = learner.features(x)
        near = nearness(model, learner, f_hat)
        scores = model.without_forgotten(learner.corrected(f_hat) @ learner.vectors().T)
    return Answers(model.shares(scores), (1 - near.double().cpu()).clamp(0, 1))
