"""EARL (Seo et al., CVPR 2024): fixed equiangular targets for online continual learning."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from earl.learning import (
    POLICIES,
    Classes,
    Learner,
    Memory,
    Pace,
    Pass,
    PolicyName,
    Setting,
    Stateful,
    Work,
    adam,
    ask,
    descend,
    forward,
)
from earl.methods.earl import growing
from earl.methods.earl.along import AlongVectors
from earl.methods.earl.choices import (
    check_names,
    check_numbers,
    check_pixels,
    check_projection,
)
from earl.methods.earl.frozen_means import BesideMeans, FrozenMeans
from earl.methods.earl.negatives import NEGATIVES
from earl.methods.earl.preparatory import (
    PreparatoryData,
    all_forms,
    distinct_images_of,
    images_of,
    one_form_each,
)
from earl.methods.earl.reencoded import Reencoded
from earl.methods.earl.residuals import ResidualMemory, correct
from earl.nn import (
    Frame,
    GrowingLinear,
    Projection,
    SimplexETF,
    augment_together,
    build,
    dot_regression,
    feature_size,
)
from earl.randomness import Randomness

COSINE_SCALE = 10.0  # of a learnable classifier's logits


class EARL(Learner):
    """Pulls features to fixed simplex-ETF vectors, prepares for new classes, corrects residuals.

    Paper: Seo et al., "Learning Equi-angular Representations for Online Continual Learning", CVPR
    2024. Knows neither tasks nor the number of classes. `d` is where it begins: the frame doubles
    whenever a class finds no vector left, unless `growth` is off.
    """

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        d: int = 1024,
        hidden: int = 2048,
        k: int = 15,
        tau: float = 0.9,
        lam: float = 1.0,
        pairs_per_class: int = 10,
        preparatory: bool = True,
        preparatory_count: Literal["inside", "on-top"] = "inside",
        negative: Literal["rotation", "permutation", "cutmix", "noise"] = "rotation",
        correction: bool = True,
        classifier: Literal["fixed", "learnable"] = "fixed",
        residual_source: Literal["train", "refresh", "means"] = "train",
        projection: Literal["random", "means"] = "random",
        policy: PolicyName = "greedy_balanced",
        growth: bool = True,
    ) -> None:
        check_numbers(k=k, tau=tau, lam=lam, pairs_per_class=pairs_per_class, hidden=hidden)
        check_names(negative=negative, classifier=classifier, policy=policy)
        check_names(preparatory_count=preparatory_count, residual_source=residual_source)
        check_pixels(preparatory and negative != "noise", setting)
        check_projection(projection, residual_source, preparatory)
        self.setting, self.k, self.tau, self.lam = setting, k, tau, lam
        self.correction, self.refresh = correction, residual_source == "refresh"
        self.on_top = preparatory_count == "on-top"
        self.own_views = float("inf") if negative == "noise" else 0  # noise is nobody's image
        self.randomness = Randomness(setting.seed)
        self.frame = Frame(SimplexETF(d, setting.seed), setting.device)
        self._make_networks(backbone, hidden, classifier, projection, residual_source)
        self.memory = Memory(setting.memory_size, POLICIES[policy])
        self.residuals = ResidualMemory(pairs_per_class, d, setting.device)
        K, move = self.frame.etf.K, NEGATIVES[negative]
        self.prepare = PreparatoryData(K, move, self.randomness) if preparatory else None
        self.classes, self.work = Classes(None if growth else K), Work(self.passes)
        self.pace = Pace(setting, self.work)
        self.reencoded = Reencoded(pairs_per_class)

    def _make_networks(
        self, backbone: nn.Module, hidden: int, classifier: str, projection: str, source: str
    ) -> None:
        """Make f = p after g, rows in place of the fixed vectors to compare with, and Adam."""
        d, setting = self.frame.etf.d, self.setting
        size = feature_size(backbone, setting.image_shape)
        # Instead of stored features:
        self.means = FrozenMeans(backbone, size) if source == "means" else None
        self.p: Projection | AlongVectors
        if self.means is not None and projection == "means":
            self.p = AlongVectors(self.means, self.frame.class_vectors(0))
        else:
            self.p = build(lambda: Projection(size, d, hidden), self.randomness.at(0, "projection"))
        seen = self.p if self.means is None else nn.Sequential(self.means.centre, self.p)
        self.f = nn.Sequential(backbone, seen).to(setting.device)
        self.beside = None
        if self.means is not None and self.correction:
            self.beside = BesideMeans(backbone, self.means, self.p)
        self.learned = None
        if classifier == "learnable":
            rows = build(lambda: GrowingLinear(d), self.randomness.at(0, "classifier"))
            self.learned = rows.to(setting.device)
        trained = [self.f] if self.learned is None else [self.f, self.learned]
        self.optimizer = adam([p for part in trained for p in part.parameters()], setting.lr)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Algorithm 1 for the samples that have just arrived."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            y_i = self.classes.index(y_i)
            growing.make_room(self)
            if self.means is not None:
                self.means.add(ask(self.f[0], self.setting, x_i)[0], int(y_i))
                self.work.count(forwards=1)
            elif self.correction:
                self.residuals.extend(len(self.classes))
            if self.prepare is not None:
                self.prepare.assign(len(self.classes))  # m keeps off the vectors of seen classes
            self.memory.add(self.randomness.at(self.memory.seen, "insert"), x=x_i, y=y_i)
            for _ in self.pace.owed(1):
                self._update()

    def check(self, x: Tensor, y: Tensor) -> None:
        """Raise also if the frame would have to grow beyond the memory of this machine."""
        super().check(x, y)
        growing.require_room_for(self, y)

    def _update(self) -> None:
        X, Y, X_p, Y_p = self._batch(self.work.updates)
        f = forward(self.f, self.setting, torch.cat((X, X_p)))  # one pass: shared batch statistics
        f_hat, f_hat_p = F.normalize(f, dim=1).split((len(X), len(X_p)))
        W, Y_d = self._vectors(), Y.to(f_hat.device)
        loss = dot_regression(f_hat, W[Y_d]).mean()  # Eq. (4)
        if len(X_p):
            loss = (
                loss
                + self.lam * dot_regression(f_hat_p, self.frame.preparatory_vectors(Y_p)).mean()
            )
        if self.learned is not None:  # which alone would pull all features and vectors to one point
            loss = loss + F.cross_entropy(COSINE_SCALE * f_hat @ W.T, Y_d)
        taken = descend(loss, self.optimizer, self.work)
        if self.correction and not self.refresh and self.means is None:
            self.residuals.push(f_hat.detach(), Y, taken)  # the residual w_Y - f_hat follows
        self.work.add(images=len(X) + len(X_p))

    def _batch(self, t: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return (X, Y) drawn from memory and (X_p, Y_p) made of it, augmented in one go."""
        B = self.setting.batch_size
        draw, draw_p = self.randomness.at(t, "draw"), self.randomness.at(t, "prepare")
        classes, forms = self._preparatory(t, draw_p)
        inside = 0 if self.on_top else len(classes)
        X, Y = self.memory.sample(B - inside, "x", "y", generator=draw)
        augment = self.randomness.at(t, "augment")
        if self.prepare is None or not len(classes):
            X = self._augment(X, augment)
            return X, Y, X[:0], Y[:0]
        images = distinct_images_of if self.on_top else images_of
        x_p = images(classes, self.memory, draw_p)
        both = (X.to(self.setting.device), augment), (x_p.to(self.setting.device), draw_p)
        X, X_p = augment_together(self.setting.augment, *both)
        X_p, Y_p = self.prepare.transform(X_p, classes, forms, self.memory, self._augment, draw_p)
        return X, Y, X_p, Y_p

    def _preparatory(self, t: int, draw: Generator) -> tuple[Tensor, Tensor]:
        """Draw classes (n,) to prepare with and their forms (n, c): half a batch, or on top of it.

        On top the number is that of the authors' code.
        """
        if self.prepare is None or not self.prepare.active or (self.on_top and t == 0):
            return torch.empty(0, dtype=torch.int64), torch.empty(0, 1, dtype=torch.int64)
        if self.on_top:
            return all_forms(self.memory, self.setting.batch_size, draw)
        return one_form_each(self.memory, self.setting.batch_size // 2, draw)

    def _augment(self, x: Tensor, generator: Generator) -> Tensor:
        return self.setting.augment(x.to(self.setting.device), generator)

    def scores(self, x: Tensor) -> Tensor:
        """Return the inner product of each class vector with the corrected feature (Algorithm 2).

        A corrected feature is no unit vector; of one image the order is that of the cosines.
        """
        if self.beside is None:
            return self.corrected(self.features(x)) @ self.vectors().T
        W, y = self.vectors(), self.beside.means.there()
        seen = F.normalize(ask(self.beside, self.setting, x), dim=1)
        f_hat, h_hat = seen.split((len(x), len(y)))
        return correct(f_hat, h_hat, y, W, k=self.k, tau=self.tau) @ W.T

    def features(self, x: Tensor) -> Tensor:
        """Return f_hat(x) before correction, (B, d)."""
        return F.normalize(ask(self.f, self.setting, x), dim=1)

    def corrected(self, f_hat: Tensor) -> Tensor:
        """Return features (B, d) moved by the residuals of their nearest stored ones, if at all."""
        if not self.correction:
            return f_hat
        return self._moved(f_hat, self.pairs())

    def corrected_in_every_way(self, f_hat: Tensor) -> dict[str, Tensor]:
        """Return features (B, d) as they are, and moved by all kinds of pairs that there are."""
        if self.means is not None:
            return {"uncorrected": f_hat, "means": self._moved(f_hat, self.pairs())}
        pairs = {"refreshed": self.reencoded.pairs(self)}
        if len(self.residuals):
            pairs["stored"] = self.residuals.pairs()
        return {"uncorrected": f_hat, **{way: self._moved(f_hat, p) for way, p in pairs.items()}}

    def _moved(self, f_hat: Tensor, pairs: tuple[Tensor, Tensor]) -> Tensor:
        return correct(f_hat, *pairs, self.vectors(), k=self.k, tau=self.tau)

    def vectors(self) -> Tensor:
        """Return the vectors of the seen classes, (n, d)."""
        return self._vectors().detach()

    def _vectors(self) -> Tensor:
        n = len(self.classes)
        if self.learned is None:
            return self.frame.class_vectors(n)
        return F.normalize(self.learned.weight[:n], dim=1)

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Return the features (N, d) and classes (N,) that correct, as of now."""
        if self.means is not None:
            return self.means.through(self.p)
        return self.reencoded.pairs(self) if self.refresh else self.residuals.pairs()

    def costs(self) -> dict[str, float]:
        costs = super().costs()
        if self.correction and self.refresh:
            rows = self.reencoded.rows(self.memory)
            costs["reencoded"] = len(rows)  # forward passes before an evaluation
        return costs

    def correction_flops(self) -> int:
        """Return 3dN + kN, what the correction of one feature costs with all pairs there (Supp.).

        Distances to N features of d numbers, each subtracted, squared and added; choosing k.
        """
        N = (self.residuals.per_class if self.means is None else 1) * len(self.classes)
        return 3 * self.frame.etf.d * N + self.k * N if self.correction else 0

    def passes(self) -> Mapping[str, Pass]:
        key = growing.cost_of_pass(self)
        return {name: replace(one, key=key) for name, one in super().passes().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if set(state) == set(self.parts()):
            self.check_state(state)
            growing.resize(self, state["residuals"]["rings"].shape[2])
        super().load_state_dict(state)
        growing.make_room(self)
        self.reencoded.forget()  # they belong to the state that was

    def parts(self) -> Mapping[str, Stateful]:
        names = ("optimizer", "memory", "residuals", "classes", "pace", "work")
        parts: dict[str, Stateful] = {"network": self.f, **self.named_parts(*names)}
        if self.prepare is not None:
            parts["prepare"] = self.prepare
        if self.learned is not None:
            parts["classifier"] = self.learned
        if self.means is not None:
            parts["means"] = self.means
        return parts


vanilla_etf = partial(EARL, preparatory=False, correction=False)
earl_no_rc = partial(EARL, correction=False)
earl_no_pdt = partial(EARL, preparatory=False)
earl_learnable = partial(EARL, classifier="learnable")
