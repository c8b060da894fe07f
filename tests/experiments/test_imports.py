"""Modules of one's own: named by the user, recorded with a run, never imported by themselves."""

import json
import sys
from pathlib import Path

import pytest

from children import Children
from earl.errors import EarlError, InvalidSetting
from earl.experiments.imports import import_modules

MODULE = """
from earl import METHODS, METRICS
from earl.methods.er import ER

@METHODS.register("my-er", "ER of one's own")
class MyER(ER):
    pass

@METRICS.register("first", "the first accuracy")
def first(history):
    return history[0].accuracy
"""
RUN = ["run", "--method", "my-er", "--dataset", "shapes", "--stream", "disjoint", "--limit", "12"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").touch()
    (tmp_path / "my_package" / "my_method.py").write_text(MODULE)
    return tmp_path


def test_a_method_of_one_s_own_runs_and_resumes_and_a_table_needs_nothing_of_it(
    folder: Path, children: Children
) -> None:
    mine = ["--import", "my_package.my_method"]
    done = children.run("-m", "earl", *RUN, *mine, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["metrics"]) >= {"A_AUC", "first"}
    run = folder / "runs" / "shapes,limit=12" / "disjoint" / "my-er" / "seed-1"
    assert json.loads((run / "experiment.json").read_text())["imports"] == ["my_package.my_method"]

    table = children.run("-m", "earl", "table", "runs", cwd=folder)
    assert table.returncode == 0 and "| my-er |" in table.stdout

    (run / "summary.json").unlink()
    again = ["-m", "earl", "resume", str(run)]
    refused = children.run(*again, cwd=folder)
    assert refused.returncode == 1
    assert refused.stderr.endswith(f"earl resume {run} --import my_package.my_method\n")
    assert children.run(*again, *mine, cwd=folder).returncode == 0
    assert (run / "summary.json").exists()


def test_a_sweep_hands_it_to_its_workers(folder: Path, children: Children) -> None:
    text = 'title = "mine"\n[[grid]]\nmethod = "my-er"\ndataset = "shapes"\n'
    text += 'stream = "disjoint"\nseed = 1\n[grid.settings]\nlimit = 12\n'
    (folder / "mine.toml").write_text(text)
    words = ["-m", "earl", "sweep", "mine.toml", "--import", "my_package.my_method", "--json"]
    done = children.run(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert [run["state"] for run in json.loads(done.stdout)["runs"]] == ["finished"]


@pytest.mark.parametrize("name", ["no such", "a/b.py", "", "a..b", "os; print()"])
def test_what_is_no_name_of_a_module_is_refused(name: str) -> None:
    with pytest.raises(InvalidSetting, match="must be a module"):
        import_modules([name])


def test_a_module_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(EarlError, match="there is no module 'nowhere_at_all' here"):
        import_modules(["nowhere_at_all.mine"])
    (tmp_path / "needy_module.py").write_text("import something_that_is_missing\n")
    with pytest.raises(ModuleNotFoundError, match="something_that_is_missing"):
        import_modules(["needy_module"])
