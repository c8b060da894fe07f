"""Sweeps that list, wait, or cannot begin."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from test_sweep import BOTH, alone, grid, last, lives, shapes

from earl.errors import EarlError, RunConflict
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.sweeps.engines import LocalEngine
from earl.experiments.sweeps.sweep import survey, sweep
from earl.storage.files import lock_directory
from small_runs import stop

Typed = Callable[..., tuple[int, str, str]]


def test_a_dry_run_lists_all_runs_and_runs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.chdir(tmp_path)
    alone(shapes(), tmp_path / "runs")
    Path("grid.toml").write_text(grid("", **BOTH, seed=[1, 2, 3]))
    before = set(tmp_path.rglob("*"))
    words = ("sweep", "grid.toml", "--dry-run")
    (code, shown, _), (again, listed, _) = typed(*words), typed(*words, "--json")
    assert code == again == 0 and set(tmp_path.rglob("*")) == before
    assert "finished          runs/shapes/gaussian/er/seed-1\n" in shown
    assert shown.endswith("1 of 12 runs finished, 11 waiting\n")
    runs = json.loads(listed)["runs"]
    assert [run["state"] for run in runs].count("waiting") == 11
    command = "earl run --method er --dataset shapes --stream disjoint --seed 1"
    assert runs[0]["command"] == command and runs[0]["directory"].endswith("disjoint/er/seed-1")


def test_a_directory_in_use_is_waited_for(tmp_path: Path) -> None:
    experiment = shapes()
    path = tmp_path / experiment.path()
    snapshots = sweep([experiment], tmp_path, engine=LocalEngine(threads=1))
    with lock_directory(path):
        (run,) = next(snapshots)
        assert run.state == "in use" and "another process" in run.message
        snapshots.close()
        assert survey([experiment], tmp_path)[0].state == "in use"
    alone(experiment, tmp_path)  # the other process finishes it
    (run,) = last(list(sweep([experiment], tmp_path)))
    assert run.state == "finished" and lives(tmp_path) == 0


def test_what_is_not_this_run_or_cannot_be_written_is_one_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop(RunDirectory(tmp_path / shapes(seed=1).path(), shapes(seed=2)), 1)
    full = partial(Path("/dev/full").open, "ab")
    monkeypatch.setattr("earl.experiments.sweeps.engines.open_to_append", lambda log: full())
    one, two = last(
        list(sweep([shapes(seed=1), shapes(seed=3)], tmp_path, engine=LocalEngine(threads=1)))
    )
    assert one.state == two.state == "failed"
    assert "holds a run with seed = 2, not 1" in one.message
    assert "No space left on device" in two.message


def test_a_sweep_that_cannot_begin_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "runs"):
        with pytest.raises(EarlError, match=r"cannot write to .*file.*choose another --out"):
            next(sweep([shapes()], out))
    long = [shapes(settings={"mean": "0" * 80 + end}) for end in "12"]
    with pytest.raises(RunConflict, match="would both go to shapes"):
        next(sweep(long, tmp_path))


def test_a_setting_that_does_not_fit_the_network_is_refused_before_the_first_run(
    tmp_path: Path,
) -> None:
    wrong = shapes("remind", settings={"codebooks": 7})  # no layer has 7 n channels
    with pytest.raises(EarlError, match=r"remind,codebooks=7.*seed-1: .*codebooks"):
        sweep([shapes(), wrong], tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
