"""Tables: numbers worked out by hand, what is refused, what is noted, and how it is written."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from rich.console import Console

from earl.cli.app import main
from earl.errors import DataNotFound, InvalidSetting, MixedRuns, UnknownName
from earl.evaluation.history import REMEDY
from earl.experiments.runs.records import choose_runs, find_runs
from earl.report.groups import display_value
from earl.report.tables.formats import FORMATS, markdown
from earl.report.tables.latex import tex
from earl.report.tables.layout import number, signed
from earl.report.tables.table import default_metrics, make_table
from earl.report.tables.terminal import show_table
from run_folders import strip_seals, write_run, write_summary

# Accuracies at the two evaluations of each seed: A_AUC is their mean, A_last the second
ER = {1: (0.3, 0.5), 2: (0.4, 0.6), 3: (0.5, 0.7)}
EARL = {1: (0.7, 0.6), 2: (0.7, 0.8), 3: (0.7, 0.7)}


def write_runs(folder, method, accuracies, **given):
    for seed, values in accuracies.items():
        write_run(folder, method, seed, values, **given)


@pytest.fixture
def folder(tmp_path):
    """Two methods, three seeds."""
    write_runs(tmp_path, "er", ER)
    write_runs(tmp_path, "earl", EARL)
    return tmp_path


def table_of(folder, *metrics, where=(), **given):
    runs = choose_runs(find_runs([folder]), where)
    return make_table(runs, metrics or ("A_AUC", "A_last"), **given)


def cell(table, row, metric="A_last", column=0):
    return table.cells[row, table.columns[column], metric]


def body(text):
    """Return the rows of a Markdown table as lists of texts."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[part.strip() for part in row.strip("|").split("|")] for row in rows]


# ---- numbers


def test_cells_are_means_over_seeds_with_their_deviation(folder):
    """ER: A_AUC 40, 50, 60 and A_last 50, 60, 70. EARL: A_AUC 65, 75, 70 and A_last 60, 80, 70."""
    head, _, *rows = body(markdown(table_of(folder)))
    assert head == ["method", "A_AUC", "A_last"]
    assert rows == [
        ["earl", "70.00 ± 5.00 (3)", "70.00 ± 10.00 (3)"],
        ["er", "50.00 ± 10.00 (3)", "60.00 ± 10.00 (3)"],
    ]


def test_real_runs_are_scored_as_they_scored_themselves(few_runs):
    runs = find_runs([few_runs])
    for metric in ("A_AUC", "A_last", "AOA", "forgetting"):
        table = make_table(runs, [metric])
        for method in ("er", "earl"):
            own = [r.summary["metrics"][metric] for r in runs if r.experiment.method == method]
            found = cell(table, method, metric)
            assert list(found.values.values()) == [100 * value for value in own]
            assert found.spread.mean == pytest.approx(100 * np.mean(own))
            assert found.spread.std == pytest.approx(100 * np.std(own, ddof=1))


def test_one_seed_has_no_deviation_and_nowhere_a_nan(tmp_path):
    write_run(tmp_path, "er", 1, [0.25])
    write_run(tmp_path, "earl", 1, [0.5])
    table = table_of(tmp_path, "A_AUC", versus="er")
    rows = body(markdown(table))[2:]
    assert rows == [["earl", "50.00 (1)", "+25.00 (1)"], ["er", "25.00 (1)", "–"]]
    for write in FORMATS.values():
        assert "nan" not in write(table).lower()


def test_differences_are_paired_by_seed(folder):
    """EARL - ER in A_last is 10, 20, 0: mean 10, deviation 10, t(2) = 4.302653."""
    found = cell(table_of(folder, versus="er"), "earl").difference
    assert (found.mean, found.n) == (pytest.approx(10), 3)
    assert found.high - found.mean == pytest.approx(4.302653 * 10 / 3**0.5)
    assert "+10.00 [−14.84, +34.84] (3)" in markdown(table_of(folder, versus="er"))


