"""Runs that meet another experiment, another environment or an older record."""

import json
import os
from pathlib import Path

import pytest
import torch
from test_rundirectory import stopped_at

from earl.errors import DataNotFound, EarlError, RunConflict
from earl.experiments.recipes import RECIPES
from earl.experiments.runs.directory import RunDirectory
from fresh import python
from small_runs import assert_same, experiment, finish, stop


def test_another_experiment_in_the_same_directory_is_refused(whole: RunDirectory) -> None:
    with pytest.raises(RunConflict, match="k = 15, not 3"):
        RunDirectory(whole.path, experiment(k=3))
    with pytest.raises(RunConflict, match="seed = 1, not 2"):
        RunDirectory(whole.path, experiment(seed=2))


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataNotFound, match="holds no run"):
        RunDirectory(tmp_path)


def test_another_environment_is_noted(tmp_path: Path) -> None:
    stopped_at(tmp_path, 30)
    record = json.loads((tmp_path / "experiment.json").read_text())
    record["environment"]["torch"] = "1.0"
    (tmp_path / "experiment.json").write_text(json.dumps(record))
    run = finish(RunDirectory(tmp_path))
    assert any("torch was '1.0'" in note for note in run.notes)
    assert run.summary is not None and run.summary["notes"] == run.notes


def test_other_seeds_give_other_streams_and_other_networks(tmp_path: Path) -> None:
    one, two = (experiment(seed=seed).build() for seed in (1, 2))
    assert not torch.equal(one.stream.schedule.order, two.stream.schedule.order)
    first = [next(iter(b.learner.f.parameters())) for b in (one, two)]  # type: ignore[attr-defined]
    assert not torch.equal(*first)


def test_the_same_experiment_in_a_new_process_gives_the_same_bytes(
    whole: RunDirectory, tmp_path: Path
) -> None:
    """Hash seeds, snapshots, and what a process did before, are no inputs of a run."""
    script = (
        "import json, sys; from pathlib import Path; from earl import Experiment, RunDirectory\n"
        "run = RunDirectory(Path(sys.argv[1]), Experiment.from_dict(json.loads(sys.argv[2])))\n"
        "for _ in run.run(threads=1, snapshot_seconds=0): pass"
    )
    other = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"
    told = json.dumps(whole.experiment.as_dict())
    python(script, str(tmp_path), told, env=os.environ | {"PYTHONHASHSEED": other})
    assert_same(RunDirectory(tmp_path), whole)


def test_a_run_that_cannot_be_built_leaves_no_record(tmp_path: Path) -> None:
    impossible = experiment(stream="disjoint", tasks=9)
    with pytest.raises(EarlError, match="tasks = 9"):
        next(RunDirectory(tmp_path, impossible).run())
    assert not (tmp_path / "experiment.json").exists()


def test_a_run_goes_on_with_the_recipe_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recipes change, and later versions have settings that a record knows nothing of."""
    whole = finish(RunDirectory(tmp_path / "whole", experiment(d=24)))
    old = dict(RECIPES["shapes"]) | {"d": 24}
    with monkeypatch.context() as before:
        before.setitem(RECIPES, "shapes", old)
        stop(RunDirectory(tmp_path / "old", experiment()), 30)
    file = tmp_path / "old" / "experiment.json"
    record = json.loads(file.read_text())
    assert record["settings"]["d"] == 24 and "d" not in record["experiment"]["settings"]
    resumed = finish(RunDirectory(tmp_path / "old"))
    assert resumed.experiment.values()["d"] == 24
    assert_same(resumed, whole)
    with pytest.raises(RunConflict, match="d = 24, not 16"):
        RunDirectory(tmp_path / "old", experiment())


def test_a_record_from_before_a_setting_existed_is_opened_with_its_default(
    tmp_path: Path,
) -> None:
    run = finish(RunDirectory(tmp_path / "run", experiment()))
    file = run.path / "experiment.json"
    record = json.loads(file.read_text())
    del record["settings"]["validation"]
    file.write_text(json.dumps(record))
    assert RunDirectory(run.path).experiment.values()["validation"] == 0
    RunDirectory(run.path, experiment())
    with pytest.raises(RunConflict, match=r"validation = 0.0, not 0.5"):
        RunDirectory(run.path, experiment(validation=0.5))
