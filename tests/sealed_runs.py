"""Runs of a few samples, finished or stopped, for tests of seals."""

from pathlib import Path

from earl.experiments.experiment import Experiment
from earl.experiments.recipes import Value
from earl.experiments.runs.directory import RunDirectory
from small_runs import stop

SMALL: dict[str, Value] = {"per_class": 3, "every": 2}  # 12 samples


def experiment(method: str = "er", seed: int = 1, **settings: Value) -> Experiment:
    return Experiment(
        method=method, dataset="shapes", stream="gaussian", seed=seed, settings=SMALL | settings
    )


def stopped(path: Path, of: Experiment, step: int) -> RunDirectory:
    """Return a run that was stopped, and saved, after a few samples."""
    return stop(RunDirectory(path, of), step)