def test_only_common_seeds_are_compared_and_all_are_averaged(folder):
    write_run(folder, "earl", 4, [0.1, 0.1])
    table = table_of(folder, versus="er")
    assert cell(table, "earl").spread.n == 4 and cell(table, "earl").difference.n == 3
    assert "seed 4 missing: er on shapes, disjoint" in table.notes


def test_a_reference_that_is_missing_or_ambiguous_is_an_error(folder):
    with pytest.raises(UnknownName, match=r"no finished run of 'err'.*did you mean 'er'"):
        table_of(folder, versus="err")
    write_runs(folder, "earl", EARL, settings={"k": 5})
    with pytest.raises(InvalidSetting, match="'earl, k=5', 'earl, k=15'; name one in full"):
        table_of(folder, versus="earl")
    assert cell(table_of(folder, versus="earl, k=5"), "earl, k=15").difference.mean == 0


def test_without_a_common_seed_there_is_a_note_and_no_difference(tmp_path):
    write_run(tmp_path, "er", 1, [0.5])
    write_run(tmp_path, "earl", 2, [0.5])
    table = table_of(tmp_path, versus="er")
    assert cell(table, "earl").difference is None
    assert "no common seed with er: earl on shapes, disjoint" in table.notes


def test_costs_are_added_when_asked_for(tmp_path):
    extra = {"updates": 160, "images": 2560, "flops": 3.02e9, "bytes": 44_700_000}
    write_run(tmp_path, "er", 1, [0.5], extra=extra)
    write_run(tmp_path, "er", 2, [0.5], extra=extra | {"images": 2570})
    write_run(tmp_path, "earl", 1, [0.5], extra=extra)
    write_run(tmp_path, "earl", 2, [0.5], extra={"updates": 160})  # an older history
    head, _, older, row = body(markdown(table_of(tmp_path, "A_AUC", costs=True)))
    assert older[2:] == ["160", "–", "–", "–", "2.5 s"]
    assert head[2:] == ["updates", "images trained", "training FLOPs", "bytes held", "time"]
    assert row[2:] == ["160", "2,565", "3.02 GFLOP", "44.7 MB", "2.5 s"]
    (tmp_path / "old").mkdir()
    write_run(tmp_path / "old", "er", 1, [0.5])  # a history that knows no costs
    assert body(markdown(table_of(tmp_path / "old", "A_AUC", costs=True)))[0][2:] == ["time"]


def test_numbers_of_probes_are_shown_as_they_are_at_the_end(tmp_path):
    for seed, (nc1, bias) in {1: (0.012, 0.5), 2: (0.014, -0.25)}.items():
        path = write_run(tmp_path, "er", seed, [0.5, 0.5], extra={"NC1": nc1, "bias": bias})
        file = path / "history.jsonl"
        first, last = file.read_text().splitlines()
        file.write_text(first.replace(f'"bias":{bias}', '"bias":9') + f"\n{last}\n")
        write_summary(path, json.loads((path / "summary.json").read_text()))
        write_run(tmp_path, "scr", seed, [0.5, 0.5], extra={"NC1": 2 * nc1, "training_error": 0.25})
    write_run(tmp_path, "earl", 1, [0.5, 0.5])
    table = table_of(tmp_path, "A_AUC", "NC1", "bias", "training_error", versus="er")
    head, _, earl, er, scr = body(markdown(table))
    assert head[:5] == ["method", "A_AUC", "vs er", "NC1", "vs er"]
    assert er[3:] == ["0.0130 ± 0.0014 (2)", "–", "0.125 ± 0.530 (2)", "–", "–", "–"]
    assert scr[3:5] == ["0.0260 ± 0.0028 (2)", "+0.0130 [+0.0003, +0.0257] (2)"]
    assert scr[7] == "25.00 ± 0.00 (2)" and earl[3:] == ["–"] * 6
    assert "not recorded by all seeds, bias: earl on shapes, disjoint; scr on shapes, disjoint" in (
        table.notes
    )
    assert "NC1, bias at the end of the stream: likewise, not in percent." in markdown(table)
    assert "Percent" not in markdown(table_of(tmp_path, "NC1"))


