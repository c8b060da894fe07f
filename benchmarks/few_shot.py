"""Accuracy on embeddings after 1, 2, 5, 10 and 50 samples a class, outside competitors included.

    python benchmarks/few_shot.py ~/embeddings/cifar10-lite0 --seeds 5

Every method sees the same samples in the same order: one of each class, then a second of each, and
so on. Scikit-learn's SGDClassifier and river's softmax regression stand beside ours; what is not
installed is left out, and that is said.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from torch import Tensor, nn

from earl.experiments.catalogue import METHODS
from earl.experiments.loading import load_data
from earl.experiments.options import options_of
from earl.experiments.recipes import recipe
from earl.learning import Setting
from earl.learning.encoder import on_features

COUNTS = (1, 2, 5, 10, 50)
OURS = ("ncm", "slda", "ranpac", "knn", "earl", "vanilla-etf", "er")


class Ours:
    """A method of earl with the recipe of embeddings."""

    def __init__(self, name: str, size: int, seed: int) -> None:
        own = {option.name for option in options_of("method", METHODS[name])}
        given = {k: v for k, v in recipe("embeddings").items() if k in own}
        plain = Setting(image_shape=(size, 1, 1), view=torch.abs, augment=torch.add, seed=seed)
        self.learner = METHODS[name](nn.Flatten(), on_features(plain, plain.image_shape), **given)

    def learn(self, h: Tensor, y: int) -> None:
        self.learner.observe(h[None, :, None, None], torch.tensor([y]))

    def answers(self, h: Tensor) -> Tensor:
        return self.learner.predict(h[:, :, None, None])


class SGD:
    """Logistic regression of scikit-learn by partial_fit, on unit features; rates as they come."""

    def __init__(self, size: int, seed: int) -> None:
        from sklearn.linear_model import SGDClassifier

        self.model = SGDClassifier(loss="log_loss", random_state=seed)

    def learn(self, h: Tensor, y: int) -> None:
        self.model.partial_fit(unit(h[None]), [y], classes=np.arange(10))

    def answers(self, h: Tensor) -> Tensor:
        return torch.from_numpy(self.model.predict(unit(h)).astype(np.int64))


class River:
    """Softmax regression of river, on unit features; rates as they come."""

    def __init__(self, size: int, seed: int) -> None:
        from river.linear_model import SoftmaxRegression

        self.model = SoftmaxRegression()

    def learn(self, h: Tensor, y: int) -> None:
        self.model.learn_one(dict(enumerate(unit(h[None])[0].tolist())), y)

    def answers(self, h: Tensor) -> Tensor:
        """Return the answers from river's own weights; its predict_one takes a minute for them."""
        n = h.shape[1]
        rows = {
            c: np.array([w.get(i, 0.0) for i in range(n)]) for c, w in self.model.weights.items()
        }
        z = np.stack([unit(h) @ rows[c] for c in sorted(rows)], axis=1)
        return torch.tensor(sorted(rows))[torch.from_numpy(z.argmax(axis=1))]


def unit(h: Tensor) -> "np.ndarray":
    return nn.functional.normalize(h, dim=1).numpy()


def contestants() -> Mapping[str, Callable[[int, int], Ours | SGD | River]]:
    found: dict[str, Callable[[int, int], Ours | SGD | River]]
    found = {name: partial(Ours, name) for name in OURS}
    for name, kind in {"sklearn SGDClassifier": SGD, "river SoftmaxRegression": River}.items():
        try:
            kind(1, 1)
        except ImportError as missing:
            print(f"{name} is left out: {missing}")
        else:
            found[name] = kind
    return found


def samples(labels: Tensor, classes: Tensor, seed: int) -> Iterator[Tensor]:
    """Yield rows: one of each class in a random order, then a second of each, and so on."""
    draw = torch.Generator().manual_seed(seed)
    rows = {}
    for c in classes.tolist():
        of_class = (labels == c).nonzero().flatten()
        rows[c] = of_class[torch.randperm(len(of_class), generator=draw)]
    for i in range(max(COUNTS)):
        order = classes[torch.randperm(len(classes), generator=draw)]
        yield torch.stack([rows[c][i] for c in order.tolist()])


def curve(
    make: Callable[[int, int], Ours | SGD | River], data: tuple[Tensor, ...], n: int, seed: int
) -> tuple[list[float], float]:
    """Return the accuracy at each of COUNTS in percent, and the microseconds of a sample."""
    H, Y, asked, truth = data
    classes = torch.randperm(10, generator=torch.Generator().manual_seed(seed))[:n]
    model, found, spent = make(H.shape[1], seed), [], 0.0
    of_these = torch.isin(truth, classes)
    for i, rows in enumerate(samples(Y, classes, seed), start=1):
        start = time.process_time()
        for row in rows.tolist():
            model.learn(H[row], int(Y[row]))
        spent += time.process_time() - start
        if i in COUNTS:
            right = model.answers(asked[of_these]) == truth[of_these]
            found.append(100 * float(right.float().mean()))
    return found, 1e6 * spent / (n * max(COUNTS))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write all numbers")
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = load_data(f"embeddings:{given.folder}")
    splits = [getattr(data, name) for name in ("train", "test")]
    tensors = [t for s in splits for t in (s.images[torch.arange(len(s))].flatten(1), s.labels)]
    every = []
    for n in (5, 10):
        for name, make in contestants().items():
            runs = [curve(make, tuple(tensors), n, seed) for seed in range(1, given.seeds + 1)]
            means = [mean(run[0][i] for run in runs) for i in range(len(COUNTS))]
            micro = mean(run[1] for run in runs)
            print(
                f"{n:2d} {name:24s}", *(f"{m:6.1f}" for m in means), f"{micro:9.0f} µs", flush=True
            )
            every.append({"classes": n, "name": name, "runs": [r[0] for r in runs], "micro": micro})
    if given.json:
        given.json.write_text(json.dumps({"counts": COUNTS, "curves": every}, indent=1))


if __name__ == "__main__":
    main()
