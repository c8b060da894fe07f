"""Shared by tests of reports: folders of runs, made up or real, and the command line."""

import sys

import pytest

from earl.cli.app import main
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import find_runs
from run_folders import EARL, ER, write_runs

ALL = ("training-error", "bias", "collapse", "cosines", "features")
SMALL = {"per_class": 10, "every": 5, "depth": 4, "width": 16, "iterations": 0.5}
FIGURE_RUNS = [  # method, seed, settings, probes
    ("vanilla-etf", 1, {}, ALL),
    ("vanilla-etf", 2, {}, ALL),
    ("earl", 1, {}, ALL),
    ("earl", 1, {"negative": "noise"}, ALL),
    ("earl", 1, {"k": 2}, ()),
    ("earl", 2, {"k": 2}, ()),
]


@pytest.fixture
def earl(monkeypatch, capsys):
    """Run a command in this process; return its exit code, its output and its complaints."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["earl", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, *capsys.readouterr()

    return call


@pytest.fixture
def folder(tmp_path):
    """Two methods, three seeds, on made up accuracies."""
    write_runs(tmp_path, "er", ER)
    write_runs(tmp_path, "earl", EARL)
    return tmp_path


@pytest.fixture
def cifar(tmp_path):
    write_runs(tmp_path, "er", ER, dataset="cifar10", stream="gaussian")
    write_runs(tmp_path, "er-memory-only", ER, dataset="cifar10", stream="gaussian")
    return tmp_path


@pytest.fixture(scope="session")
def figure_folder(tmp_path_factory):
    """Six real runs of 40 samples, two classes per task. Do not change it."""
    folder = tmp_path_factory.mktemp("figures")
    for method, seed, settings, probes in FIGURE_RUNS:
        experiment = Experiment(
            method=method,
            dataset="shapes",
            stream="disjoint",
            seed=seed,
            settings={**SMALL, **settings},
            probes=probes,
        )
        assert list(RunDirectory(folder / experiment.path(), experiment).run(threads=1))
    return folder


@pytest.fixture
def runs(figure_folder):
    """Those runs, read anew."""
    return find_runs([figure_folder])
