"""Where settings come from: recorded with a run, so that results are read without its method."""

import json
from pathlib import Path
from typing import Any

import pytest

from earl.errors import EarlError
from earl.experiments.catalogue import METHODS
from earl.experiments.experiment import Experiment
from earl.experiments.origins import Origins, is_origins
from earl.experiments.recipes import recipe
from earl.experiments.runs.records import RunRecord, find_runs
from fresh import python
from run_folders import write_run

GIVEN = {"k": 5, "lr": 0.01, "sigma": 0.2, "per_class": 10}


def rewrite(path: Path, change: Any) -> None:
    file = path / "experiment.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    change(record)
    file.write_text(json.dumps(record), encoding="utf-8")
    (path / "summary.json").unlink(missing_ok=True)  # its seal was that of the old record


def only(folder: Path) -> RunRecord:
    (run,) = find_runs([folder])
    return run


@pytest.mark.parametrize("method", ["earl", "er", "oddl"])
def test_every_setting_has_one_part_and_one_source(method: str) -> None:
    experiment = Experiment(
        method=method, dataset="digits", stream="gaussian", settings={"lr": 0.01}
    )
    origins, values = experiment.origins, experiment.values()
    assert set(origins.part_of) == set(values)
    assert dict(origins.usual) == {"lr": 3e-4}
    for name in origins.recipe:
        assert values[name] == recipe("digits")[name] and name not in experiment.settings
    defaults = set(values) - {*origins.recipe} - {"lr"}
    assert all(values[name] == experiment.options()[name].default for name in defaults)


def test_origins_come_back_from_json() -> None:
    experiment = Experiment(method="earl", dataset="shapes", stream="gaussian", settings=GIVEN)
    written = json.loads(json.dumps(experiment.origins.as_dict()))
    assert is_origins(written) and Origins.from_dict(written) == experiment.origins


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {},
        {"parts": {}, "recipe": []},
        {"parts": [], "recipe": [], "usual": {}},
        {"parts": {"method": "k"}, "recipe": [], "usual": {}},
        {"parts": {"method": [3]}, "recipe": [], "usual": {}},
        {"parts": {}, "recipe": {}, "usual": {}},
        {"parts": {}, "recipe": [], "usual": {"k": [1]}},
    ],
)
def test_anything_else_in_their_place_is_no_record(wrong: object, tmp_path: Path) -> None:
    path = write_run(tmp_path, "er", 1, [0.5])
    rewrite(path, lambda record: record.update(origins=wrong))
    with pytest.raises(EarlError, match="is not the record of a run"):
        find_runs([tmp_path])


def test_a_record_of_format_1_is_read_as_if_it_said_so(tmp_path: Path) -> None:
    path = write_run(tmp_path, "earl", 1, [0.5], settings=GIVEN, stream="gaussian")
    now = only(tmp_path)
    told = {part: now.of(part) for part in ("method", "stream", "data", "setting", "run")}
    assert told["stream"]["sigma"] == 0.2 and told["method"]["k"] == 5

    rewrite(path, lambda record: (record.update(format=1), record.pop("origins")))
    before = only(tmp_path)
    assert {part: before.of(part) for part in told} == told
    assert before.usual == now.usual and before.changed == now.changed
    assert before.path_below_out() == now.path_below_out()


@pytest.mark.parametrize("version", [1, 2])
def test_a_run_of_a_method_that_is_not_registered_here_is_read(
    version: int, tmp_path: Path
) -> None:
    path = write_run(tmp_path, "er", 1, [0.5], settings={"lr": 0.01})

    def of_another(record: dict[str, Any]) -> None:
        record["experiment"]["method"] = "somebody-s"
        record["settings"]["theirs"] = 7
        record["experiment"]["settings"]["theirs"] = 7
        if version == 1:
            record["format"] = 1
            del record["origins"]
        else:
            record["origins"]["parts"]["method"] = ["theirs"]
            record["origins"]["usual"]["theirs"] = 3

    rewrite(path, of_another)
    assert "somebody-s" not in METHODS
    run = only(tmp_path)
    assert run.of("method") == {"theirs": 7} and run.of("setting")["lr"] == 0.01
    assert run.changed == {"lr": 0.01, "theirs": 7}


def test_a_recipe_that_has_changed_since_makes_a_run_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, "earl", 1, [0.5])
    assert only(tmp_path).changed == {}
    monkeypatch.setitem(recipe("shapes"), "d", 24)  # type: ignore[arg-type]
    assert only(tmp_path).changed == {"d": 16}


def test_tables_of_runs_import_neither_torch_nor_a_method(tmp_path: Path) -> None:
    write_run(tmp_path, "earl", 1, [0.5, 0.6])
    write_run(tmp_path, "er", 1, [0.4, 0.5])
    script = """
import sys
from earl.cli.app import app
for name in ("torch", "earl.methods.er", "earl.methods.earl"):
    sys.modules[name] = None  # to import it is an error from now on
folder, out = sys.argv[1:]
table, report = ["table", folder, "--versus", "er"], ["report", folder, "-o", f"{out}/a.html"]
export, figure = ["export", "csv", folder, "-o", out], ["figure", "curves", folder, "-o", "a.png"]
for words in (table, report, export, figure, ["reproduce", "--status", "--out", folder]):
    app(words, standalone_mode=False)
"""
    (tmp_path / "out").mkdir()
    python(script, str(tmp_path), str(tmp_path / "out"), cwd=tmp_path)
