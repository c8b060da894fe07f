"""Linear classifiers of other libraries as methods, for streams of embeddings.

    earl data embed cifar10 --per-class 450 --set exam_per_class=150 -o ~/embeddings/cifar10-lite0
    PYTHONPATH=benchmarks earl sweep benchmarks/outsiders.toml --import outsiders

Both see features of unit length and have the rates of their libraries. Scikit-learn must be told
beforehand how many classes there will be; only those that were seen are asked about.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from river.linear_model import SoftmaxRegression
from sklearn.linear_model import SGDClassifier
from torch import Tensor, nn
from torch.nn import functional as F

from earl import METHODS, Setting
from earl.learning import Stateful
from earl.methods.embeddings.closed_form import ClosedForm

MOST = 10  # classes that scikit-learn is told of


class Logistic:
    """Scikit-learn's logistic regression by partial_fit, one class against all others."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.model = SGDClassifier(loss="log_loss", random_state=seed)

    def learn(self, h: NDArray[np.float32], c: int) -> None:
        self.model.partial_fit(h[None], [c], classes=np.arange(MOST))

    def scores(self, h: NDArray[np.float32], classes: int) -> NDArray[Any]:
        scores: NDArray[Any] = self.model.decision_function(h)[:, :classes]
        return scores

    def state_dict(self) -> dict[str, Any]:
        if not hasattr(self.model, "coef_"):
            return {"t": 0.0}
        names = ("coef_", "intercept_")
        numbers = {name: torch.from_numpy(getattr(self.model, name)) for name in names}
        return {"t": float(self.model.t_), **numbers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["t"]:
            self.learn(np.zeros(self.size, dtype=np.float32), 0)  # makes room
            self.model.t_ = state["t"]
            self.model.coef_ = state["coef_"].numpy()
            self.model.intercept_ = state["intercept_"].numpy()


class Softmax:
    """River's softmax regression; its weights are dictionaries."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.model = SoftmaxRegression()

    def learn(self, h: NDArray[np.float32], c: int) -> None:
        self.model.learn_one(dict(enumerate(h.tolist())), c)

    def scores(self, h: NDArray[np.float32], classes: int) -> NDArray[Any]:
        """Return the scores from river's own weights: its predict_one is slower by far."""
        return h @ self.rows(classes).T

    def rows(self, classes: int) -> NDArray[np.float64]:
        weights = [self.model.weights.get(c, {}) for c in range(classes)]
        return np.array([[w.get(i, 0.0) for i in range(self.size)] for w in weights])

    def state_dict(self) -> dict[str, Any]:
        rows = self.rows(1 + max(self.model.weights, default=-1)).reshape(-1, self.size)
        return {"weights": torch.from_numpy(rows)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for c, row in enumerate(state["weights"].tolist()):
            self.model.weights[c].update(enumerate(row))


class Outsider(ClosedForm):
    """Hands the features of each sample to a model of another library."""

    kind: type[Logistic] | type[Softmax]

    def __init__(self, backbone: nn.Module, setting: Setting) -> None:
        super().__init__(backbone, setting)
        self.model = self.kind(self.size, setting.seed)

    def _learn(self, h: Tensor, c: int) -> None:
        self.model.learn(F.normalize(h, dim=0).numpy(), c)

    def scores(self, x: Tensor) -> Tensor:
        h = F.normalize(self.features(x), dim=1).numpy()
        return torch.from_numpy(self.model.scores(h, len(self.classes))).float()

    def costs(self) -> dict[str, float]:
        """Return all costs but FLOPs: nobody counts those of other libraries."""
        return {name: cost for name, cost in super().costs().items() if name != "flops"}

    def parts(self) -> Mapping[str, Stateful]:
        return {**super().parts(), "model": self.model}


@METHODS.register("sklearn-sgd", "scikit-learn's SGDClassifier, logistic, by partial_fit")
class SklearnSGD(Outsider):
    """One-against-all logistic regression."""

    kind = Logistic


@METHODS.register("river-softmax", "river's SoftmaxRegression")
class RiverSoftmax(Outsider):
    """Softmax regression."""

    kind = Softmax