def test_a_number_that_no_run_has_is_answered_with_the_command_that_records_it(folder):
    with pytest.raises(DataNotFound, match=r"none of the 6 runs has recorded 'NC2'.*--probe coll"):
        table_of(folder, "NC2")
    with pytest.raises(UnknownName, match="did you mean 'bias'"):
        table_of(folder, "baias")


def test_what_a_run_made_again_has_recorded_counts_for_both(folder):
    for seed in ER:
        write_run(folder, "er", seed, ER[seed], probes=("bias",), extra={"bias": 0.5})
        write_run(folder, "er", seed, ER[seed], probes=("collapse",), extra={"NC1": 0.25})
    table = table_of(folder, "A_AUC", "bias", "NC1")
    assert [cell(table, "er", m).spread.mean for m in ("A_AUC", "bias", "NC1")] == [50, 0.5, 0.25]
    assert cell(table, "er", "bias").spread.n == 3


# ---- rows and columns


def test_settings_are_named_where_one_method_has_several(folder):
    write_runs(folder, "earl", EARL, settings={"k": 5})
    write_runs(folder, "earl", EARL, settings={"k": 5, "tau": 0.5})
    assert table_of(folder).rows == (
        "earl, k=5, tau=0.5",
        "earl, k=5, tau=0.9",
        "earl, k=15, tau=0.9",
        "er",
    )


def test_what_a_recipe_gives_one_data_set_is_not_named(folder):
    """digits has d = 64, shapes d = 16: that is the same method with the settings of each."""
    write_runs(folder, "earl", EARL, dataset="digits")
    table = table_of(folder)
    assert table.rows == ("earl", "er")
    assert [str(column) for column in table.columns] == ["digits, disjoint", "shapes, disjoint"]
    assert body(markdown(table))[3] == ["er", "–", "–", "50.00 ± 10.00 (3)", "60.00 ± 10.00 (3)"]


def test_a_run_with_changed_settings_never_goes_under_the_plain_name(tmp_path):
    """Its own settings stand in the row, what a comparison shares in the column."""
    write_runs(tmp_path, "er", ER, settings={"memory_size": 100, "every": 20})
    given = {"k": 25, "memory_size": 100, "every": 20}
    write_runs(tmp_path, "earl", EARL, settings=given)
    table = table_of(tmp_path, versus="er")
    assert table.rows == ("earl, k=25", "er")
    (column,) = table.columns
    assert str(column) == "shapes (every=20, memory_size=100), disjoint"
    for write in FORMATS.values():
        assert "every=20, memory_size=100" in write(table).replace(r"\_", "_")
    assert table_of(tmp_path, versus="earl").rows == table.rows  # a method with one row


def test_what_was_changed_for_one_data_set_only_is_named(folder):
    write_runs(folder, "earl", EARL, dataset="digits", settings={"k": 5})
    assert table_of(folder).rows == ("earl, k=5", "earl, k=15", "er")


def test_settings_of_data_and_stream_make_other_columns(folder):
    write_runs(folder, "er", ER, settings={"limit": 80})
    write_runs(folder, "er", ER, settings={"tasks": 4})
    assert [str(column) for column in table_of(folder).columns] == [
        "shapes, disjoint",
        "shapes, disjoint (tasks=4)",
        "shapes (limit=80), disjoint",
    ]


def test_stream_files_of_one_name_are_told_apart_by_their_content(tmp_path):
    for seed, place in ((1, "here"), (2, "there")):
        for digest in ("0123456789", "abcdefghij"):
            stream = {"stream": f"file:/{place}/s.json", "stream_sha256": digest}
            write_run(tmp_path / digest, "er", seed, [0.5], **stream)
    table = table_of(tmp_path)
    assert [str(column) for column in table.columns] == [
        "shapes, file-s (sha256=01234567)",
        "shapes, file-s (sha256=abcdefgh)",
    ]
    assert {found.spread.n for found in table.cells.values()} == {2}  # a file may be moved
    (column,) = table_of(tmp_path / "0123456789").columns
    assert str(column) == "shapes, file-s"


