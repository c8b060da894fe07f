"""The paper's numbers: the same as in the paper, and found for the right runs."""

import csv
from importlib.resources import files
from pathlib import Path

import pytest

from earl.errors import UnknownName
from earl.experiments.catalogue import DATASETS, METHODS, STREAMS
from earl.experiments.experiment import Experiment
from earl.report import paper as module
from earl.report.paper import ROWS, check_table, figures, reported

# The transcript of its tables lies apart from the package: an edit of paper.csv is noticed.
TRANSCRIPT = Path(__file__).with_name("paper_tables.csv")


CLEAR = {"method": "er", "table": "clear", "dataset": "clear-10", "stream": "clear"}


def ask(table="main", metric="A_AUC", **given):
    experiment = Experiment(**({"dataset": "cifar10", "stream": "gaussian"} | given))
    found = reported(
        table,
        dataset=experiment.dataset,
        stream=experiment.stream,
        method=experiment.method,
        settings=experiment.values(),
        metric=metric,
    )
    return found and (found[0].mean, found[0].std)


def lines(text):
    return {tuple(line[:5]): line[5:] for line in csv.reader(text.splitlines())}


def test_every_number_is_the_papers():
    ours = lines(files("earl.report").joinpath("paper.csv").read_text(encoding="utf-8"))
    theirs = lines(TRANSCRIPT.read_text(encoding="utf-8"))
    assert ours.keys() == theirs.keys()
    for key, values in ours.items():
        assert values == theirs[key], key


def test_no_number_stands_twice_and_shares_are_percent():
    text = files("earl.report").joinpath("paper.csv").read_text(encoding="utf-8")
    assert len(figures()) == len(text.splitlines()) - 1
    for key, number in figures().items():
        assert 0 < number.mean < 100, key
        assert number.std is None or 0 <= number.std < 25, key


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"method": "earl"}, (69.52, 0.19)),
        ({"method": "earl", "stream": "disjoint"}, (78.31, 0.72)),
        ({"method": "er", "dataset": "cifar100"}, (41.12, 0.56)),
        ({"method": "earl", "metric": "A_last", "dataset": "imagenet-200"}, (38.83, 0.35)),
        ({"method": "er", "table": "imagenet", "dataset": "imagenet-1k"}, (17.17, None)),
        ({"method": "earl", "settings": {"correction": False}}, None),  # not the paper's EARL
        ({"method": "earl-no-rc", "table": "ablation"}, (68.37, 0.10)),
        ({"method": "x-der"}, (58.28, 1.17)),
        ({"method": "x-der", "settings": {"rivals": "present"}}, None),  # the original's
        ({"method": "vanilla-etf"}, None),
        ({"method": "polrs"}, None),  # in the table clear alone
        ({"method": "er", "stream": "iid"}, None),
        ({"method": "er", "dataset": "digits"}, None),
        ({"method": "er", "metric": "forgetting"}, None),
        ({"method": "er", "metric": "A_AUC_all"}, None),  # where there are no time buckets
        (CLEAR | {"metric": "A_AUC_all"}, (70.70, 1.22)),
        (CLEAR | {"metric": "A_last_all"}, (68.86, 3.00)),
        (CLEAR | {"metric": "AOA"}, (76.65, 1.12)),
        (CLEAR | {"metric": "A_AUC"}, None),  # over the buckets that were seen: another exam
    ],
)
def test_a_run_finds_its_number(given, expected):
    assert ask(**given) == expected


def test_an_ablation_is_found_by_name_and_by_settings():
    by_name = ask("ablation", method="vanilla-etf")
    switched = {"preparatory": False, "correction": False}
    assert by_name == ask("ablation", method="earl", settings=switched) and by_name[0] == 65.6
    assert ask("ablation", method="earl")[0] == 69.62


def test_transformations_and_frozen_layers_are_found_by_their_settings():
    numbers = [
        ask("transform_comp", method="earl", settings={"negative": negative})
        for negative in ("rotation", "permutation", "cutmix", "noise")
    ]
    assert len({number for number in numbers if number}) == 4
    assert ask("layer_comp", method="remind") == ask(
        "layer_comp", method="remind", settings={"frozen": 6}
    )


def test_mappings_name_what_there_is_here_and_in_the_paper():
    """A method or setting that gets another name must get it here too."""
    assert set(module.DATASETS) <= set(DATASETS.names())
    assert set(module.SETUPS) <= set(STREAMS.names())
    in_paper = {(table, method) for table, _, _, method, _ in figures()}
    for table, rows in ROWS.items():
        for row in rows:
            Experiment(
                method=row.method, dataset="cifar10", stream="disjoint", settings=row.settings
            )
            if table not in ("imagenet", "clear"):  # not every method is in each of these
                assert (table, row.name) in in_paper, (table, row.name)
    assert {row.method for rows in ROWS.values() for row in rows} <= set(METHODS.names())


def test_every_number_of_a_run_belongs_to_a_row():
    """What no row is about is not an online run: costs in the text, offline training."""
    named = {(table, row.name) for table, rows in ROWS.items() for row in rows}
    without = {(table, method) for table, _, _, method, _ in figures()} - named
    assert {table for table, _ in without} <= {
        "text_memory_budget",
        "text_rc_cost",
        "transform_effect",
    }


def test_a_table_that_does_not_exist_gets_a_suggestion():
    with pytest.raises(UnknownName, match="did you mean 'ablation'"):
        check_table("ablations")
