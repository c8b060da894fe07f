"""X-DER (Boschini et al., TPAMI 2022): DER++ whose stored logits and future heads keep learning."""

from collections.abc import Mapping
from typing import Any, Literal

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
    descend,
    draw_distinct,
    forward,
    reservoir,
)
from earl.nn import (
    Classifier,
    contrast_augment,
    feature_size,
    finite_or_nan,
    frozen_norm_stats,
    known_mse,
    supervised_contrastive,
)
from earl.randomness import Randomness

VIEWS = 2  # strong views of an image that are contrasted, as in the authors' code
CONTRASTED = 64  # images of a batch, at most, whose views are contrasted
AT_ONCE = 250  # memory images that are looked at together when a task ends


class XDER(Learner):
    """Replays logits that are kept up to date, and prepares output rows for classes to come.

    Paper: Boschini et al., "Class-Incremental Continual Learning into the eXtended DER-verse",
    TPAMI 2022. Past, present and future are the classes first seen before the last announced
    boundary, those first seen since, and `future` spare rows of the classifier.
    """

    own_views = VIEWS

    def __init__(
        self,
        backbone: nn.Module,
        setting: Setting,
        *,
        alpha: float = 0.6,
        beta: float = 0.9,
        gamma: float = 0.85,
        lam: float = 0.04,
        eta: float = 0.01,
        mu: float = 0.2,
        temperature: float = 5.0,
        future: int = 10,
        smallest_crop: float = 0.2,
        mirror: bool = True,
        rivals: Literal["present", "seen"] = "seen",
    ) -> None:
        for name, value in {"alpha": alpha, "beta": beta, "lam": lam, "eta": eta, "mu": mu}.items():
            require(value >= 0, f"{name} = {value} must not be negative")
        for name, value in {"gamma": gamma, "smallest_crop": smallest_crop}.items():
            require(0 < value <= 1, f"{name} = {value} must be above 0 and at most 1")
        require(temperature > 0, f"temperature = {temperature} must be positive")
        require(future >= 1, f"future = {future} must be at least 1 row")
        self.setting, self.rivals = setting, rivals
        self.alpha, self.beta, self.gamma, self.lam, self.eta = alpha, beta, gamma, lam, eta
        self.mu, self.temperature, self.future = mu, temperature, future
        self.smallest_crop, self.mirror = smallest_crop, mirror
        self.randomness = Randomness(setting.seed)
        size = feature_size(backbone, setting.image_shape)
        self.network = Classifier(backbone, size, self.randomness.at(0, "head")).to(setting.device)
        self.optimizer = adam(self.network.parameters(), setting.lr)
        self.memory = Memory(setting.memory_size, reservoir)
        self.waiting = Waiting(max(1, setting.batch_size // 3), self._learn_block)
        self.classes, self.heads = Classes(), TaskRanges()
        self.work = Work(self.passes)
        self.pace = Pace(setting, self.work)

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Collect a third of a batch, train on it with twice as many old samples, keep it."""
        self.check(x, y)
        for x_i, y_i in zip(x.split(1), y.split(1), strict=True):
            y_i = self.classes.index(y_i)
            self.heads.arrive(int(y_i))
            n = len(self.classes)
            draw = self.randomness.at(n, "head")
            self.network.head.grow(n + self.future, self.optimizer, draw)
            self.waiting.append(x_i, y_i)

    def end_task(self) -> None:
        """Bring the stored logits of past classes up to date; present classes become past."""
        self.finish()  # what still waits belongs to the task that ends
        if len(self.memory):
            every = torch.arange(len(self.memory))
            (Y,) = self.memory.take(every, "y")
            past = every[self.heads.present > Y]
            for rows in past.split(AT_ONCE) if len(past) else ():
                self._transplant(rows, self._look(*self.memory.take(rows, "x")))
            self.memory.update(every, replays=torch.zeros_like(every))
        self.heads.close(len(self.classes))

    def _learn_block(self, X: Tensor, Y: Tensor) -> None:
        width = self.memory.widen("logits", len(self.classes) + self.future)
        z = None
        for _ in self.pace.owed(len(Y)):
            z = self._update(X, Y)
        z = self._look(X) if z is None else z  # no update may have been due, or taken
        if P := self.heads.present:  # past logits stay below that of a present class
            z = torch.where((Y >= P)[:, None], renew(z, z, Y, slice(P), self.gamma), z)
        z = F.pad(z, (0, width - z.shape[1]), value=float("nan"))
        insert = self.randomness.at(self.memory.seen, "insert")
        self.memory.add(insert, x=X, y=Y, logits=z, replays=torch.zeros_like(Y))

    def _update(self, X: Tensor, Y: Tensor) -> Tensor | None:
        """Make one update; return the logits the new samples X (w, ...) had in it, (w, n + f).

        Those of a step that was not taken are of no use.
        """
        t, w = self.work.updates, len(Y)
        rest = self.setting.batch_size - w
        rows = draw_distinct(len(self.memory), rest, self.randomness.at(t, "draw"))
        stored = torch.empty(0, 0)
        if len(rows):
            X_m, Y_m, stored = self.memory.take(rows, "x", "y", "logits")
            X, Y = torch.cat((X, X_m)), torch.cat((Y, Y_m))
        X, Y = X.to(self.setting.device), Y.to(self.setting.device)

        z = forward(
            self.network, self.setting, self.setting.augment(X, self.randomness.at(t, "augment"))
        )
        z = z[:, : len(self.classes) + self.future]  # past, present, future
        loss = self._der_loss(z, Y, stored[:, : z.shape[1]].to(z.device), w)
        loss = loss + self.lam * self._contrast(X[:CONTRASTED], Y[:CONTRASTED], t)
        loss = loss + self.eta * self._margins(z, Y, w)
        taken = descend(loss, self.optimizer, self.work)
        self.work.add(images=len(Y) + VIEWS * min(len(Y), CONTRASTED))
        z = finite_or_nan(z.detach()).cpu()
        if not taken:
            return None
        if len(rows):
            self._replayed(rows, z[w:], self.randomness.at(t, "transplant"))
        return z[:w]

    def _der_loss(self, z: Tensor, Y: Tensor, stored: Tensor, w: int) -> Tensor:
        """Cross-entropy of the w new samples, then DER++'s two terms for the replayed ones."""
        n, first = len(self.classes), self.heads.first_rival if self.rivals == "present" else 0
        loss = F.cross_entropy(z[:w, first:n], Y[:w] - first)
        if len(stored):
            m = w + self.waiting.size  # the draw with labels is z[w:m], that with logits z[m:]
            loss = loss + self.beta * F.cross_entropy(z[w:m, :n], Y[w:m])
            loss = loss + self.alpha * known_mse(z[m:], stored[m - w :])  # future rows too
        return loss

    def _contrast(self, X: Tensor, Y: Tensor, t: int) -> Tensor:
        """Supervised contrast of future logits: a mean over images and their views."""
        generator = self.randomness.at(t, "contrast")
        X_v = X.repeat(VIEWS, 1, 1, 1)
        X_v = contrast_augment(X_v, generator, smallest=self.smallest_crop, mirror=self.mirror)
        n = len(self.classes)
        with frozen_norm_stats(self.network):  # answers concern images that look like the others
            z = forward(self.network, self.setting, self.setting.view(X_v))[:, n : n + self.future]
        f_hat = F.normalize(z, dim=1)
        return supervised_contrastive(f_hat, Y.repeat(VIEWS), self.temperature).mean()

    def _margins(self, z: Tensor, Y: Tensor, w: int) -> Tensor:
        """By how much future logits, and past probabilities of new samples, come too close."""
        n, P = len(self.classes), self.heads.present
        head = self.heads.of(torch.arange(n)).to(z.device)
        own = z[:, :n].masked_fill(head != head[Y][:, None], float("-inf")).amax(dim=1)
        margins = mean_positive(z[:, n:].amax(dim=1) + self.mu - own)
        if 0 < P < n:
            p = z[:w, :n].softmax(dim=1)
            past, present = p[:, :P].amax(dim=1).detach(), p[:, P:].amax(dim=1)
            margins = margins + mean_positive((past + self.mu - present)[Y[:w] >= P])
        return margins

    def _replayed(self, rows: Tensor, z: Tensor, generator: torch.Generator) -> None:
        """Count replays of past classes; the r-th in a task renews an entry with chance 1/r."""
        Y, replays = self.memory.take(rows, "y", "replays")
        old = self.heads.present > Y
        rows, z, replays = rows[old], z[old], replays[old] + 1
        self.memory.update(rows, replays=replays)
        chosen = torch.rand(len(rows), generator=generator) * replays < 1
        self._transplant(rows[chosen], z[chosen])

    def _transplant(self, rows: Tensor, z: Tensor) -> None:
        """Write the present and future part of logits z (k, n + f) into memory rows (k,)."""
        Y, stored = self.memory.take(rows, "y", "logits")
        part = slice(self.heads.present, z.shape[1])
        self.memory.update(rows, logits=renew(stored, z, Y, part, self.gamma))

    def _look(self, X: Tensor) -> Tensor:
        """Return the logits of seen and future classes as the network answers now, (b, n + f)."""
        self.work.count(forwards=len(X))
        z = ask(self.network, self.setting, X)[:, : len(self.classes) + self.future]
        return finite_or_nan(z).cpu()

    def scores(self, x: Tensor) -> Tensor:
        return ask(self.network, self.setting, x)[:, : len(self.classes)]

    def parts(self) -> Mapping[str, Stateful]:
        return self.named_parts(
            "network", "optimizer", "memory", "waiting", "classes", "heads", "pace", "work"
        )


def mean_positive(gap: Tensor) -> Tensor:
    """Return the mean of the positive values of gap (k,); 0 if there are none."""
    return gap.relu().sum() / (gap > 0).sum().clamp(min=1)


class TaskRanges:
    """Divides the classes by the task they first appeared in; head h begins at starts[h].

    Classes are numbered as they appear, so a head is a range, and everything follows from how many
    classes were known at each boundary.
    """

    def __init__(self) -> None:
        self.starts = [0]
        self.overlap = False  # has a class ever come back after its task?

    @property
    def present(self) -> int:
        """The first class number that is not past."""
        return self.starts[-1]

    @property
    def first_rival(self) -> int:
        """The first class number that new samples compete with: a present one, unless tasks mix."""
        return 0 if self.overlap else self.present

    def arrive(self, c: int) -> None:
        """Take notice of a sample of class number c."""
        self.overlap = self.overlap or c < self.present

    def close(self, n: int) -> None:
        """End the task, at the end of which n classes are known."""
        self.starts.append(n)

    def of(self, y: Tensor) -> Tensor:
        """Return the head of each class number y (B,)."""
        return torch.bucketize(y, torch.tensor(self.starts), right=True) - 1

    def state_dict(self) -> dict[str, Any]:
        return {"starts": list(self.starts), "overlap": self.overlap}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.starts, self.overlap = list(state["starts"]), state["overlap"]


def renew(stored: Tensor, z: Tensor, y: Tensor, part: slice, gamma: float) -> Tensor:
    """Return `stored` (k, m) with the columns `part` taken from z (k, ...), held below column y.

    Where their largest exceeds stored[y] they are scaled until it is gamma · stored[y]. That would
    turn signs round if stored[y] is not positive; then they are shifted until it is stored[y].
    """
    own = stored.gather(1, y[:, None])  # (k, 1)
    new = z[:, part]
    top = new.amax(dim=1, keepdim=True)
    lowered = torch.where(own > 0, new * (gamma * own / top), new - (top - own))
    result = stored.clone()
    result[:, part] = torch.where(top > own, lowered, new)
    return result
