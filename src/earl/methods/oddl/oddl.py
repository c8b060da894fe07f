"""ODDL (Ye and Bors, NeurIPS 2022): a new expert whenever the memory differs from all old ones."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

import torch
from torch import Tensor, nn

from earl.errors import require
from earl.learning import (
    Classes,
    Learner,
    Memory,
    Pace,
    Pass,
    Setting,
    Stateful,
    Work,
    greedy_balanced,
)
from earl.methods.oddl.mixture import Mixture
from earl.randomness import Randomness

NEVER = -1e4  # the score of a class that the answering component does not know
CHUNK = 256  # images that are compared at once


class ODDL(Learner):
    """Trains one classifier with a VAE from the memory, and freezes it when the memory has changed.

    Paper: Ye and Bors, "Task-Free Continual Learning via Online Discrepancy Distance Learning",
    NeurIPS 2022. A question is answered by the component whose VAE finds the image most likely.
    Knows no tasks.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        threshold: float = 0.3,
        check_every: float = 0.2,
        drop: float = 0.01,
        max_components: int = 10,
        latent: int = 200,
        vae_hidden: int = 2000,
        vae_lr: float = 1e-4,
        draws: int = 16,
        selection: Literal["elbo", "sum_softmax"] = "elbo",
    ) -> None:
        require(
            0 <= threshold <= 1, f"threshold = {threshold} must be from 0 to 1, as distances are"
        )
        share = "a share of the memory, above 0 and at most 1"
        require(0 < check_every <= 1, f"check_every = {check_every} must be {share}")
        share = "a share of the memory from 0 to below 1; 0.01 drops 10 of 1000 samples"
        require(0 <= drop < 1, f"drop = {drop} must be {share}")
        require(max_components >= 2, f"max_components = {max_components}, but it starts with 2")
        require(draws >= 1, f"draws = {draws} must be at least 1")
        require(vae_lr > 0, f"vae_lr = {vae_lr} must be positive")
        self.setting = setting
        self.threshold, self.max_components = threshold, max_components
        self.selection = selection
        self.interval = max(1, round(check_every * setting.memory_size))  # samples between checks
        self.drop = Fraction(drop).limit_denominator(10**6) * setting.memory_size  # in samples
        self.randomness = Randomness(setting.seed)
        self.mixture = Mixture(
            backbone, setting, latent=latent, hidden=vae_hidden, vae_lr=vae_lr, draws=draws
        )
        self.memory = Memory(setting.memory_size, greedy_balanced)
        self.classes = Classes()
        self.work = Work(self.passes)
        self.work.count(vae_images=0, dreamed=0)
        self.pace = Pace(setting, self.work)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """See whether the full memory has changed, keep each new sample, train from the memory."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            if self.memory.full:
                self._look_back()
            y_i = self.classes.index(y_i)
            draw = self.randomness.at(self.pace.samples, "rows")
            for component in self.mixture.learning:
                component.meet(y_i, draw)
            self.memory.add(self.randomness.at(self.pace.samples, "insert"), x=x_i, y=y_i)
            for _ in self.pace.owed(1):
                self._update()

    def _update(self) -> None:
        t, B = self.work.updates, self.setting.batch_size
        X, Y = self.memory.sample(B, "x", "y", generator=self.randomness.at(t, "draw"))
        augmented = self.setting.augment(
            X.to(self.setting.device), self.randomness.at(t, "augment")
        )
        learning = self.mixture.learning
        for i, component in enumerate(learning):
            draw = self.randomness.at(t, f"noise {i}")
            component.learn(X, augmented, Y, draw, self.work)
        n = len(learning) * len(Y)
        self.work.add(images=n, vae_images=n)

    def _look_back(self) -> None:
        """Freeze the first component when the memory is first full; later, check now and then."""
        if not self.mixture.frozen:
            self.mixture.components[0].freeze()
        elif self.pace.samples % self.interval == 0:
            self._check_discrepancy()

    def _check_discrepancy(self) -> None:
        """Start a new evaluator if the memory differs from all that is frozen; else thin it out."""
        memory, dreamed = self._distances()  # (frozen, M) each
        S = (dreamed.mean(dim=1) - memory.mean(dim=1)).abs()  # Eq. (17)
        e = self.mixture.evaluator
        S[[not G.shares_classes(e) for G in self.mixture.frozen]] = 1  # they cannot agree anywhere
        if len(self.mixture) < self.max_components and float(S.min()) >= self.threshold:
            self.mixture.evaluator.freeze()
            self.mixture.append()
            self.memory.clear()
        else:
            diversity = (memory - dreamed).abs().mean(dim=0)
            self.memory.remove(diversity.argsort(stable=True)[: self._dropped_now()].cpu())

    def _dropped_now(self) -> int:
        """Return how many samples this check drops: whole ones, on average the share in full.

        A share of less than one sample drops one at some checks and none at the others. No more go
        than come in until the next check.
        """
        check = self.pace.samples // self.interval
        return min(int((check + 1) * self.drop) - int(check * self.drop), self.interval)

    def _distances(self) -> tuple[Tensor, Tensor]:
        """Return ℓ(h_j(x), h_e(x)) for all frozen j: x the memory, and as many dreams of VAE_j."""
        n, e, frozen = len(self.classes), self.mixture.evaluator, self.mixture.frozen
        draws = [self.randomness.at(self.pace.samples, f"dream {j}") for j in range(len(frozen))]
        on_memory, on_dreams = [], []
        for rows in torch.arange(len(self.memory)).split(CHUNK):
            (x,) = self.memory.take(rows, "x")
            p = e.probabilities(x, n)
            distances = [total_variation(G.probabilities(x, n), p) for G in frozen]
            on_memory.append(torch.stack(distances))
            dreams = [G.dream(len(x), draw) for G, draw in zip(frozen, draws, strict=True)]
            distances = [
                total_variation(G.probabilities(x_j, n), e.probabilities(x_j, n))
                for G, x_j in zip(frozen, dreams, strict=True)
            ]
            on_dreams.append(torch.stack(distances))
        M, s = len(self.memory), len(frozen)
        self.work.count(forwards=M * (1 + 3 * s), dreamed=M * s)
        return torch.cat(on_memory, dim=1), torch.cat(on_dreams, dim=1)

    def scores(self, x: Tensor) -> Tensor:
        """Return log-probabilities, (B, n); NEVER for classes that the component does not know."""
        self.setting.check_images(x)
        with torch.inference_mode():
            p = self._mean(x) if self.selection == "sum_softmax" else self._most_likely(x)
            return p.log().clamp(min=NEVER)

    def _mean(self, x: Tensor) -> Tensor:
        n = len(self.classes)
        return torch.stack([G.probabilities(x, n) for G in self.mixture.components]).mean(dim=0)

    def _most_likely(self, x: Tensor) -> Tensor:
        chosen = self.mixture.choose(x)
        p = torch.empty(len(x), len(self.classes), device=chosen.device)
        for j in chosen.unique().tolist():
            rows = chosen == j
            component = self.mixture.components[j]
            p[rows] = component.probabilities(x[rows.to(x.device)], p.shape[1])
        return p

    def passes(self) -> Mapping[str, Pass]:
        evaluator, shape = self.mixture.evaluator, self.setting.image_shape
        network, vae = evaluator.classifier, evaluator.vae
        rows = len(network.head.weight)
        return {
            "images": Pass(network, shape, key=rows),
            "forwards": Pass(network, shape, trains=False, key=rows),
            "vae_images": Pass(vae, shape),
            "dreamed": Pass(vae.decoder, (vae.latent,), trains=False),
        }

    def costs(self) -> dict[str, float]:
        """Return the costs; an answer takes the encoders and decoders of all `components`."""
        return {**super().costs(), "components": len(self.mixture)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if "vae_1" in state:  # else it belongs to another method
            self.check_state(state)
            self.mixture.take_shape_of(state)
        super().load_state_dict(state)

    def parts(self) -> Mapping[str, Stateful]:
        return {**self.mixture.parts(), **self.named_parts("memory", "classes", "pace", "work")}


def total_variation(p: Tensor, q: Tensor) -> Tensor:
    """Return ½ Σ |p - q| of each row, from 0 to 1; p, q (B, n) hold distributions, result (B,)."""
    return (p - q).abs().sum(dim=1) / 2
