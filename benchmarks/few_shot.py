"""Accuracy on embeddings after 1, 2, 5, 10 and 50 samples a class, outside competitors included.

    earl data embed cifar10 --per-class 450 --set exam_per_class=150 -o ~/embeddings/cifar10-lite0
    python benchmarks/few_shot.py ~/embeddings/cifar10-lite0 --images cifar10

Every method sees the same samples in the same order: one of each class, then a second of each, and
so on. Scikit-learn's SGDClassifier and river's softmax regression stand beside ours; what is not
installed is left out, and that is said. With --images EARL also learns the images themselves from
random weights. All numbers go to results/few-shot/, of which `earl results` makes the tables. With
--only some are measured anew, and the others stay as they are there.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from torch import Tensor, nn

from earl.data.dataset import Dataset
from earl.experiments.catalogue import METHODS
from earl.experiments.loading import DataOptions, load_data
from earl.experiments.options import options_of
from earl.experiments.places import Places
from earl.experiments.recipes import recipe
from earl.learning import Setting
from earl.learning.bytes_held import bytes_held
from earl.learning.encoder import on_features
from earl.nn import Augment, ResNet, View, build
from earl.randomness import Randomness
from earl.storage.files import replace_text

COUNTS = (1, 2, 5, 10, 50)
OURS = ("ncm", "slda", "ranpac", "knn", "earl", "vanilla-etf", "er")
SCRATCH = "earl from scratch"  # with the settings of the sweep cifar10-small
Data = tuple[Tensor, Tensor, Tensor, Tensor]  # samples and labels to learn, and to be asked about
OUT = Path(__file__).parents[1] / "results" / "few-shot"


class Ours:
    """A method of earl with the recipe of embeddings, but for what is `changed`."""

    def __init__(self, name: str, size: int, seed: int, **changed: object) -> None:
        own = {option.name for option in options_of("method", METHODS[name])}
        given = {k: v for k, v in (recipe("embeddings") | changed).items() if k in own}
        shared = {k: v for k, v in changed.items() if k not in own}
        plain = Setting(image_shape=(size, 1, 1), view=torch.abs, augment=torch.add, seed=seed)
        setting = on_features(replace(plain, **shared), plain.image_shape)
        self.learner = METHODS[name](nn.Flatten(), setting, **given)

    def learn(self, h: Tensor, y: int) -> None:
        self.learner.observe(h[None, :, None, None], torch.tensor([y]))

    def answers(self, h: Tensor) -> Tensor:
        return self.learner.predict(h[:, :, None, None])

    def bytes_held(self) -> int:
        return sum(bytes_held(self.learner).values())


class Scratch:
    """EARL with a small network from random weights, on the images behind the embeddings."""

    def __init__(self, channels: int, seed: int) -> None:
        view = View((0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616))
        augment = Augment(view=view, rand_augment=False)
        setting = Setting(image_shape=(channels, 32, 32), view=view, augment=augment, lr=1e-3)
        network = build(lambda: ResNet(depth=8, width=8), Randomness(seed).at(0, "backbone"))
        chosen = replace(setting, memory_size=100, seed=seed)
        self.learner = METHODS["earl"](network, chosen, d=64, hidden=64)

    def learn(self, x: Tensor, y: int) -> None:
        self.learner.observe(x[None], torch.tensor([y]))

    def answers(self, x: Tensor) -> Tensor:
        return self.learner.predict(x)

    def bytes_held(self) -> int:
        return sum(bytes_held(self.learner).values())


class SGD:
    """Logistic regression of scikit-learn by partial_fit, on unit features; rates as they come."""

    def __init__(self, size: int, seed: int) -> None:
        from sklearn.linear_model import SGDClassifier

        self.model = SGDClassifier(loss="log_loss", random_state=seed)

    def learn(self, h: Tensor, y: int) -> None:
        self.model.partial_fit(unit(h[None]), [y], classes=np.arange(10))

    def bytes_held(self) -> int:
        return int(self.model.coef_.nbytes + self.model.intercept_.nbytes)

    def answers(self, h: Tensor) -> Tensor:
        return torch.from_numpy(self.model.predict(unit(h)).astype(np.int64))


class River:
    """Softmax regression of river, on unit features; rates as they come."""

    def __init__(self, size: int, seed: int) -> None:
        from river.linear_model import SoftmaxRegression

        self.model = SoftmaxRegression()

    def learn(self, h: Tensor, y: int) -> None:
        self.model.learn_one(dict(enumerate(unit(h[None])[0].tolist())), y)

    def bytes_held(self) -> int:
        return 8 * sum(len(row) for row in self.model.weights.values())  # the numbers alone

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


Contestant = Ours | Scratch | SGD | River
Maker = Callable[[int, int], Contestant]


def contestants() -> Mapping[str, Maker]:
    found: dict[str, Maker] = {name: partial(Ours, name) for name in OURS}
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


def curve(make: Maker, data: Data, n: int, seed: int) -> tuple[list[float], float, int]:
    """Return the accuracy at each of COUNTS in percent, the microseconds of a sample, the bytes."""
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
            found.append(round(100 * float(right.float().mean()), 2))
    return found, 1e6 * spent / (n * max(COUNTS)), model.bytes_held()


def whole(dataset: Dataset) -> Data:
    """Return both splits in memory, with their labels."""
    splits = (dataset.train, dataset.test)
    tensors = [t for s in splits for t in (s.images[torch.arange(len(s))], s.labels)]
    return tensors[0], tensors[1], tensors[2], tensors[3]


def halves(features: Tensor, labels: Tensor) -> Data:
    """Return the first half of each class to learn, and the second to be asked about."""
    first = torch.zeros_like(labels, dtype=torch.bool)
    for c in labels.unique():
        rows = (labels == c).nonzero().flatten()
        first[rows[: len(rows) // 2]] = True
    return features[first], labels[first], features[~first], labels[~first]


def images_behind(name: str, root: Path | None, embedded: Data) -> Data:
    """Return the images that were embedded; it is an error if their labels are others."""
    chosen = DataOptions(per_class=len(embedded[1]) // 10, exam_per_class=len(embedded[3]) // 10)
    found = whole(load_data(name, chosen, Places.find(root)))
    if not (torch.equal(found[1], embedded[1]) and torch.equal(found[3], embedded[3])):
        raise SystemExit(f"{name} does not hold the images that were embedded")
    return found


def measured(
    name: str, make: Maker, data: Data, n: int, seeds: range, encoding: float = 0
) -> dict[str, object]:
    """Return the curve of a contestant on n classes, and print it.

    Microseconds are those of learning a sample, and of `encoding` it if that is told.
    """
    runs = [curve(make, data, n, seed) for seed in seeds]
    means = [mean(run[0][i] for run in runs) for i in range(len(COUNTS))]
    micro, held = encoding + mean(run[1] for run in runs), runs[0][2]
    print(f"{n:2d} {name:40s}", *(f"{m:6.1f}" for m in means), f"{micro:9.0f} µs {held:,} B")
    accuracies = {seed: run[0] for seed, run in zip(seeds, runs, strict=True)}
    about = {"classes": n, "name": name, "microseconds": round(micro), "bytes": held}
    return {**about, "accuracies": accuracies}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--images", help="the data set that was embedded")
    parser.add_argument("--data-root", type=Path, help="where it lies")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure these, keep the others")
    parser.add_argument("--out", type=Path, default=OUT, help="where to write all numbers")
    given = parser.parse_args()
    torch.set_num_threads(1)
    H, Y, asked, truth = whole(load_data(f"embeddings:{given.folder}"))
    features: Data = (H.flatten(1), Y, asked.flatten(1), truth)
    every: list[tuple[str, Maker, Data]]
    every = [(name, make, features) for name, make in contestants().items()]
    if given.images:
        images = images_behind(given.images, given.data_root, features)
        every.append((SCRATCH, Scratch, images))
    file = given.out / f"{given.folder.name}.json"
    kept = json.loads(file.read_text())["curves"] if given.only and file.exists() else []
    curves = {(one["classes"], one["name"]): one for one in kept}
    for n in (5, 10):
        for name, make, data in every:
            if given.only is None or name in given.only:
                curves[n, name] = measured(name, make, data, n, range(1, given.seeds + 1))
    given.out.mkdir(parents=True, exist_ok=True)
    facts = {"embeddings": given.folder.name, "train": len(Y), "test": len(truth)}
    text = json.dumps({**facts, "counts": COUNTS, "curves": list(curves.values())}, indent=1)
    replace_text(file, text + "\n")


if __name__ == "__main__":
    main()
