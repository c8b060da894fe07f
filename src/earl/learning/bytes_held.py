"""The bytes that a learner holds, part by part."""

from torch import nn
from torch.optim import Optimizer

from earl.learning.classes import Classes
from earl.learning.encoder import Encoder
from earl.learning.learner import Learner
from earl.learning.memory import Memory
from earl.learning.pace import Pace, Waiting
from earl.learning.work import Work
from earl.storage.state import flatten

KINDS = {"x": "images", "y": "labels"}  # what columns of a memory are called in reports
COUNTERS = (Optimizer, Classes, Pace, Work)  # not needed to answer, or of no size


def bytes_held(learner: Learner) -> dict[str, int]:
    """Return the bytes of everything a learner keeps in order to answer and to go on, by name.

    That is stored samples, with the room kept for those to come, samples that wait, the network
    with its buffers, and what the method adds. The optimiser's moments are left out, as in the
    paper, and so is what can be derived, such as the vectors of the ETF.
    """
    held: dict[str, int] = {}
    for name, part in learner.parts().items():
        if isinstance(part, COUNTERS):
            continue
        if isinstance(part, Memory):
            sizes = {KINDS.get(column, column): n for column, n in part.nbytes().items()}
        elif isinstance(part, Waiting):
            sizes = {"waiting": part.size * learner.sample_bytes()}
        elif isinstance(part, Encoder):
            sizes = {"network": part.nbytes()}
        elif isinstance(part, nn.Module):
            sizes = {"network": sum(t.nbytes for t in (*part.parameters(), *part.buffers()))}
        else:
            tensors, _ = flatten(part.state_dict())
            sizes = {name: sum(t.nbytes for t in tensors.values())}
        for kind, size in sizes.items():
            held[kind] = held.get(kind, 0) + size
    return {kind: size for kind, size in held.items() if size}
