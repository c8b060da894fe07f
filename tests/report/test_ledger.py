"""The ledger against hand-made runs: every number of the paper has its line, and its own runs."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from earl.cli.app import app
from earl.experiments.runs.records import find_runs
from earl.report.ledger import Line, ledger, summary
from earl.report.paper import figures
from run_folders import write_run


def line(folder: Path, *key: str) -> Line:
    (found,) = (line for line in ledger(find_runs([folder])) if line.key == key)
    return found


MAIN = ("main", "CIFAR-10", "gaussian", "ER", "A_AUC")
GAUSSIAN = {"dataset": "cifar10", "stream": "gaussian"}
DISJOINT = {"dataset": "cifar10", "stream": "disjoint"}
MATCHED = {**GAUSSIAN, "match": "flops", "to": "er"}


def test_every_number_of_the_paper_has_a_line_and_a_command() -> None:
    lines = ledger([])
    assert [entry.key for entry in lines] == list(figures())
    assert all(entry.state == "not run" and entry.gap is None for entry in lines)
    assert all(entry.command.startswith("earl ") for entry in lines)
    assert sum(sum(row.values()) for row in summary(lines).values()) == len(lines)
    assert len(lines) == 620 + 6  # six stand in the text


def test_what_the_text_tells_of_costs_has_a_command_that_prints_it() -> None:
    commands = {entry.table: entry.command.split()[1:] for entry in ledger([])}
    budget, answer = commands["text_memory_budget"], commands["text_rc_cost"]
    assert budget == ["list", "methods", "--cost", "--dataset", "cifar10"]
    assert answer == ["list", "methods", "--cost", "--dataset", "imagenet-200", "--method", "earl"]
    small = [word.replace("imagenet-200", "shapes") for word in answer]  # d = 16, N = 40, k = 15
    text = CliRunner().invoke(app, small).stdout
    assert "earl: residual correction takes 3dN + kN = 2,520 FLOPs an answer, " in text
    rows = json.loads(CliRunner().invoke(app, [*small, "--json"]).stdout)
    assert rows["earl"]["answer"]["correction"] == 2_520 and "answer" not in rows["er"]
    share = 100 * 2_520 / rows["earl"]["answer"]["forward"]
    assert f" {share:.2f} % of its forward pass" in text


def test_runs_are_averaged_over_seeds_and_held_against_the_paper(tmp_path: Path) -> None:
    for seed, accuracy in ((1, 0.5), (2, 0.6), (3, 0.7)):
        write_run(tmp_path, "er", seed, [accuracy], **GAUSSIAN)
    found = line(tmp_path, *MAIN)
    assert found.state == "run" and found.spread is not None
    assert found.spread.mean == pytest.approx(60) and found.spread.n == 3
    assert found.spread.std == pytest.approx(10)
    assert found.gap == pytest.approx(60 - 60.13)
    assert line(tmp_path, *MAIN[:4], "A_last").spread.mean == pytest.approx(60)
    matched = line(tmp_path, "main_const", *MAIN[1:])
    assert matched.state == "not run"  # there ER is matched to itself


def test_a_smaller_run_is_called_reduced_and_gives_way_to_a_full_one(tmp_path: Path) -> None:
    write_run(tmp_path, "er", 1, [0.3], settings={"width": 16}, **GAUSSIAN)
    small = line(tmp_path, *MAIN)
    assert small.state == "reduced" and small.spread.mean == pytest.approx(30)
    write_run(tmp_path, "er", 1, [0.5], **GAUSSIAN)
    full = line(tmp_path, *MAIN)
    assert full.state == "run" and full.spread.mean == pytest.approx(50)


def test_how_often_a_run_is_examined_counts_where_a_metric_depends_on_it(tmp_path: Path) -> None:
    """A_AUC is a mean over evaluations: one at the end of the stream is not the paper's."""
    settings = {"every": 50_000}
    for method in ("er", "earl"):
        write_run(tmp_path, method, 1, [0.5], settings=settings, **GAUSSIAN)
    assert line(tmp_path, *MAIN).state == "reduced"
    assert line(tmp_path, *MAIN[:4], "A_last").state == "run"
    fixed = ("etf_forgetting", "CIFAR-10", "unstated", "fixed ETF classifier", "forgetting")
    assert line(tmp_path, *fixed).state == "reduced"
    write_run(tmp_path, "er", 1, [0.5], settings=settings, **MATCHED)
    matched = ("main_const", *MAIN[1:4])
    assert [line(tmp_path, *matched, metric).state for metric in ("A_AUC", "AOA")] == [
        "reduced",
        "run",
    ]


def test_on_clear_the_paper_asked_about_all_time_buckets(tmp_path: Path) -> None:
    about = {"dataset": "clear-10", "stream": "clear", "match": "flops", "to": "er"}
    extra = {"accuracy_all_domains": 0.25}
    write_run(tmp_path, "er", 1, [0.75, 0.5], extra=extra, **about)
    key = ("clear", "CLEAR-10", "domain_class_incremental", "ER")
    found = {metric: line(tmp_path, *key, metric) for metric in ("A_AUC", "A_last", "AOA")}
    assert all(entry.state == "run" for entry in found.values())
    assert found["A_AUC"].spread.mean == found["A_last"].spread.mean == pytest.approx(25)
    assert found["AOA"].spread.mean == pytest.approx(50)


