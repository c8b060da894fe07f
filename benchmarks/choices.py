"""Which settings serve EARL behind a frozen backbone: one at a time is changed in the recipe.

    python benchmarks/choices.py ~/embeddings/cifar10-lite0

The training embeddings alone: half of each class to draw from, half to ask about. All numbers go to
results/few-shot/choices.json, of which `earl results` makes a table.
"""

import argparse
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch
from few_shot import COUNTS, OUT, Ours, halves, measured, whole

from earl.experiments.loading import load_data
from earl.storage.files import replace_text

SEEDS = range(11, 16)  # not those that are reported of test embeddings
RANDOM = {"projection": "random"}
CHANGED: Mapping[str, dict[str, object]] = {
    "as it is": {},
    "a random matrix": RANDOM,
    "a random matrix, hidden = 2048": {**RANDOM, "hidden": 2048},
    "a random matrix, stored residuals": {**RANDOM, "residual_source": "train"},
    "no correction": {"correction": False},
    "tau = 0.9": {"tau": 0.9},
    "d = 127": {"d": 127},
    "3 updates a sample": {"iterations": 3.0},
    "an update for 4 samples": {"iterations": 0.25},
    "memory of 100": {"memory_size": 100},
    "lr = 1e-3": {"lr": 1e-3},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=OUT, help="where to write all numbers")
    given = parser.parse_args()
    torch.set_num_threads(1)
    features, labels, _, _ = whole(load_data(f"embeddings:{given.folder}"))
    data = halves(features.flatten(1), labels)
    every = {f"earl, {name}": partial(Ours, "earl", **own) for name, own in CHANGED.items()}
    every = {"ncm": partial(Ours, "ncm"), **every}
    curves = [measured(name, make, data, 10, SEEDS) for name, make in every.items()]
    half = len(labels) // 2
    facts = {"embeddings": given.folder.name, "train": half, "test": half, "counts": COUNTS}
    text = json.dumps({**facts, "curves": curves}, indent=1)
    replace_text(given.out / "choices.json", text + "\n")


if __name__ == "__main__":
    main()
