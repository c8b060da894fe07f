"""The ordering of the methods on real images, paired by seed: minutes, so run with `-m slow`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory

SEEDS = (1, 2, 3)
A_AUC = Callable[[str], list[float]]


@pytest.fixture(scope="module")
def a_auc(tmp_path_factory: pytest.TempPathFactory) -> A_AUC:
    """Run a method on the Gaussian digits with every seed; return its A_AUC in points."""
    out = tmp_path_factory.mktemp("runs")
    known: dict[str, list[float]] = {}

    def one(method: str, seed: int) -> float:
        experiment = Experiment(method=method, dataset="digits", stream="gaussian", seed=seed)
        run = RunDirectory(Path(out) / experiment.path(), experiment)
        for _ in run.run(device="cpu", threads=1):
            pass
        assert run.summary is not None
        return 100 * float(run.summary["metrics"]["A_AUC"])

    def every(method: str) -> list[float]:
        if method not in known:
            known[method] = [one(method, seed) for seed in SEEDS]
        return known[method]

    return every


def gain(a: list[float], b: list[float]) -> float:
    return sum(x - y for x, y in zip(a, b, strict=True)) / len(a)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_earl_is_ahead_of_er(a_auc: A_AUC) -> None:
    assert gain(a_auc("earl"), a_auc("er")) >= 3
    assert all(x > y for x, y in zip(a_auc("earl"), a_auc("er"), strict=True))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_correction_helps_the_fixed_classifier(a_auc: A_AUC) -> None:
    assert gain(a_auc("earl-no-pdt"), a_auc("vanilla-etf")) > 1
    assert gain(a_auc("earl-no-pdt"), a_auc("er")) >= 4