def test_values_are_named_without_places():
    assert [display_value(v) for v in (5, 0.5, True, "", "/home/me/list.txt")] == [
        "5",
        "0.5",
        "true",
        "none",
        "list.txt",
    ]


# ---- what is refused


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("memory_size", {"settings": {"memory_size": 40}}),
        ("lr", {"settings": {"lr": 0.01}}),
        ("iterations", {"settings": {"iterations": 2}}),
        ("width", {"settings": {"width": 16}}),
        ("padding", {"settings": {"padding": 2}}),
        ("every", {"settings": {"every": 20}}),
        ("earl", {"env": {"earl": "9.9"}}),
        ("torch", {"env": {"torch": "1.0"}}),
        ("device", {"env": {"device": "cuda"}}),
        ("data train_images", {"data": {"train_images": 80}}),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(name, given, tmp_path):
    write_run(tmp_path, "er", 1, [0.5])
    other = write_run(tmp_path, "earl", 2, [0.5], **given)
    with pytest.raises(MixedRuns) as refused:
        table_of(tmp_path)
    message = str(refused.value)
    assert str(tmp_path / "shapes/disjoint/er/seed-1") in message and str(other) in message
    assert f"differ in {name} (" in message and "--allow-mixed" in message
    table = table_of(tmp_path, allow_mixed=True)
    assert any(note.startswith(f"mixed in shapes, disjoint: {name} ") for note in table.notes)


def test_one_group_of_different_versions_is_refused_too(tmp_path):
    write_run(tmp_path, "er", 1, [0.5])
    write_run(tmp_path, "er", 2, [0.7], env={"torch": "1.0"})
    with pytest.raises(MixedRuns, match=r"differ in torch \("):
        table_of(tmp_path)
    assert cell(table_of(tmp_path, allow_mixed=True), "er").spread.n == 2


def test_a_swept_setting_can_be_chosen_or_becomes_part_of_the_row(folder):
    for method in ("er", "earl"):
        write_runs(folder, method, ER, settings={"memory_size": 100})
    with pytest.raises(MixedRuns, match="--where memory_size="):
        table_of(folder)
    assert table_of(folder, where=["memory_size=100"]).rows == ("earl", "er")
    assert table_of(folder, allow_mixed=True).rows == (
        "earl, memory_size=20",
        "earl, memory_size=100",
        "er, memory_size=20",
        "er, memory_size=100",
    )


def test_columns_need_not_share_their_settings(folder):
    write_runs(folder, "er", ER, stream="gaussian", settings={"memory_size": 100})
    assert len(table_of(folder).columns) == 2


