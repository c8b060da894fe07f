"""A projection for features that mean something already: they move along the vectors of classes."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from earl.methods.earl.frozen_means import FrozenMeans
from earl.nn.heads import enlarge

ROWS = 32  # that there is room for at first
# A step of Adam moves each weight by about lr, and ⟨a_c, x⟩ so by about lr √size ‖x‖. With this
# share of √size before x a step turns features of any size by about lr / GAIN at most.
# Both numbers were chosen on training images held out (docs/embeddings.md).
GAIN = 0.01
SHARE = 3.0  # b, of the scores by the class means


class AlongVectors(nn.Module):
    """p(x) = g x + Σ_c ⟨g b m_c + a_c, x⟩ w_c over the seen classes; (B, size) -> (B, d).

    m_c is the unit vector from the centre of all classes to the mean of class c, and a_c is what is
    learned: zero at first. The loss pulls a feature to the vector of its class, that is along these
    vectors and nowhere else, so that p has no other weights. Features of fewer numbers than d are
    followed by zeros, longer ones are folded: what comes to the same place is added up.
    """

    def __init__(self, means: FrozenMeans, vectors: Tensor) -> None:
        super().__init__()
        size = means.means.shape[1]
        self.weight = nn.Parameter(torch.zeros(ROWS, size))  # row c is a_c
        self.means, self.vectors = means, vectors  # (n, d), those of a frame; no part of the state
        self.gain, self.folded = GAIN * math.sqrt(size), vectors.shape[1]

    def forward(self, x: Tensor) -> Tensor:
        there, d = self.means.there().to(x.device), self.vectors.shape[1]
        m = F.normalize(self.means.centred(), dim=1)
        kept = sum(F.pad(part, (0, d - part.shape[1])) for part in x.split(self.folded, dim=1))
        z = F.linear(x, self.gain * SHARE * m + self.weight[there])
        return self.gain * kept + z @ self.vectors[there]

    def follow(self, vectors: Tensor, optimizer: Optimizer) -> None:
        """Take the vectors of all seen classes as they are now, (n, d), and have a row for each."""
        have, size = self.weight.shape
        if len(vectors) > have:
            enlarge(self.weight, (max(len(vectors), 2 * have), size), optimizer)
        self.vectors = vectors

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: object) -> None:
        stored = state.get(prefix + "weight")
        if stored is not None and stored.shape[1:] == self.weight.shape[1:]:
            self.weight.data = self.weight.data.new_empty(stored.shape)
        super()._load_from_state_dict(state, prefix, *args)
