"""The experiments that come along: they parse, say what they reproduce, and the small ones run."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from earl.cli.reproduce import files
from earl.evaluation.history import Evaluation
from earl.experiments.catalogue import DATASETS, METHODS
from earl.experiments.experiment import Experiment
from earl.experiments.recipes import recipe
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.sweeps.sweepfile import SweepFile, bundled
from earl.report.paper import ROWS
from run_folders import write_run

Typed = Callable[..., tuple[int, str, str]]
FILES = bundled()
SMALL = [name for name in FILES if name.endswith("-small")]
PICTURED = [name for name in SMALL if name.startswith("fig-") and name != "fig-k-small"]
SIZES = ("data", "setting", "network", "augment", "run")  # settings that a smoke run has itself
WIDTHS = ("d", "hidden")  # and two of a method
DEEP = {"frozen", "codebooks"}  # settings that need eight blocks and many channels


@cache
def opened(name: str) -> SweepFile:
    return SweepFile.open(FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_every_file_parses_and_names_a_table_or_figure(name: str) -> None:
    file = opened(name)
    assert file.experiments
    if name.removesuffix("-small") in files():
        assert file.table == name.removesuffix("-small")
        assert file.table.startswith("fig-") or file.table in (*ROWS, "transform_effect")


def test_every_table_of_runs_in_the_paper_has_its_file_in_two_sizes() -> None:
    assert {*ROWS, "transform_effect"} <= set(files())
    assert len([name for name in files() if name.startswith("fig-")]) >= 7


@pytest.mark.parametrize("table", sorted(ROWS))
def test_a_file_runs_every_row_that_the_paper_has(table: str) -> None:
    experiments = opened(table).experiments
    for row in ROWS[table]:
        if row.name == "SCR++" or (table in ("imagenet", "clear") and row.method == "oddl"):
            continue  # the paper's other name for SCR; and ODDL is not in these
        if row.settings == {"frozen": -1}:
            continue  # the default, which is six of eight blocks
        settings = [e.values() for e in experiments if e.method == row.method]
        aliases = {r.method for r in ROWS[table] if r.name == row.name}
        settings += [e.values() for e in experiments if e.method in aliases]
        assert any(
            all(values.get(k) == v for k, v in row.settings.items()) for values in settings
        ), row


@pytest.mark.parametrize("name", SMALL)
def test_a_small_file_has_a_projection_in_proportion_to_its_network(name: str) -> None:
    """Of 64 channels the paper makes d = 4096; a narrower network must not inherit all of it."""
    for experiment in opened(name).experiments:
        values = experiment.values()
        if "hidden" not in values or experiment.embedded:  # no network of theirs
            continue
        share, recipe_d = values["width"] / 64, recipe(experiment.dataset)["d"]
        assert values["hidden"] == share * recipe(experiment.dataset)["hidden"]
        classes = DATASETS.entry(experiment.dataset).facts.classes
        enough = 4 * classes - 1  # dimensions for a vector of every class and its three turns
        assert values["d"] == (share * recipe_d if share * recipe_d >= enough else recipe_d)


def test_the_online_accuracy_is_compared_at_equal_flops() -> None:
    """It is a figure of the paper's section on computational constraint."""
    for name in ("fig-online-accuracy", "fig-online-accuracy-small"):
        experiments = opened(name).experiments
        assert {(e.match, e.to) for e in experiments} == {("flops", "er")}
        assert {"er", "earl"} <= {e.method for e in experiments}


def smoke(experiment: Experiment) -> Experiment:
    """Return a run with the same method and its own settings on synthetic images."""
    options = experiment.options()
    settings = {n: v for n, v in experiment.settings.items() if n not in WIDTHS}
    own = {n: v for n, v in settings.items() if options.part(n) not in SIZES}
    sizes = {"per_class": 10, "every": 20, "batch_size": 4}
    sizes |= {"depth": 18, "width": 16} if DEEP & own.keys() else {}
    sizes |= {"rotate": experiment.settings["rotate"]} if "rotate" in experiment.settings else {}
    own |= {"begin": 40} if "begin" in own else {}  # all of them, as there
    stream = "disjoint" if experiment.stream == "clear" else experiment.stream
    return replace(experiment, dataset="shapes", stream=stream, settings=own | sizes)


def kinds(name: str) -> list[Experiment]:
    """Return one experiment of every kind that a file holds, whatever its size, seed and stream."""
    experiments = opened(name).experiments
    alike = {str(e.path()): e for e in (smoke(replace(e, seed=1)) for e in experiments)}
    return list(alike.values())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all runs, since files share kinds: what is finished there is not run again."""
    return tmp_path_factory.mktemp("runs")


def history(experiment: Experiment, folder: Path) -> list[Evaluation]:
    """Carry out a run, unless the folder has it; return its evaluations."""
    directory = RunDirectory(folder / experiment.path(), experiment)
    for _ in directory.run(threads=1):
        pass
    return directory.history


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in PICTURED else n for n in SMALL]
)
def test_a_small_file_runs_on_synthetic_images(name: str, runs: Path) -> None:
    cheap = min(kinds(name), key=lambda e: (bool(e.match), e.method != "earl"))
    evaluations = history(cheap, runs)
    assert [e.step for e in evaluations] == [20, 40]
    assert evaluations[-1].extra["updates"] > 0 and evaluations[-1].total.keys() == {0, 1, 2, 3}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_every_kind_of_run_in_a_small_file_works(name: str, runs: Path) -> None:
    for experiment in kinds(name):
        evaluations = history(experiment, runs)
        assert evaluations[-1].step == 40 and evaluations[-1].extra["flops"] > 0, experiment


# ---- the command


def test_the_command_lists_names_and_the_ledger(tmp_path: Path, typed: Typed) -> None:
    write_run(tmp_path, "er", 1, [0.5], dataset="cifar10", stream="gaussian")
    code, text, _ = typed("reproduce", "--json")
    assert code == 0 and set(json.loads(text)) == set(files())
    code, text, _ = typed("reproduce", "--status", "--out", str(tmp_path), "--json")
    lines = json.loads(text)
    assert code == 0 and len(lines) == 626
    (ours,) = (e for e in lines if e["ours"] and e["table"] == "main" and e["metric"] == "A_AUC")
    assert ours["row"] == "ER" and ours["ours"]["mean"] == 50 and ours["ours"]["n"] == 1
    assert ours["ours"]["std"] is None and ours["gap"] == pytest.approx(50 - 60.13)
    code, text, _ = typed("reproduce", "main", "--status", "--out", tmp_path)
    assert code == 0 and "60.13 ± 0.56" in text and "-10.13" in text and "not run" in text


def test_a_dry_run_lists_the_runs_of_one_scale(tmp_path: Path, typed: Typed) -> None:
    words = ("ablation", "--scale", "small", "--dry-run", "--json", "--out", tmp_path)
    code, text, _ = typed("reproduce", *words)
    runs = json.loads(text)["runs"]
    assert code == 0 and len(runs) == len(opened("ablation-small").experiments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [("ablatoin",), ("mian", "--status")])
def test_a_wrong_name_gets_a_suggestion(words: tuple[str, ...], typed: Typed) -> None:
    code, _, err = typed("reproduce", *words)
    assert code and "did you mean" in err


def test_no_method_is_missing_from_the_experiments() -> None:
    used = {e.method for name in files() for e in opened(name).experiments}
    used |= {e.method for e in opened("embeddings-small").experiments}
    assert set(METHODS.names()) - used <= {"smooth-replay"}  # others may register their own
