"""Finished runs that several files look at; nobody changes them."""

from pathlib import Path

import pytest

from earl.experiments.runs.directory import RunDirectory
from sealed_runs import experiment as sealed_experiment
from sealed_runs import stopped
from small_runs import experiment, finish


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run that nobody disturbed."""
    return finish(RunDirectory(tmp_path_factory.mktemp("whole") / "run", experiment()))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that have ended and one that was stopped after 9 of 12 samples."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        finish(RunDirectory(folder / f"seed-{seed}", sealed_experiment(seed=seed)))
    stopped(folder / "seed-3", sealed_experiment(seed=3), 9)
    return folder
