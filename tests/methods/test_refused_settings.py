"""What no method can be made with is refused: numbers out of range, and names nobody knows."""

from collections.abc import Callable, Mapping
from math import inf, nan

import pytest

from earl.errors import InvalidSetting, UnknownName
from earl.learning import Learner

Make = Callable[..., Learner]

IMPOSSIBLE: Mapping[str, list[dict[str, object]]] = {
    "earl": [
        {"k": 0},
        {"tau": 0.0},
        {"lam": -1.0},
        {"d": 0},
        {"hidden": -1},
        {"pairs_per_class": 0},
    ],
    "der++": [{"alpha": -0.1}, {"beta": -0.1}, {"future": -1}],
    "er-mir": [{"candidates": 0}, {"virtual_lr": -0.1}, {"virtual_lr": nan}],
    "ewc": [{"ewc_lambda": -1.0}, {"ewc_lambda": inf}, {"alpha": 0.0}, {"alpha": 1.5}],
    "memo": [{"aux_weight": -1.0}, {"max_extractors": 0}],
    "nc-fscil": [
        {"dimensions": -1},
        {"base": 0.5},  # of a stream of unknown length
        {"frozen": 0},
        {"codebooks": 3},
        {"codewords": 1},
    ],
    "oddl": [
        {"threshold": -0.1},
        {"threshold": 1.5},
        {"check_every": 0.0},
        {"check_every": 2.0},
        {"drop": -0.01},
        {"drop": 1.0},
        {"drop": 10},  # a number of samples, as it once was
        {"drop": nan},
        {"max_components": 1},
        {"vae_lr": 0.0},
        {"latent": 0},
        {"draws": 0},
        {"vae_hidden": 0},
    ],
    "polrs": [{"window": 0}],
    "remind": [
        {"mixup": -0.1},
        {"mixup": nan},
        {"base": 0.5},
        {"frozen": 3},
        {"codebooks": 3},
        {"codewords": 4096},
    ],
    "scr": [
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"smallest_crop": 0.0},
        {"smallest_crop": 1.5},
        {"head_width": 0},
    ],
    "x-der": [
        *({name: -0.1} for name in ("alpha", "beta", "lam", "eta", "mu")),
        *({"gamma": value} for value in (0.0, 1.1, nan)),
        {"smallest_crop": 0.0},
        {"temperature": 0.0},
        {"future": 0},
    ],
}
EACH = [(name, given) for name, refused in IMPOSSIBLE.items() for given in refused]


@pytest.mark.parametrize(("name", "given"), EACH, ids=str)
def test_impossible_settings_are_refused(name: str, given: dict[str, object], make: Make) -> None:
    with pytest.raises(InvalidSetting):
        make(name, **given)


@pytest.mark.parametrize(
    ("name", "given", "known"),
    [
        ("earl", {"negative": "rotated"}, "rotation"),
        ("earl", {"policy": "balanced"}, "greedy_balanced"),
        ("earl", {"residual_source": "training"}, "train"),
        ("earl", {"projection": "mean"}, "means"),
        ("er-memory-only", {"policy": "resevoir"}, "reservoir"),
        ("nc-fscil", {"replay": "class_means"}, "class_mean"),
        ("ncm", {"distance": "cosin"}, "cosine"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(
    name: str, given: dict[str, object], known: str, make: Make
) -> None:
    with pytest.raises(UnknownName, match=rf"\b{known}\b"):
        make(name, **given)