@pytest.mark.parametrize(("d", "state"), [(4096, "run"), (1024, "reduced")])
def test_the_papers_d_is_that_of_the_paper(d: int, state: str, tmp_path: Path) -> None:
    write_run(tmp_path, "earl", 1, [0.5], settings={"d": d}, **GAUSSIAN)
    assert line(tmp_path, *MAIN[:3], "EARL", "A_AUC").state == state


def test_matched_runs_belong_to_the_tables_of_equal_flops(tmp_path: Path) -> None:
    write_run(tmp_path, "er", 1, [0.4], **MATCHED)
    assert line(tmp_path, *MAIN).state == "not run"
    assert line(tmp_path, "main_const", *MAIN[1:]).state == "run"


def test_a_run_that_has_not_ended_says_nothing(tmp_path: Path) -> None:
    write_run(tmp_path, "er", 1, [0.4], **GAUSSIAN, finished=False)
    assert line(tmp_path, *MAIN).state == "not run"


def test_variants_find_their_rows(tmp_path: Path) -> None:
    write_run(tmp_path, "earl-learnable", 1, [0.4], **GAUSSIAN)
    write_run(tmp_path, "earl", 1, [0.6], settings={"negative": "noise"}, **GAUSSIAN)
    forgetting = ("etf_forgetting", "CIFAR-10", "unstated", "learnable classifier", "forgetting")
    assert line(tmp_path, *forgetting).state == "run"
    noise = ("transform_comp", "CIFAR-10", "gaussian", "EARL with gaussian noise", "A_AUC")
    assert line(tmp_path, *noise).spread.mean == pytest.approx(60)
    assert line(tmp_path, *MAIN[:3], "EARL", "A_AUC").state == "not run"


@pytest.mark.parametrize(
    ("row", "method", "other"),
    [
        ("X-DER", "x-der", {"rivals": "present"}),
        ("EARL", "earl", {"preparatory_count": "on-top"}),
    ],
)
def test_another_reading_of_a_method_never_stands_in_for_the_papers(
    tmp_path: Path, row: str, method: str, other: dict[str, str]
) -> None:
    key = ("main", "CIFAR-10", "disjoint", row, "A_AUC")
    write_run(tmp_path, method, 1, [0.4], settings=other, **DISJOINT)
    assert line(tmp_path, *key).state == "not run"
    write_run(tmp_path, method, 1, [0.6], **DISJOINT)
    found = line(tmp_path, *key)
    assert found.state == "run" and found.spread is not None
    assert found.spread.mean == pytest.approx(60)


@pytest.mark.parametrize("more", [{"residual_source": "refresh"}, {"k": 1}])
def test_of_two_reduced_runs_the_one_with_fewer_changes_counts(
    tmp_path: Path, more: dict[str, str | int]
) -> None:
    for folder, settings, accuracy in (("a", {}, 0.4), ("b", more, 0.6), ("c", more, 0.7)):
        given = {"width": 8 if folder < "c" else 16, **settings}
        about = {**DISJOINT, "settings": given}
        write_run(tmp_path / folder, "earl", 1, [accuracy], **about)
    found = line(tmp_path, "main", "CIFAR-10", "disjoint", "EARL", "A_AUC")
    assert found.state == "reduced" and found.reduced == {1: pytest.approx(40)}


TURNED = {f"accuracy_turned_{turn}": turn / 1000 for turn in (0, 90, 180, 270)}


def write_turned(folder: Path, method: str = "er-memory-only", **settings: int) -> None:
    about = {"dataset": "cifar10", "stream": "iid", "settings": settings, "extra": TURNED}
    write_run(folder, method, 1, [0.9], **about)


@pytest.mark.parametrize(
    ("settings", "state"),
    [
        ({"memory_size": 40, "begin": 40}, "run"),  # these runs have 40 samples
        ({"memory_size": 40, "begin": 40, "iterations": 4, "batch_size": 128}, "run"),
        ({"memory_size": 40, "begin": 39}, "reduced"),
        ({"memory_size": 39, "begin": 40}, "reduced"),
        ({"memory_size": 40}, "reduced"),  # trained while the memory fills
        ({"memory_size": 40, "begin": 40, "width": 16}, "reduced"),
        ({"memory_size": 40, "begin": 40, "lr": 0.1}, "reduced"),
    ],
)
def test_only_offline_training_of_the_whole_network_is_that_of_the_paper(
    settings: dict[str, int], state: str, tmp_path: Path
) -> None:
    write_turned(tmp_path, **settings)
    key = ("CIFAR-10", "joint_offline", "trained on CIFAR-10", "accuracy")
    assert line(tmp_path, "transform_effect", *key).state == state


def test_turns_are_counted_from_those_of_the_training_images(tmp_path: Path) -> None:
    write_turned(tmp_path, rotate=180, memory_size=50000)
    for asked, turn in (("-R180", 0), ("-R270", 90), ("", 180), ("-R90", 270)):
        key = f"CIFAR-10{asked}", "joint_offline", "trained on CIFAR-10-R180", "accuracy"
        assert line(tmp_path, "transform_effect", *key).spread.mean == pytest.approx(turn / 10)