def test_one_seed_twice_is_refused_even_so(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("copy")
    shutil.copytree(folder / "shapes", other / "shapes")
    with pytest.raises(MixedRuns, match="same experiment with the same seed"):
        make_table(find_runs([folder, other]), allow_mixed=True)


def test_a_run_made_again_with_a_probe_counts_once(folder):
    before = table_of(folder)
    write_run(folder, "er", 1, ER[1], probes=("collapse",))
    assert table_of(folder).cells == before.cells


def test_unknown_metrics_and_tables_get_a_suggestion(folder):
    with pytest.raises(UnknownName, match="did you mean 'A_AUC'"):
        table_of(folder, "A_AUCC")
    with pytest.raises(UnknownName, match="did you mean 'main'"):
        table_of(folder, paper="mainn")


# ---- what is noted


def test_runs_that_have_not_ended_are_left_out_and_named(folder):
    write_run(folder, "er", 4, [0.9], finished=False)
    write_run(folder, "er", 5, [], finished=False)
    for seed in (6, 7):
        file = write_run(folder, "er", seed, [0.9, 0.9]) / "history.jsonl"
        file.write_bytes(file.read_bytes()[:-20])
    strip_seals(file.parent)
    table = table_of(folder)
    assert cell(table, "er").spread.n == 3
    place = "shapes/disjoint/er/seed-"
    assert table.notes == (
        f"left out, not finished (40 of 80 samples): {place}4",
        f"left out, not begun: {place}5",
        f"left out, damaged (history.jsonl is not what it was when the run ended; {REMEDY}): "
        f"{place}6",
        f"left out, its history is torn (it ends at 40 of 80 samples): {place}7",
    )


def test_if_no_run_has_ended_there_is_no_table(tmp_path):
    write_run(tmp_path, "er", 1, [0.5], finished=False)
    with pytest.raises(DataNotFound, match=r"none of the 1 runs has ended.*40 samples.*resume"):
        table_of(tmp_path)


def test_a_missing_seed_is_shown(folder):
    shutil.rmtree(folder / "shapes/disjoint/er/seed-3")
    table = table_of(folder)
    assert body(markdown(table))[3][1] == "45.00 ± 7.07 (2)"
    assert table.notes == ("seed 3 missing: er on shapes, disjoint",)


def test_a_seed_that_has_only_begun_is_not_missing_too(folder):
    (folder / "shapes/disjoint/er/seed-3/summary.json").unlink()
    (note,) = table_of(folder).notes
    assert note.startswith("left out, not finished (80 of 80 samples): ")


# ---- beside the paper


@pytest.fixture
def cifar(tmp_path):
    write_runs(tmp_path, "er", ER, dataset="cifar10", stream="gaussian")
    write_runs(tmp_path, "er-memory-only", ER, dataset="cifar10", stream="gaussian")
    return tmp_path


def test_the_papers_number_stands_beside_ours(cifar):
    """The paper's ER has A_AUC 60.13 ± 0.56 on CIFAR-10, Gaussian; ours here is 50."""
    head, _, er, other = body(markdown(table_of(cifar, "A_AUC", paper="main")))
    assert head == ["method", "A_AUC", "paper", "gap"]
    assert er == ["er", "50.00 ± 10.00 (3)", "60.13 ± 0.56", "−10.13"]
    assert other[2:] == ["–", "–"]  # a control of ours
    assert table_of(cifar, paper="main").notes == ()  # the recipe of CIFAR-10


def test_settings_that_are_not_the_papers_are_listed(tmp_path):
    small = {"width": 16, "limit": 5000}
    write_runs(tmp_path, "er", ER, dataset="cifar10", stream="gaussian", settings=small)
    assert table_of(tmp_path, paper="main").notes == (
        "not the paper's settings: er on cifar10 (limit=5000, width=16), gaussian: "
        "limit 5000 (recipe: 0), width 16 (recipe: 64)",
    )


def test_the_papers_d_is_4096_and_the_code_s_1024_is_listed(tmp_path):
    given = {"dataset": "cifar100", "stream": "disjoint"}
    write_runs(tmp_path / "paper", "earl", EARL, settings={"d": 4096}, **given)
    table = table_of(tmp_path / "paper", "A_AUC", paper="main")
    assert cell(table, "earl", "A_AUC").paper is not None and table.notes == ()
    write_runs(tmp_path / "code", "earl", EARL, settings={"d": 1024}, **given)
    assert table_of(tmp_path / "code", "A_AUC", paper="main").notes == (
        "not the paper's settings: earl, d=1024 on cifar100, disjoint: d 1024 (recipe: 4096)",
    )


def test_a_setting_that_makes_the_papers_row_is_not_listed(tmp_path):
    given = {"dataset": "cifar10", "stream": "disjoint", "settings": {"negative": "cutmix"}}
    write_runs(tmp_path, "earl", EARL, **given)
    table = table_of(tmp_path, "A_AUC", paper="transform_comp")
    assert cell(table, "earl, negative=cutmix", "A_AUC").paper is not None and table.notes == ()
    table = table_of(tmp_path, "A_AUC", paper="main")  # the paper's EARL rotates
    assert cell(table, "earl, negative=cutmix", "A_AUC").paper is None


def test_a_matched_table_says_that_ours_is_not(cifar):
    (note,) = table_of(cifar, "AOA", paper="main_const").notes
    assert note.endswith("er on cifar10, gaussian: budget matched in nothing (paper: flops)")


def test_what_others_were_matched_to_needs_no_match_itself(cifar):
    write_runs(cifar, "earl", EARL, dataset="cifar10", stream="gaussian", match="flops", to="er")
    notes = table_of(cifar, "AOA", paper="main_const").notes
    assert notes == ("match=flops, to=er: earl on cifar10, gaussian",)


def test_a_matched_run_is_another_row_and_is_noted(folder):
    write_runs(folder, "earl", EARL, match="flops", to="er")
    table = table_of(folder, versus="er")
    assert table.rows == ("earl", "earl, match=flops, to=er", "er")
    assert table.notes == ("match=flops, to=er: earl, match=flops, to=er on shapes, disjoint",)
    alone = table_of(folder, where=["match=flops"])
    assert alone.rows == ("earl",)
    assert alone.notes == ("match=flops, to=er: earl on shapes, disjoint",)


def test_on_clear_the_papers_number_stands_beside_the_reading_of_all_buckets(tmp_path):
    given = {"dataset": "clear-10", "stream": "clear", "match": "flops", "to": "er"}
    write_runs(tmp_path, "er", ER, extra={"accuracy_all_domains": 0.5}, **given)
    table = table_of(tmp_path, "A_AUC", "A_AUC_all", paper="clear")
    assert cell(table, "er", "A_AUC").paper is None
    assert cell(table, "er", "A_AUC_all").gap == pytest.approx(50 - 70.70)
    assert table.notes[-1] == (
        "the paper's A_AUC in clear is over all time buckets, beside A_AUC_all; "
        "A_AUC here is over those that have been seen"
    )
    assert default_metrics("clear") == ("A_AUC", "A_last", "A_AUC_all", "A_last_all")
    assert default_metrics("main") == default_metrics(None) == ("A_AUC", "A_last")
    assert "seen" not in " ".join(table_of(tmp_path, "A_last_all", "AOA", paper="clear").notes)


def test_where_the_paper_has_nothing_that_is_said(folder):
    table = table_of(folder, paper="main")
    assert table.notes == ("the paper's table main has no number for these runs",)
    assert body(markdown(table))[0] == ["method", "A_AUC", "A_last"]


# ---- how it is written


def test_csv_and_json_hold_every_number_in_full(folder):
    write_run(folder, "er", 4, [1 / 3, 0.777])
    table = table_of(folder, versus="er")
    records = json.loads(FORMATS["json"](table))["cells"]
    lines = list(csv.DictReader(FORMATS["csv"](table).splitlines()))
    assert len(records) == len(lines) == 4
    for record, line in zip(records, lines, strict=True):
        found = cell(table, record["row"], record["metric"])
        assert record["values"] == {str(s): v for s, v in found.values.items()}
        assert record["mean"] == float(line["mean"]) == found.spread.mean
        assert record["std"] == float(line["std"]) == found.spread.std
        if found.difference is None:
            assert record["difference"] is None and line["difference"] == ""
        else:
            assert record["low"] == float(line["low"]) == found.difference.low
        values = dict(part.split(":") for part in line["values"].split())
        assert {int(s): float(v) for s, v in values.items()} == found.values


def test_latex_has_balanced_columns_and_nothing_unescaped(cifar):
    write_runs(cifar, "er", ER, dataset="cifar10", stream="disjoint")
    write_runs(cifar, "earl", EARL, dataset="cifar10", settings={"per_class": 9})
    text = FORMATS["latex"](table_of(cifar, versus="er", paper="main", costs=True))
    parts = text.split(r"\begin{tabular}")[1:]
    assert len(parts) > 1
    for part in parts:
        columns = re.match(r"\{(lr*)\}", part)[1]
        rows = [line for line in part.splitlines() if line.endswith(r"\\")]
        for row in rows:
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", row)]
            cells = len(re.findall(r"(?<!\\)&", row)) + 1
            assert cells - len(spans) + sum(spans) == len(columns)
        rules = re.findall(r"\\cmidrule\(lr\)\{(\d+)-(\d+)\}", part)
        reach = [tuple(map(int, pair)) for pair in rules]
        assert reach[0][0] == 2 and reach[-1][1] == len(columns)
        assert all(a[1] + 1 == b[0] for a, b in pairwise(reach))
    comment, _, rest = text.partition("\n")
    assert comment.startswith("% Needs \\usepackage{booktabs}")
    rest = rest.replace("{!}{%\n", "{!}{\n")  # ends a line without a space
    assert rest.count("{") == rest.count("}") and rest.count("$") % 2 == 0
    assert not re.search(r"(?<!\\)[_%#]", rest)
    assert text.isascii()


def bold(text):
    return re.findall(r"^(.*?) &.*\\textbf\{([-$\d.]+)", text, re.M)


def test_latex_names_itself_and_what_it_needs(folder):
    text = FORMATS["latex"](table_of(folder, "A_AUC"))
    assert text.startswith("% Needs \\usepackage{booktabs} in the preamble.\n\\begin{table}\n")
    assert text.count(r"\label{tab:shapes-disjoint-a-auc}") == 1
    assert text.index(r"\caption") < text.index(r"\label")  # else it would be that of the section
    assert "resizebox" not in text and text.count(r"\begin{tabular}") == 1


def test_latex_has_the_best_mean_in_bold_be_it_the_highest_or_the_lowest(tmp_path):
    for method, accuracy, nc1 in (("er", 0.5, 0.25), ("earl", 0.75, 0.5), ("scr", 0.75, 0.125)):
        write_run(tmp_path, method, 1, [accuracy], extra={"NC1": nc1, "mine": accuracy})
    write_run(tmp_path, "ewc", 1, [0.25])
    text = FORMATS["latex"](table_of(tmp_path, "A_AUC"))
    assert bold(text) == [("earl", "75.00"), ("scr", "75.00")]  # they look the same
    assert "Bold: the best mean" in text
    assert bold(FORMATS["latex"](table_of(tmp_path, "NC1"))) == [("scr", "0.125")]
    assert bold(FORMATS["latex"](table_of(tmp_path, "mine"))) == []  # better, or worse?
    alone = FORMATS["latex"](table_of(tmp_path, "A_AUC", where=["method=er"]))
    assert "textbf" not in alone and "Bold" not in alone  # nothing to choose from


def test_a_wide_table_in_latex_is_broken_or_scaled(folder):
    """Two streams with comparisons do not fit beside each other; a long name fits nowhere."""
    write_runs(folder, "earl", EARL, stream="gaussian")
    write_runs(folder, "er", ER, stream="gaussian")
    text = FORMATS["latex"](table_of(folder, versus="er"))
    parts = text.split(r"\begin{tabular}")[1:]
    assert len(parts) == 2 and "disjoint" in parts[0] and "gaussian" in parts[1]
    assert text.count("70.00 $\\pm$ 5.00 (3)") == 2 and text.count(r"\label") == 1
    many = {name: 0.123 for name in ("lam", "tau")} | {"k": 123, "pairs_per_class": 7}
    many |= {"hidden": 77, "negative": "permutation", "policy": "class_reservoir"}
    write_runs(folder / "long", "earl", EARL, settings=many)
    text = FORMATS["latex"](table_of(folder / "long"))
    assert text.count(r"\resizebox{") == text.count(r"\end{tabular}}") >= 1
    assert r"\usepackage{graphicx}" in text.splitlines()[0]


def test_latex_escapes_what_it_would_not_print():
    assert tex("a_b & 50 % #1 {x} ~ ^ $ \\") == (
        r"a\_b \& 50 \% \#1 \{x\} \textasciitilde{} \textasciicircum{} \$ \textbackslash{}"
    )


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex")
def test_latex_compiles(cifar, tmp_path):
    long = {"negative": "permutation", "policy": "class_reservoir", "tau": 0.123, "k": 12345}
    write_runs(cifar, "earl", EARL, dataset="cifar10", stream="gaussian", settings=long)
    text = FORMATS["latex"](table_of(cifar, versus="er", paper="main", costs=True))
    begin = r"\documentclass{article}\usepackage{booktabs}\usepackage{graphicx}\begin{document}"
    document = begin + text + r"\end{document}"
    (tmp_path / "t.tex").write_text(document)
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    assert subprocess.run(words, cwd=tmp_path, capture_output=True).returncode == 0


@pytest.mark.parametrize("name", FORMATS)
def test_equal_runs_give_equal_bytes_wherever_they_are(name, tmp_path):
    texts = []
    for place, order in (("a/here", (1, 2, 3)), ("b", (3, 1, 2))):
        for seed in order:
            write_run(tmp_path / place, "er", seed, ER[seed])
            write_run(tmp_path / place, "earl", seed, EARL[seed])
        write_run(tmp_path / place, "er", 4, [0.5], finished=False)
        texts.append(FORMATS[name](table_of(tmp_path / place, versus="er")))
    assert texts[0] == texts[1]
    assert str(tmp_path) not in texts[0]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_terminal_shows_every_number_within_its_width(width, cifar):
    write_runs(cifar, "er", ER, dataset="cifar10", stream="disjoint")
    write_runs(cifar, "earl", EARL, dataset="cifar10", stream="disjoint")
    table = table_of(cifar, versus="er", paper="main")
    console = Console(width=width, file=io.StringIO(), highlight=False)
    show_table(table, console)
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    for row in body(markdown(table))[2:]:
        assert all(text in shown for text in row)
    assert "…" not in shown


def test_no_sign_stands_before_nothing():
    assert signed(-0.001) == signed(0.0) == signed(0.004) == "0.00"
    assert (signed(-1.5), signed(2)) == ("−1.50", "+2.00")
    assert (number(-0.001), number(-1.5)) == ("0.00", "−1.50")


# ---- the command


def earl(monkeypatch, capsys, *words):
    """Run a command in this process; return its exit code, its output and its complaints."""
    monkeypatch.setattr(sys, "argv", ["earl", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code or 0, *capsys.readouterr()


def test_the_command_prints_markdown_unless_asked(folder, monkeypatch, capsys):
    code, out, said = earl(monkeypatch, capsys, "table", folder, "--versus", "er")
    assert (code, said) == (0, "") and out == markdown(table_of(folder, versus="er"))
    _, out, _ = earl(monkeypatch, capsys, "table", folder, "--format", "terminal")
    assert "60.00 ± 10.00 (3)" in out and "|" not in out
    _, short, _ = earl(monkeypatch, capsys, "table", folder, "--json")
    _, long, _ = earl(monkeypatch, capsys, "table", folder, "--format", "json")
    assert short == long and json.loads(short)["cells"]


def test_notes_do_not_spoil_a_csv_file(folder, monkeypatch, capsys):
    write_run(folder, "er", 4, [0.5], finished=False)
    code, out, said = earl(monkeypatch, capsys, "table", folder, "--format", "csv")
    assert code == 0 and len(list(csv.DictReader(out.splitlines()))) == 4
    assert said == "note: left out, not finished (40 of 80 samples): shapes/disjoint/er/seed-4\n"


def test_a_refused_table_is_one_line(folder, monkeypatch, capsys):
    write_run(folder, "er", 4, [0.5], env={"earl": "9.9"})
    code, out, said = earl(monkeypatch, capsys, "table", folder)
    assert code == 1 and out == "" and said.startswith("earl: ") and said.count("\n") == 1
    code, _, said = earl(monkeypatch, capsys, "table", folder, "--metric", "A_lst")
    assert code == 1 and "did you mean 'A_last'?" in said
    code, _, said = earl(monkeypatch, capsys, "table", folder, "--format", "word")
    assert code == 2
