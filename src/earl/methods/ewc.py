"""Online elastic weight consolidation (Kirkpatrick et al., PNAS 2017) on top of replay."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import require
from earl.learning import (
    Classes,
    Learner,
    Memory,
    Pace,
    Setting,
    Stateful,
    Waiting,
    Work,
    adam,
    ask,
    forward,
    reservoir,
    take_step,
    with_replay,
)
from earl.nn import Classifier, Taken, chosen, differentiate, feature_size
from earl.randomness import Randomness


class EWC(Learner):
    """Replays like ER, and holds the backbone's weights near those of the last task boundary.

    Paper: Kirkpatrick et al., "Overcoming catastrophic forgetting in neural networks", PNAS 2017,
    in the online form EWC++ of Chaudhry et al., "Riemannian Walk for Incremental Learning", ECCV
    2018. How firmly a weight is held follows from a running Fisher diagonal. Uses task boundaries.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        ewc_lambda: float = 100.0,
        alpha: float = 0.5,
        normalize_fisher: bool = False,
    ) -> None:
        require(
            0 <= ewc_lambda < float("inf"),
            f"ewc_lambda = {ewc_lambda} must not be negative or infinite",
        )
        require(0 < alpha <= 1, f"alpha = {alpha} must be above 0 and at most 1")
        self.setting = setting
        self.ewc_lambda = ewc_lambda
        self.randomness = Randomness(setting.seed)
        size = feature_size(backbone, setting.image_shape)
        self.network = Classifier(backbone, size, self.randomness.at(0, "head")).to(setting.device)
        self.optimizer = adam(self.network.parameters(), setting.lr)
        # The head is left out: its rows belong to classes, and some are not there yet.
        self.theta = [p for p in self.network.backbone.parameters() if p.requires_grad]
        self.fisher = Fisher(alpha, normalize_fisher)
        self.memory = Memory(setting.memory_size, reservoir)
        self.waiting = Waiting(max(1, setting.batch_size // 2), self._learn_block)
        self.classes = Classes()
        self.work = Work(self.passes)
        self.pace = Pace(setting, self.work)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Collect half a batch of new samples, train on them with as many old ones, keep them."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            y_i = self.classes.index(y_i)
            n = len(self.classes)
            self.network.head.grow(n, self.optimizer, self.randomness.at(n, "head"))
            self.waiting.append(x_i, y_i)

    def end_task(self) -> None:
        """Hold on to the weights as they are now; those of the boundary before are let go."""
        self.fisher.consolidate(self.theta)

    def _learn_block(self, X: Tensor, Y: Tensor) -> None:
        for _ in self.pace.owed(len(Y)):
            self._update(X, Y)
        self.memory.add(self.randomness.at(self.memory.seen, "insert"), x=X, y=Y)

    def _update(self, X: Tensor, Y: Tensor) -> None:
        t = self.work.updates
        draw = self.randomness.at(t, "draw")
        X, Y = with_replay(X, Y, self.memory, self.setting.batch_size, draw)
        X = self.setting.augment(X.to(self.setting.device), self.randomness.at(t, "augment"))
        z = forward(self.network, self.setting, X)[:, : len(self.classes)]
        loss = F.cross_entropy(z, Y.to(z.device))
        differentiate(loss, self.optimizer)
        # The penalty enters by its gradient, and only now: the Fisher is that of cross-entropy.
        g = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.theta]
        if self.fisher.Omega:
            for p, g_p, pull in zip(self.theta, g, self.fisher.pull(self.theta), strict=True):
                if p.grad is not None:
                    p.grad = torch.add(g_p, pull, alpha=self.ewc_lambda, out=pull)
        self.fisher.update(g, take_step(loss, self.optimizer, self.work))
        self.work.add(images=len(Y))

    def scores(self, x: Tensor) -> Tensor:
        return ask(self.network, self.setting, x)[:, : len(self.classes)]

    def parts(self) -> Mapping[str, Stateful]:
        return self.named_parts(
            "network", "optimizer", "fisher", "memory", "waiting", "classes", "pace", "work"
        )


class Fisher:
    """The running diagonal Phi, and Omega and theta* as they were at the last boundary.

    Each is a list with one tensor per parameter; all are empty until there is something to hold.
    """

    def __init__(self, alpha: float, normalize: bool) -> None:
        self.alpha, self.normalize = alpha, normalize
        self.Phi: list[Tensor] = []
        self.Omega: list[Tensor] = []
        self.theta_star: list[Tensor] = []

    def update(self, g: list[Tensor], taken: Taken = True) -> None:
        """Move Phi towards the squares of the gradients g; the first ones are taken as they are.

        Gradients of a step that was not taken leave it as it is, or at zero.
        """
        if taken is False:
            return
        if not self.Phi:
            self.Phi = [chosen(taken, g_p.square(), torch.zeros_like(g_p)) for g_p in g]
            return
        for Phi, g_p in zip(self.Phi, g, strict=True):
            before = Phi.clone() if isinstance(taken, Tensor) else Phi
            Phi.mul_(1 - self.alpha).addcmul_(g_p, g_p, value=self.alpha)
            if before is not Phi:
                Phi.copy_(chosen(taken, Phi, before))

    def consolidate(self, theta: list[nn.Parameter]) -> None:
        """Set Omega to Phi and theta* to theta; before the first update there is no Phi to set."""
        if not self.Phi:
            return
        self.Omega = [Phi.clone() for Phi in self.Phi]
        if self.normalize:
            low = min(float(Omega.min()) for Omega in self.Omega)
            high = max(float(Omega.max()) for Omega in self.Omega)
            self.Omega = [(Omega - low) / max(high - low, 1e-30) for Omega in self.Omega]
        self.theta_star = [p.detach().clone() for p in theta]

    def pull(self, theta: list[nn.Parameter]) -> list[Tensor]:
        """Return the gradient 2 Omega (theta - theta*) of sum Omega (theta - theta*)²."""
        held = zip(self.Omega, theta, self.theta_star, strict=True)
        return [(p.detach() - star).mul_(Omega).mul_(2) for Omega, p, star in held]

    def state_dict(self) -> dict[str, Any]:
        return {"Phi": self.Phi, "Omega": self.Omega, "theta_star": self.theta_star}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.Phi, self.Omega = list(state["Phi"]), list(state["Omega"])
        self.theta_star = list(state["theta_star"])
